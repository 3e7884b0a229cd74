// The list of tensors is worked out from graph and layout alone, for writing and for reading, so a file fits a model or
// is refused. The checksum covers header and data; everything else that is read has been proved whole by it.
#include <penstock/trainer/checkpoint.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include <penstock/trainer/train_json.h>
#include <penstock/trainer/whole_file.h>

namespace penstock::trainer {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kNoChecksum = "0000000000000000";
constexpr std::string_view kChecksumKey = "\"checksum\":\"";
constexpr std::string_view kMetricSums = "penstock.train_metrics";
static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

// A tensor of the file and its place in the model's state.
struct Tensor {
  std::string name;
  std::string type;                 // as safetensors names it
  std::vector<std::int64_t> shape;  // in the file
  std::uint64_t offset = 0;         // in the state
  std::uint64_t bytes = 0;
  bool is_filter = false;  // [K, C, R, S] in the file, [K, R, S, C] in the state
};

Tensor tensor_of(const std::string& name, const Parameter& parameter, std::uint64_t offset) {
  Tensor tensor{name, "F32", {}, offset, 0, parameter.shape.rank() == 4};
  for (const std::int64_t dim : parameter.shape.dims()) tensor.shape.push_back(dim);
  if (tensor.is_filter) {
    const Shape& s = parameter.shape;
    tensor.shape = {s[0], s[3], s[1], s[2]};
  }
  tensor.bytes = static_cast<std::uint64_t>(parameter.shape.element_count()) * sizeof(float);
  return tensor;
}

std::vector<Tensor> tensors_of(const ModelGraph& graph, const ModelLayout& layout) {
  std::vector<Tensor> tensors;
  const std::vector<Parameter>& parameters = graph.parameters();
  tensors.reserve(2 * parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back(tensor_of(parameters[i].name, parameters[i], layout.weights[i]));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trained) continue;
    tensors.push_back(tensor_of("momentum." + parameters[i].name, parameters[i], layout.momenta[i]));
  }
  tensors.push_back(
      {std::string(kMetricSums), "U8", {sizeof(MetricSums)}, layout.train_metrics, sizeof(MetricSums), false});
  return tensors;
}

// Filters between [K, R, S, C] and [K, C, R, S]; `shape` is that of the file.
void filters_to_file(const float* from, float* to, const std::vector<std::int64_t>& shape) {
  const std::int64_t taps = shape[2] * shape[3];
  for (std::int64_t k = 0; k < shape[0]; ++k, from += shape[1] * taps, to += shape[1] * taps) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < shape[1]; ++c) to[c * taps + tap] = from[tap * shape[1] + c];
    }
  }
}
void filters_from_file(const float* from, float* to, const std::vector<std::int64_t>& shape) {
  const std::int64_t taps = shape[2] * shape[3];
  for (std::int64_t k = 0; k < shape[0]; ++k, from += shape[1] * taps, to += shape[1] * taps) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < shape[1]; ++c) to[tap * shape[1] + c] = from[c * taps + tap];
    }
  }
}

std::string state_to_json(const CheckpointState& state) {
  Json identity = Json::object();
  for (const auto& [name, value] : state.identity) identity[name] = value;
  Json rows = Json::array();
  for (const EpochRow& row : state.rows) rows.push_back(Json::parse(row_to_json(row)));
  return Json{{"version", 1},
              {"phase", state.phase == CheckpointPhase::kTraining ? "training" : "validation_pending"},
              {"epoch", state.epoch},
              {"epoch_steps", state.epoch_steps},
              {"position", {{"epoch", state.position.epoch}, {"slot", state.position.slot}}},
              {"epoch_seconds", state.epoch_seconds},
              {"epoch_wait_seconds", state.epoch_wait_seconds},
              {"identity", identity},
              {"classes", state.classes},
              {"recipe", Json::parse(state.recipe)},
              {"rows", rows}}
      .dump();
}

CheckpointState state_from_json(const std::string& text) {
  const Json data = Json::parse(text);
  CheckpointState state;
  if (data.at("version").get<int>() != 1) throw InvalidArgument("written by a later version");
  const auto phase = data.at("phase").get<std::string>();
  state.phase = phase == "training" ? CheckpointPhase::kTraining : CheckpointPhase::kValidationPending;
  state.epoch = data.at("epoch").get<std::uint64_t>();
  state.epoch_steps = data.at("epoch_steps").get<std::uint64_t>();
  state.position = {data.at("position").at("epoch").get<std::uint64_t>(),
                    data.at("position").at("slot").get<std::uint64_t>()};
  state.epoch_seconds = data.at("epoch_seconds").get<double>();
  state.epoch_wait_seconds = data.at("epoch_wait_seconds").get<double>();
  for (const auto& [name, value] : data.at("identity").items())
    state.identity.emplace_back(name, value.get<std::string>());
  state.classes = data.at("classes").get<std::vector<std::string>>();
  state.recipe = data.at("recipe").dump();
  for (const Json& row : data.at("rows")) state.rows.push_back(row_from_json(row.dump()));
  return state;
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

std::uint64_t checksum(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const std::span<const std::byte>& part : parts) XXH3_64bits_update(&state, part.data(), part.size());
  return XXH3_64bits_digest(&state);
}

std::array<std::byte, kLengthBytes> length_bytes(std::uint64_t length) {
  return std::bit_cast<std::array<std::byte, kLengthBytes>>(length);
}

// A file that has been proved whole.
struct WholeCheckpoint {
  Json header;
  std::vector<std::byte> bytes;
  std::size_t data_begin = 0;
};

[[noreturn]] void corrupt(const std::filesystem::path& file, const std::string& why) {
  throw CheckpointCorrupt("checkpoint_corrupt: \"" + file.string() + "\": " + why);
}

