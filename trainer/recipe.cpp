// Recipes are data: a chain is built from names and parameters, so that one read from a file or a checkpoint is as good
// as one that is built in.
#include <penstock/trainer/recipe.h>

#include <initializer_list>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>

namespace penstock::trainer {

namespace {

using nlohmann::json;

// ResNet-9 of width 8 on Fashion-MNIST. Mean and deviation are those of its 60,000 training pictures.
Recipe fashion() {
  Recipe recipe;
  recipe.name = "fashion";
  recipe.channels = 1;
  recipe.source_height = 28;
  recipe.source_width = 28;
  const MapSpec pad{"pad", {{"height", 32}, {"width", 32}}};
  recipe.train = {pad, {"random_flip", {{"probability", 0.5}}}};
  recipe.val = {pad};
  recipe.mean = {72.94 / 255};
  recipe.deviation = {90.02 / 255};
  recipe.peak_learning_rate = 0.2;
  recipe.peak_fraction = 0.25;
  recipe.momentum = 0.9;
  recipe.weight_decay = 5e-4;
  recipe.label_smoothing = 0.1;
  return recipe;
}

double parameter(const MapSpec& spec, const std::string& name) {
  const auto found = spec.parameters.find(name);
  if (found == spec.parameters.end()) throw InvalidArgument("recipe: map " + spec.name + " needs \"" + name + "\"");
  return found->second;
}

std::int64_t whole_parameter(const MapSpec& spec, const std::string& name) {
  const double value = parameter(spec, name);
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) != value) {
    throw InvalidArgument("recipe: \"" + name + "\" of map " + spec.name + " must be a whole number");
  }
  return whole;
}

void allow_only(const MapSpec& spec, std::initializer_list<const char*> names) {
  for (const auto& [given, value] : spec.parameters) {
    bool known = false;
    for (const char* const name : names) known = known || given == name;
    if (!known) throw InvalidArgument("recipe: map " + spec.name + " has no parameter \"" + given + "\"");
  }
}

MapStage make_map(const MapSpec& spec) {
  if (spec.name == "random_flip") {
    allow_only(spec, {"probability"});
    return random_flip(parameter(spec, "probability"));
  }
  if (spec.name == "random_crop") {
    allow_only(spec, {"height", "width", "padding"});
    return random_crop(whole_parameter(spec, "height"), whole_parameter(spec, "width"),
                       {.padding = whole_parameter(spec, "padding")});
  }
  const bool known = spec.name == "resize" || spec.name == "pad" || spec.name == "center_crop";
  if (!known) {
    throw InvalidArgument("recipe: unknown map \"" + spec.name +
                          "\": there are resize, pad, random_crop, center_crop, random_flip");
  }
  allow_only(spec, {"height", "width"});
  const std::int64_t height = whole_parameter(spec, "height");
  const std::int64_t width = whole_parameter(spec, "width");
  if (spec.name == "resize") return resize(height, width);
  return center_crop(height, width, {.pad = spec.name == "pad" ? Pad::kFill : Pad::kNone});
}

json chain_to_json(const std::vector<MapSpec>& chain) {
  json list = json::array();
  for (const MapSpec& spec : chain) list.push_back({{"map", spec.name}, {"parameters", spec.parameters}});
  return list;
}

std::vector<MapSpec> chain_from_json(const json& list) {
  std::vector<MapSpec> chain;
  for (const json& item : list) {
    chain.push_back({item.at("map").get<std::string>(), item.at("parameters").get<std::map<std::string, double>>()});
  }
  return chain;
}

void check(const Recipe& recipe) {
  const auto refuse = [&](const std::string& why) { throw InvalidArgument("recipe " + recipe.name + ": " + why); };
  if (recipe.channels != 1 && recipe.channels != 3) refuse("channels must be 1 or 3");
  if (recipe.source_height < 1 || recipe.source_width < 1) refuse("the source size must be at least 1x1");
  const auto channels = static_cast<std::size_t>(recipe.channels);
  if (recipe.mean.size() != channels || recipe.deviation.size() != channels) {
    refuse("mean and deviation need one number a channel");
  }
  for (const double deviation : recipe.deviation) {
    if (!(deviation > 0)) refuse("deviations must be above 0");
  }
  if (!(recipe.peak_learning_rate > 0)) refuse("the peak learning rate must be above 0");
  if (!(recipe.peak_fraction >= 0 && recipe.peak_fraction <= 1)) refuse("the peak fraction must be in [0, 1]");
  if (!(recipe.momentum >= 0 && recipe.momentum < 1)) refuse("momentum must be in [0, 1)");
  if (!(recipe.weight_decay >= 0)) refuse("weight decay must not be negative");
  if (!(recipe.label_smoothing >= 0 && recipe.label_smoothing < 1)) refuse("label smoothing must be in [0, 1)");
}

