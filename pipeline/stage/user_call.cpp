// Elements around users' functions.
#include <penstock/pipeline/stage/user_call.h>

namespace penstock::stage {

engine::Element without_sample(const engine::Element& of) {
  engine::Element element;
  element.kind = of.kind;
  element.lineage = of.lineage;
  element.origins = of.origins;
  element.row_origins = of.row_origins;
  element.failure = of.failure;
  return element;
}

std::vector<std::vector<Origin>> row_origins(const engine::Element& from, const Sample& made) {
  if (from.row_origins.empty() || made.tensors().empty() || made.tensors().front().shape().rank() == 0) return {};
  // A batch may be filled up with rows that are none, so the leading dimensions are compared.
  const std::int64_t rows = made.tensors().front().shape()[0];
  if (rows == from.sample.tensors().front().shape()[0]) return from.row_origins;
  return std::vector<std::vector<Origin>>(static_cast<std::size_t>(rows), from.origins);
}

}  // namespace penstock::stage
