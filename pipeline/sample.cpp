// Schemas and samples: names looked up, and told when they are not there.
#include <penstock/pipeline/sample.h>

#include <algorithm>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock {
namespace {

std::string no_such_field(std::string_view name, const std::vector<std::string>& names) {
  std::string text = "there is no field \"" + std::string(name) + "\"; there are: ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.empty() ? text + "none" : text;
}

}  // namespace

Schema::Schema(std::vector<Field> fields) : fields_(std::move(fields)) {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name.empty()) throw InvalidArgument("schema: field " + std::to_string(i) + " has no name");
    for (std::size_t j = 0; j < i; ++j) {
      if (fields_[j].name == fields_[i].name) {
        throw InvalidArgument("schema: there are two fields \"" + fields_[i].name + "\"");
      }
    }
  }
}

std::size_t Schema::index_of(std::string_view name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name == name) return i;
  }
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.name);
  throw InvalidArgument(no_such_field(name, names));
}

std::string Schema::to_string() const {
  std::string text;
  for (const Field& field : fields_) {
    if (!text.empty()) text += ", ";
    text += field.name + ": " + penstock::to_string(field.type) + " " + field.shape.to_string();
  }
  return text;
}

Sample::Sample(std::vector<std::string> names, std::vector<Tensor> tensors, Origin origin)
    : names_(std::move(names)), tensors_(std::move(tensors)), origin_(origin) {
  if (names_.size() != tensors_.size()) {
    throw InvalidArgument("sample: " + std::to_string(names_.size()) + " names for " + std::to_string(tensors_.size()) +
                          " tensors");
  }
}

const Tensor& Sample::operator[](std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) throw InvalidArgument(no_such_field(name, names_));
  return tensors_[static_cast<std::size_t>(at - names_.begin())];
}

void Sample::set(std::string_view name, Tensor tensor) {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) {
    tensors_[static_cast<std::size_t>(at - names_.begin())] = std::move(tensor);
    return;
  }
  names_.emplace_back(name);
  tensors_.push_back(std::move(tensor));
}

std::size_t Sample::size_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors_) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace penstock