bool is_known_as(const Shape& shape, std::int64_t height, std::int64_t width) {
  return shape[0] == height && shape[1] == width;
}

}  // namespace

std::vector<std::string> recipe_names() { return {"fashion"}; }

Recipe recipe_by_name(const std::string& name) {
  if (name == "fashion") return fashion();
  std::string names;
  for (const std::string& known : recipe_names()) names += (names.empty() ? "" : ", ") + known;
  throw InvalidArgument("unknown recipe \"" + name + "\": there are " + names);
}

std::string recipe_to_json(const Recipe& recipe) {
  return json{{"name", recipe.name},
              {"channels", recipe.channels},
              {"source_height", recipe.source_height},
              {"source_width", recipe.source_width},
              {"train", chain_to_json(recipe.train)},
              {"val", chain_to_json(recipe.val)},
              {"mean", recipe.mean},
              {"deviation", recipe.deviation},
              {"peak_learning_rate", recipe.peak_learning_rate},
              {"peak_fraction", recipe.peak_fraction},
              {"momentum", recipe.momentum},
              {"weight_decay", recipe.weight_decay},
              {"label_smoothing", recipe.label_smoothing}}
      .dump();
}

Recipe recipe_from_json(const std::string& text) {
  Recipe recipe;
  try {
    const json data = json::parse(text);
    recipe.name = data.at("name").get<std::string>();
    recipe.channels = data.at("channels").get<std::int64_t>();
    recipe.source_height = data.at("source_height").get<std::int64_t>();
    recipe.source_width = data.at("source_width").get<std::int64_t>();
    recipe.train = chain_from_json(data.at("train"));
    recipe.val = chain_from_json(data.at("val"));
    recipe.mean = data.at("mean").get<std::vector<double>>();
    recipe.deviation = data.at("deviation").get<std::vector<double>>();
    recipe.peak_learning_rate = data.at("peak_learning_rate").get<double>();
    recipe.peak_fraction = data.at("peak_fraction").get<double>();
    recipe.momentum = data.at("momentum").get<double>();
    recipe.weight_decay = data.at("weight_decay").get<double>();
    recipe.label_smoothing = data.at("label_smoothing").get<double>();
  } catch (const json::exception& error) {
    throw InvalidArgument(std::string("not a recipe: ") + error.what());
  }
  check(recipe);
  return recipe;
}

Pipeline apply_recipe(const Recipe& recipe, Pipeline samples, Phase phase, std::shared_ptr<SampleStore> cache) {
  check(recipe);
  if (phase == Phase::kTrain) samples = samples.shuffle();

  std::vector<MapStage> chain;
  const Field& image = samples.schema()[samples.schema().index_of("image")];
  if (image.shape.rank() == 1) {
    chain.push_back(decode_image({.channels = static_cast<int>(recipe.channels)}));
    chain.push_back(resize(recipe.source_height, recipe.source_width));
  } else if (image.shape.rank() != 3 || image.type != DataType::kU8 || image.shape[2] != recipe.channels) {
    throw InvalidArgument("recipe " + recipe.name + ": pictures must be encoded, or u8 [height, width, " +
                          std::to_string(recipe.channels) + "], not " + to_string(image.type) + " " +
                          image.shape.to_string());
  } else if (!is_known_as(image.shape, recipe.source_height, recipe.source_width)) {
    chain.push_back(resize(recipe.source_height, recipe.source_width));
  }
  for (const MapSpec& spec : phase == Phase::kTrain ? recipe.train : recipe.val) chain.push_back(make_map(spec));

  for (MapStage& stage : chain) {
    if (cache && stage.draws) samples = samples.cache(std::exchange(cache, nullptr));
    samples = samples.map(std::move(stage));
  }
  return cache ? samples.cache(std::move(cache)) : samples;
}

}  // namespace penstock::trainer
