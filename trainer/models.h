// The models that can be chosen by name.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/trainer/model_graph.h>

namespace penstock::trainer {

/// What a model is made for.
struct ModelOptions {
  std::int64_t width = 0;  ///< 0: the model's default
  Shape input;             ///< [height, width, channels]
  std::int64_t class_count = 0;
  float label_smoothing = 0;
};

/// Two hidden layers of `width` (default 256) and width / 2 units, with relu. 784-256-128-10 for 28x28x1 and 10
/// classes.
ModelGraph mlp(const ModelOptions& options);
/// D. Page's ResNet-9 (https://myrtle.ai/learn/how-to-train-your-resnet/): `width` (default 64), 2, 4 and 8 times
/// `width` channels, two residual blocks, logits scaled by 1/8. Pictures of at least 8x8.
ModelGraph resnet9(const ModelOptions& options);

/// Width that `width` = 0 stands for. Throws InvalidArgument, listing the models, for an unknown name.
std::int64_t default_width(const std::string& model);
/// The model of that name. Throws InvalidArgument, listing the models, for an unknown name; or for a width below 1.
ModelGraph make_model(const std::string& model, const ModelOptions& options);

}  // namespace penstock::trainer
