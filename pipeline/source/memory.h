// Samples that lie in memory already: small data sets, arrays made by the caller, tests.
#pragma once

#include <vector>

#include <penstock/pipeline/pipeline.h>

namespace penstock {

/// A pipeline over `samples`, in their order. They share names, types and ranks; a dimension that differs from sample
/// to sample is unknown in the schema. Bytes are shared, not copied. Throws InvalidArgument, with the sample's number,
/// when that does not hold, or when there is no sample to take the schema from.
///
/// A sample's fingerprint is a hash of its content (XXH3, 128 bits), worked out when it is asked for: equal content may
/// share a cache entry.
Pipeline memory(std::vector<Sample> samples);

/// The same from whole columns: `columns[f]` is `[N, shape of field f]`, N equal for all; sample i is row i of each. N
/// may be 0. Throws InvalidArgument, with the field's name, for columns that do not fit `schema` or each other.
Pipeline memory_columns(const Schema& schema, std::vector<Tensor> columns);

}  // namespace penstock
