// Mean and deviation are those that ImageNet's models take, and one half for grey pictures: they change no speed.
#include <penstock/trainer/command/bench_chain.h>

#include <array>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/report/batch_hash.h>
#include <penstock/trainer/command/argument.h>

namespace penstock::trainer::command {
namespace {

const Field& image_of(const Schema& samples) { return samples[samples.index_of("image")]; }
bool encoded(const Schema& samples) { return image_of(samples).shape.rank() == 1; }

MapStage normalise_planes(std::int64_t channels) {
  if (channels == 1) return normalise({0.5F}, {0.5F}, {.layout = Layout::kChw});
  return normalise({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}, {.layout = Layout::kChw});
}

MapStage hash_of_bytes() {
  return view_map(
      "image", Output{DataType::kI64, {}},
      [](View<const std::uint8_t> bytes, View<std::int64_t> hash) {
        hash[0] = static_cast<std::int64_t>(hash_bytes(bytes.data(), static_cast<std::size_t>(bytes.size())));
      },
      "penstock bench: XXH3 of bytes, 1");
}

using Arguments = std::vector<std::string>;

std::int64_t number(const std::string& text) {
  constexpr std::uint64_t kMost = 65535;
  const std::uint64_t value = parse_count("--map", text, 1);
  if (value > kMost) throw InvalidArgument("--map: at most 65535 is expected, got '" + text + "'");
  return static_cast<std::int64_t>(value);
}

/// A map as it is typed.
struct NamedMap {
  const char* name;
  const char* arguments;  ///< for the help and for messages; empty: none
  std::size_t least;
  std::size_t most;
  MapStage (*make)(const Arguments& arguments, std::int64_t channels);
};

constexpr std::array<NamedMap, 8> kMaps{{
    {"decode", "[CHANNELS]", 0, 1,
     [](const Arguments& a, std::int64_t) {
       return decode_image({.channels = a.empty() ? 3 : static_cast<int>(number(a[0]))});
     }},
    {"resize", "SHORT_SIDE or HEIGHT,WIDTH", 1, 2,
     [](const Arguments& a, std::int64_t) {
       return a.size() == 1 ? resize_short_side(number(a[0])) : resize(number(a[0]), number(a[1]));
     }},
    {"center_crop", "SIDE", 1, 1, [](const Arguments& a, std::int64_t) { return center_crop(number(a[0])); }},
    {"random_crop", "SIDE[,PADDING]", 1, 2,
     [](const Arguments& a, std::int64_t) {
       return random_crop(number(a[0]), {.padding = a.size() == 2 ? number(a[1]) : 0});
     }},
    {"random_resized_crop", "SIDE", 1, 1,
     [](const Arguments& a, std::int64_t) { return random_resized_crop(number(a[0])); }},
    {"random_flip", "[PROBABILITY]", 0, 1,
     [](const Arguments& a, std::int64_t) { return random_flip(a.empty() ? 0.5 : parse_rate("--map", a[0])); }},
    {"normalise", "", 0, 0, [](const Arguments&, std::int64_t channels) { return normalise_planes(channels); }},
    {"hash", "", 0, 0, [](const Arguments&, std::int64_t) { return hash_of_bytes(); }},
}};

std::string map_names() {
  std::string list;
  for (const NamedMap& map : kMaps) list += (list.empty() ? "" : ", ") + std::string(map.name);
  return list;
}

Arguments split(const std::string& text) {
  Arguments parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == text.npos) return parts;
    begin = comma + 1;
  }
}

MapStage parse_map(const std::string& text, std::int64_t channels) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  for (const NamedMap& map : kMaps) {
    if (name != map.name) continue;
    const Arguments arguments = colon == text.npos ? Arguments{} : split(text.substr(colon + 1));
    if (arguments.size() < map.least || arguments.size() > map.most) {
      throw InvalidArgument("--map: " + name + (map.most == 0 ? "" : ":") + map.arguments + " is expected, got '" +
                            text + "'");
    }
    return map.make(arguments, channels);
  }
  throw InvalidArgument("--map: '" + text + "' is no map; there are " + map_names());
}

std::int64_t channels_of(const Shape& shape, std::int64_t otherwise) {
  return shape.rank() == 3 && shape[2] > 0 ? shape[2] : otherwise;
}

}  // namespace

std::string chain_help() {
  return "eval (decode, short side 256, centre crop 224, normalise), random (decode, random resized crop 224, flip, "
         "normalise), none (reading alone)";
}

std::string map_help() {
  std::string list;
  for (const NamedMap& map : kMaps) {
    list += (list.empty() ? "" : ", ") + std::string(map.name);
    if (map.most > 0) list += std::string(":") + map.arguments;
  }
  return list;
}

std::vector<MapStage> chain_maps(const std::string& name, const Schema& samples) {
  const Shape& shape = image_of(samples).shape;
  if (name == "none") return encoded(samples) ? std::vector{hash_of_bytes()} : std::vector<MapStage>{};
  if (name != "eval" && name != "random") {
    throw InvalidArgument("--chain: eval, random or none is expected, got '" + name + "'");
  }
  const bool random = name == "random";
  if (encoded(samples)) {
    if (random) return {decode_image(), random_resized_crop(224), random_flip(), normalise_planes(3)};
    return {decode_image(), resize_short_side(256), center_crop(224), normalise_planes(3)};
  }
  const MapStage planes = normalise_planes(channels_of(shape, 3));
  if (random) return {random_crop(shape[0], shape[1], {.padding = 4}), random_flip(), planes};
  return {planes};
}

std::vector<MapStage> parse_maps(const std::vector<std::string>& texts, const Schema& samples) {
  Schema now = samples;
  std::vector<MapStage> maps;
  for (const std::string& text : texts) {
    try {
      maps.push_back(parse_map(text, channels_of(image_of(now).shape, 3)));
      now = maps.back().output(now);
    } catch (const InvalidArgument& error) {
      const std::string message = error.what();
      throw InvalidArgument(message.starts_with("--map") ? message : "--map: '" + text + "': " + message);
    }
  }
  return maps;
}

Pipeline with_maps(Pipeline samples, const std::vector<MapStage>& maps, const std::shared_ptr<SampleStore>& store) {
  bool cached = store == nullptr;
  for (const MapStage& map : maps) {
    if (!cached && map.draws) samples = samples.cache(store);
    cached = cached || map.draws;
    samples = samples.map(map);
  }
  return cached ? samples : samples.cache(store);
}

}  // namespace penstock::trainer::command