WholeCheckpoint read_whole(const std::filesystem::path& file) {
  WholeCheckpoint whole;
  whole.bytes = read_file(file);
  const std::size_t size = whole.bytes.size();
  if (size < kLengthBytes) corrupt(file, "it has " + std::to_string(size) + " bytes");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.bytes.data(), kLengthBytes);
  if (header_bytes > size - kLengthBytes) {
    corrupt(file, "its header claims " + std::to_string(header_bytes) + " bytes, the file has " + std::to_string(size));
  }
  char* const text = reinterpret_cast<char*>(whole.bytes.data() + kLengthBytes);
  const std::string_view header(text, header_bytes);
  // The state is a string inside the header: its quotes are escaped, so the first plain key is the checksum's.
  const std::size_t key = header.find(kChecksumKey);
  if (key == std::string_view::npos || key + kChecksumKey.size() + kNoChecksum.size() > header.size()) {
    corrupt(file, "it has no checksum");
  }
  char* const digits = text + key + kChecksumKey.size();
  const std::string stored(digits, kNoChecksum.size());
  std::memcpy(digits, kNoChecksum.data(), kNoChecksum.size());
  const std::span<const std::byte> all = whole.bytes;
  if (hex(checksum({&all, 1})) != stored) corrupt(file, "its checksum does not match: the file was cut or changed");
  try {
    whole.header = Json::parse(header);
  } catch (const Json::exception& error) {
    corrupt(file, error.what());
  }
  whole.data_begin = kLengthBytes + header_bytes;
  return whole;
}

CheckpointState state_of(const WholeCheckpoint& whole, const std::filesystem::path& file) {
  try {
    return state_from_json(whole.header.at("__metadata__").at("penstock").get<std::string>());
  } catch (const std::exception& error) {
    corrupt(file, std::string("its state cannot be read: ") + error.what());
  }
}

}  // namespace

void write_checkpoint(const std::filesystem::path& file, const ModelGraph& graph, const ModelLayout& layout,
                      const CheckpointState& state, const std::byte* model) {
  const std::vector<Tensor> tensors = tensors_of(graph, layout);
  Json header;
  header["__metadata__"] = {{"format", "pt"}, {"checksum", kNoChecksum}, {"penstock", state_to_json(state)}};
  std::uint64_t data_bytes = 0;
  for (const Tensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {data_bytes, data_bytes + tensor.bytes}}};
    data_bytes += tensor.bytes;
  }
  std::vector<std::byte> data(data_bytes);
  std::byte* to = data.data();
  for (const Tensor& tensor : tensors) {
    const std::byte* const from = model + tensor.offset;
    if (tensor.is_filter) {
      filters_to_file(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), tensor.shape);
    } else {
      std::memcpy(to, from, tensor.bytes);
    }
    to += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::array<std::byte, kLengthBytes> length = length_bytes(text.size());
  const std::array<std::span<const std::byte>, 3> parts{length, std::as_bytes(std::span(text)), data};
  const std::string digits = hex(checksum(parts));
  text.replace(text.find(kChecksumKey) + kChecksumKey.size(), digits.size(), digits);
  replace_file(file, parts);
}

CheckpointState read_checkpoint_state(const std::filesystem::path& file) { return state_of(read_whole(file), file); }

Checkpoint read_checkpoint(const std::filesystem::path& file, const ModelGraph& graph, const ModelLayout& layout) {
  const WholeCheckpoint whole = read_whole(file);
  Checkpoint checkpoint{state_of(whole, file), std::vector<std::byte>(layout.state_bytes)};
  for (const Tensor& tensor : tensors_of(graph, layout)) {
    const auto found = whole.header.find(tensor.name);
    if (found == whole.header.end()) corrupt(file, "it has no tensor \"" + tensor.name + "\"");
    std::uint64_t begin = 0;
    try {
      const auto offsets = found->at("data_offsets").get<std::array<std::uint64_t, 2>>();
      begin = offsets[0];
      if (found->at("dtype").get<std::string>() != tensor.type ||
          found->at("shape").get<std::vector<std::int64_t>>() != tensor.shape || begin % sizeof(float) != 0 ||
          offsets[1] - offsets[0] != tensor.bytes || offsets[1] > whole.bytes.size() - whole.data_begin) {
        corrupt(file, "tensor \"" + tensor.name + "\" has another type, shape or place than the model's");
      }
    } catch (const Json::exception& error) {
      corrupt(file, error.what());
    }
    const std::byte* const from = whole.bytes.data() + whole.data_begin + begin;
    std::byte* const to = checkpoint.model.data() + tensor.offset;
    if (tensor.is_filter) {
      filters_from_file(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), tensor.shape);
    } else {
      std::memcpy(to, from, tensor.bytes);
    }
  }
  return checkpoint;
}

std::string identity_differences(const JobIdentity& checkpoint, const JobIdentity& now) {
  const auto value_in = [](const JobIdentity& identity, const std::string& name) -> std::string {
    const auto found =
        std::find_if(identity.begin(), identity.end(), [&](const auto& item) { return item.first == name; });
    return found == identity.end() ? "nothing" : found->second;
  };
  std::string text;
  const auto compare = [&](const std::string& name) {
    const std::string before = value_in(checkpoint, name);
    const std::string after = value_in(now, name);
    if (before == after) return;
    text += (text.empty() ? "" : "; ") + name + ": " + before + " in the checkpoint, " + after + " now";
  };
  for (const auto& [name, value] : now) compare(name);
  for (const auto& [name, value] : checkpoint) {
    if (value_in(now, name) == "nothing") compare(name);
  }
  return text;
}

}  // namespace penstock::trainer
