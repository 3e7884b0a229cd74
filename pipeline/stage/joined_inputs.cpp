// Inputs are numbered from 0 in messages.
#include <penstock/pipeline/stage/joined_inputs.h>

#include <algorithm>
#include <span>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::stage {
namespace {

std::string text_of(const Field& field) { return std::string(to_string(field.type)) + " " + field.shape.to_string(); }

const Field* find(const Schema& schema, const std::string& name) {
  const auto at = std::find_if(schema.fields().begin(), schema.fields().end(),
                               [&](const Field& field) { return field.name == name; });
  return at == schema.fields().end() ? nullptr : &*at;
}

// Widens `field` to what it is in input `number`, too.
void widen(const std::string& stage, Field& field, const Schema& schema, std::size_t number) {
  const Field* const other = find(schema, field.name);
  const std::string of_input = " in input " + std::to_string(number);
  if (!other) {
    throw InvalidArgument(stage + ": field \"" + field.name + "\" of input 0 is not there" + of_input + " (" +
                          schema.to_string() + ")");
  }
  if (other->type != field.type || other->shape.rank() != field.shape.rank()) {
    throw InvalidArgument(stage + ": field \"" + field.name + "\" is " + text_of(field) + " in input 0 and " +
                          text_of(*other) + of_input);
  }
  std::vector<std::int64_t> dims(field.shape.dims().begin(), field.shape.dims().end());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != other->shape[i]) dims[i] = Shape::kUnknown;
  }
  field.shape = Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

void require_inputs(const std::string& stage, const std::vector<Pipeline>& inputs, std::size_t least) {
  if (inputs.size() < least) {
    throw InvalidArgument(stage + ": " + std::to_string(inputs.size()) + " inputs; at least " + std::to_string(least) +
                          (least == 1 ? " is needed" : " are needed"));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].plan().batch_depth > 0) {
      throw InvalidArgument(stage + ": input " + std::to_string(i) + " is batched; say batch after " + stage);
    }
  }
}

Schema common_schema(const std::string& stage, const std::vector<Pipeline>& inputs) {
  std::vector<Field> fields = inputs.front().schema().fields();
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Schema& schema = inputs[i].schema();
    for (Field& field : fields) widen(stage, field, schema, i);
    for (const Field& field : schema.fields()) {
      if (find(inputs.front().schema(), field.name)) continue;
      throw InvalidArgument(stage + ": field \"" + field.name + "\" of input " + std::to_string(i) +
                            " is not there in input 0 (" + inputs.front().schema().to_string() + ")");
    }
  }
  return Schema(std::move(fields));
}

Sample in_order(Sample sample, const Schema& schema) {
  const bool ordered =
      std::equal(schema.fields().begin(), schema.fields().end(), sample.names().begin(), sample.names().end(),
                 [](const Field& field, const std::string& name) { return field.name == name; });
  if (ordered) return sample;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const Field& field : schema.fields()) {
    names.push_back(field.name);
    tensors.push_back(sample[field.name]);
  }
  return Sample(std::move(names), std::move(tensors), sample.origin());
}

}  // namespace penstock::stage
