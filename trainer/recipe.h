// A recipe: everything about the data transforms and the optimisation that changes results, as plain data with a name.
// It is written to the run folder and into every checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/sample_store.h>

namespace penstock::trainer {

/// What a pipeline or program is for.
enum class Phase : std::uint8_t { kTrain, kVal };

/// One named map of a chain with its parameters. Names: `resize` (height, width), `pad` (height, width; zeros around
/// the picture), `random_crop` (height, width, padding), `center_crop` (height, width), `random_flip` (probability).
struct MapSpec {
  std::string name;
  std::map<std::string, double> parameters;
  friend bool operator==(const MapSpec&, const MapSpec&) = default;
};

/// Transform chains, normalisation and optimisation of a kind of training.
struct Recipe {
  std::string name;
  std::int64_t channels = 1;       ///< what pictures are decoded to: 1 (grey) or 3 (RGB)
  std::int64_t source_height = 0;  ///< pictures of another size are resized to this before the chain
  std::int64_t source_width = 0;
  std::vector<MapSpec> train;  ///< in order, after decoding and resizing
  std::vector<MapSpec> val;
  std::vector<double> mean;         ///< per channel, of values in [0, 1]
  std::vector<double> deviation;    ///< per channel, of values in [0, 1]
  double peak_learning_rate = 0.1;  ///< for a mean loss over the batch
  double peak_fraction = 0.25;      ///< share of all steps after which the rate is highest
  double momentum = 0.9;            ///< Nesterov
  double weight_decay = 0;          ///< not on batch norm and biases
  double label_smoothing = 0;
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// The recipe `name`. Throws InvalidArgument that lists the names there are.
Recipe recipe_by_name(const std::string& name);
/// The names that recipe_by_name knows.
std::vector<std::string> recipe_names();

/// JSON text and back. Throws InvalidArgument that says what is wrong.
std::string recipe_to_json(const Recipe& recipe);
Recipe recipe_from_json(const std::string& text);

/// Builds a phase's maps onto `samples`: fields `image` (encoded bytes u8 [?], or u8 [height, width, channels]) and
/// `label` (i64 []). Training: shuffled first. `cache`, when given, keeps samples just before the first map that draws.
/// The result has `image` u8 of one known shape [height, width, channels]. Throws InvalidArgument that names map and
/// shapes.
Pipeline apply_recipe(const Recipe& recipe, Pipeline samples, Phase phase,
                      std::shared_ptr<SampleStore> cache = nullptr);

}  // namespace penstock::trainer
