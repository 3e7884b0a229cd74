// What users' functions return, held against the fields that their stage promises.
#pragma once

#include <string>

#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/sample.h>

namespace penstock::stage {

/// Fields after stage `name`: `outputs`, or those before it where there are none. Throws InvalidArgument.
Schema output_schema(const std::string& name, const Schema& before, const Outputs& outputs);

/// `returned` with its fields in the order of `expected`, as coming from `origin`. Throws InvalidArgument that names
/// the field, what it is and what was expected.
Sample conforming(const Sample& returned, const Schema& expected, Origin origin);

}  // namespace penstock::stage
