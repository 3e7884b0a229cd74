// Copies: what a user's function gets may be kept by it, the row's memory is used again.
#include <penstock/pipeline/sample_of_row.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

Sample sample_of(const Row& row, const Schema& schema) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  names.reserve(schema.size());
  tensors.reserve(schema.size());
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const Cell& cell = row.cell(i);
    names.push_back(schema[i].name);
    tensors.push_back(Tensor::copy_of_bytes(cell.type, cell.shape, {cell.data, cell.size_bytes()}));
  }
  return Sample(std::move(names), std::move(tensors), row.origin());
}

}  // namespace penstock::detail
