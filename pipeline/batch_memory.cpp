// Fields of a batch one after another in one block, each at a multiple of 64 bytes, rows dense.
#include <penstock/pipeline/batch_memory.h>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

std::size_t checked_product(std::size_t a, std::size_t b, const std::string& field) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > (std::size_t{1} << 62)) {
    throw InvalidArgument("field \"" + field + "\" of this batch takes more bytes than can be counted");
  }
  return product;
}

}  // namespace

BatchLayout BatchLayout::of(const Schema& schema, std::size_t batch_size) {
  if (batch_size == 0) throw InvalidArgument("a batch of 0 rows");
  BatchLayout layout;
  layout.batch_size = batch_size;
  for (const Field& field : schema.fields()) {
    if (!field.shape.known()) {
      throw InvalidArgument("field \"" + field.name + "\" has the shape " + field.shape.to_string() +
                            ", and rows of a batch need one that is known; resize or crop it first");
    }
    std::size_t row_bytes = byte_size(field.type);
    for (const std::int64_t dim : field.shape.dims()) {
      row_bytes = checked_product(row_bytes, static_cast<std::size_t>(dim), field.name);
    }
    layout.fields.push_back({field, layout.size_bytes, row_bytes, row_bytes});
    layout.size_bytes += engine::aligned(checked_product(row_bytes, batch_size, field.name));
  }
  return layout;
}

std::size_t BatchLayout::index_of(std::string_view name) const {
  std::string names;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].field.name == name) return i;
    names += (i > 0 ? ", " : "") + fields[i].field.name;
  }
  throw InvalidArgument("there is no field \"" + std::string(name) +
                        "\"; there are: " + (names.empty() ? "none" : names));
}

}  // namespace penstock
