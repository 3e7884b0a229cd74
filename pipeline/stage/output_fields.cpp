// A sample whose fields already stand in order, the usual case, is taken as it is.
#include <penstock/pipeline/stage/output_fields.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>

namespace penstock::stage {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text.empty() ? "none" : text;
}

std::string text_of(DataType type, const Shape& shape) {
  return std::string(to_string(type)) + " " + shape.to_string();
}

const Tensor& required(const Sample& returned, const Field& field) {
  const auto at = std::find(returned.names().begin(), returned.names().end(), field.name);
  if (at == returned.names().end()) {
    throw InvalidArgument("the function returned no field \"" + field.name + "\", expected " +
                          text_of(field.type, field.shape) + "; it returned " + listed(returned.names()));
  }
  const Tensor& tensor = returned.tensors()[static_cast<std::size_t>(at - returned.names().begin())];
  if (tensor.type() != field.type || !field.shape.accepts(tensor.shape())) {
    throw InvalidArgument("the function returned \"" + field.name + "\" as " + text_of(tensor.type(), tensor.shape()) +
                          ", expected " + text_of(field.type, field.shape));
  }
  return tensor;
}

}  // namespace

Schema output_schema(const std::string& name, const Schema& before, const Outputs& outputs) {
  if (outputs.empty()) return before;
  try {
    return Schema(outputs);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(name + ": outputs: " + error.what());
  }
}

Sample conforming(const Sample& returned, const Schema& expected, Origin origin) {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  names.reserve(expected.size());
  tensors.reserve(expected.size());
  for (const Field& field : expected.fields()) {
    tensors.push_back(required(returned, field));
    names.push_back(field.name);
  }
  // All expected names were found, so more fields than those are fields too many.
  if (returned.names().size() != expected.size()) {
    throw InvalidArgument("the function returned the fields " + listed(returned.names()) + ", expected " +
                          (expected.size() == 0 ? "none" : listed(names)));
  }
  return Sample(std::move(names), std::move(tensors), origin);
}

}  // namespace penstock::stage
