// A row as a sample of its own, for users' functions that take whole samples.
#pragma once

#include <penstock/pipeline/row.h>
#include <penstock/pipeline/sample.h>

namespace penstock::detail {

/// Copies the present values of `row`, whose fields are those of `schema`.
Sample sample_of(const Row& row, const Schema& schema);

}  // namespace penstock::detail
