// The parts of maps that do not depend on the user's types.
#include <penstock/pipeline/map_stage.h>

#include <utility>

#include <penstock/pipeline/sample_of_row.h>

namespace penstock::detail {
namespace {

void require_field(const Field& field, const Tensor& tensor) {
  if (tensor.type() == field.type && field.shape.accepts(tensor.shape())) return;
  throw InvalidArgument("the function returned \"" + field.name + "\" as " + to_string(tensor.type()) + " " +
                        tensor.shape().to_string() + ", expected " + to_string(field.type) + " " +
                        field.shape.to_string());
}

}  // namespace

std::string identity_text(const Identity& identity) {
  if (identity.name.empty()) throw InvalidArgument("map: an identity without a name");
  // Lengths keep ("a", "bc") and ("ab", "c") apart.
  return std::to_string(identity.name.size()) + ":" + identity.name + ";" + std::to_string(identity.version) + ";" +
         identity.parameters;
}

Schema with_field(const Schema& schema, const std::string& field, DataType wanted, const Output& output, bool scalar) {
  const std::size_t at = schema.index_of(field);
  const Field& input = schema[at];
  if (input.type != wanted) {
    throw InvalidArgument("the function takes " + std::string(to_string(wanted)) + ", field \"" + field + "\" is " +
                          to_string(input.type));
  }
  if (scalar && input.shape.rank() != 0) {
    throw InvalidArgument("the function takes a scalar, field \"" + field + "\" has the shape " +
                          input.shape.to_string());
  }
  if (!output.shape.known()) {
    throw InvalidArgument("the output's shape " + output.shape.to_string() + " is not known in full");
  }
  std::vector<Field> fields = schema.fields();
  fields[at].type = output.type;
  fields[at].shape = output.shape;
  return Schema(std::move(fields));
}

MapBody sample_body(const Schema& input, const Schema& output, std::function<Sample(Sample, Draw&)> function) {
  return [input, output, function = std::move(function)](Row& row, Draw& draw) {
    const Sample result = function(sample_of(row, input), draw);
    if (result.tensors().size() != output.size()) {
      throw InvalidArgument("the function returned " + std::to_string(result.tensors().size()) + " fields, expected " +
                            std::to_string(output.size()) + ": " + output.to_string());
    }
    row.reset(row.origin(), output.size());
    for (std::size_t i = 0; i < output.size(); ++i) {
      const Tensor& tensor = result[output[i].name];
      require_field(output[i], tensor);
      row.hold(i, tensor);
    }
  };
}

}  // namespace penstock::detail
