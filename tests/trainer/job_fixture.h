// A small separable data set and jobs on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/pipeline/source/memory.h>
#include <penstock/trainer/recipe.h>
#include <penstock/trainer/trainer.h>

namespace penstock::test {

inline constexpr std::int64_t kClasses = 4;
inline constexpr std::int64_t kSide = 8;

/// `count` pictures u8 [8, 8, 1]: a fixed pattern a class, and noise. Classes take turns.
inline Pipeline separable_set(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kPixels = kSide * kSide;
  std::vector<std::uint8_t> patterns(kClasses * kPixels);
  Draw pattern_draw(99, 0, 0, 0);
  for (std::uint8_t& pixel : patterns) pixel = static_cast<std::uint8_t>(pattern_draw.below(156));
  std::vector<std::uint8_t> images(static_cast<std::size_t>(count * kPixels));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  Draw draw(seed, 0, 1, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % kClasses;
    labels[static_cast<std::size_t>(i)] = label;
    for (std::int64_t p = 0; p < kPixels; ++p) {
      images[static_cast<std::size_t>(i * kPixels + p)] =
          static_cast<std::uint8_t>(patterns[static_cast<std::size_t>(label * kPixels + p)] + draw.below(100));
    }
  }
  return memory_columns(Schema({{"image", DataType::kU8, Shape{kSide, kSide, 1}}, {"label", DataType::kI64, Shape{}}}),
                        {Tensor::copy_of<std::uint8_t>(images, Shape{count, kSide, kSide, 1}),
                         Tensor::copy_of<std::int64_t>(labels, Shape{count})});
}

inline trainer::Recipe small_recipe() {
  trainer::Recipe recipe;
  recipe.name = "small";
  recipe.channels = 1;
  recipe.source_height = kSide;
  recipe.source_width = kSide;
  recipe.train = {{"random_crop", {{"height", 8}, {"width", 8}, {"padding", 1}}}};
  recipe.mean = {0.5};
  recipe.deviation = {0.25};
  recipe.peak_learning_rate = 0.05;
  recipe.momentum = 0.9;
  recipe.weight_decay = 1e-3;
  recipe.label_smoothing = 0.05;
  return recipe;
}

inline std::vector<std::string> class_names() { return {"ant", "bee", "cat", "dog"}; }

/// How a job is run; nothing here changes results.
struct RunSettings {
  std::size_t threads = 2;
  std::uint64_t budget_bytes = std::uint64_t{256} << 20;
  std::shared_ptr<SampleStore> train_cache;
  std::shared_ptr<SampleStore> val_cache;
};

struct Job {
  Runtime runtime;
  std::shared_ptr<gpu::Device> device;
  trainer::Trainer trainer;
};

inline trainer::TrainerOptions small_options() {
  trainer::TrainerOptions options;
  options.model = "mlp";
  options.width = 16;
  options.epochs = 3;
  options.batch = 16;
  options.val_batch = 16;
  options.recipe = small_recipe();
  options.seed = 11;
  return options;
}

inline Job make_job(const trainer::TrainerOptions& options, const Pipeline& train, const Pipeline& val,
                    const RunSettings& settings = {}) {
  Runtime runtime(RuntimeOptions{.threads = settings.threads, .budget_bytes = settings.budget_bytes});
  std::shared_ptr<gpu::Device> device = gpu::make_host_device(runtime, std::uint64_t{1} << 30);
  trainer::TrainerData data{trainer::apply_recipe(options.recipe, train, trainer::Phase::kTrain, settings.train_cache),
                            trainer::apply_recipe(options.recipe, val, trainer::Phase::kVal, settings.val_cache),
                            class_names(), "train set", "val set"};
  return {runtime, device, trainer::Trainer(device, runtime, std::move(data), options)};
}

inline Job make_job(const trainer::TrainerOptions& options, const RunSettings& settings = {}) {
  return make_job(options, separable_set(100, 1), separable_set(42, 2), settings);
}

/// Calls what is set.
class Watcher final : public trainer::TrainObserver {
 public:
  std::function<void(const trainer::StepProgress&)> step;
  std::function<void(const trainer::EpochRow&)> epoch;
  std::function<void(const std::filesystem::path&)> checkpoint;
  std::vector<std::string> notices;
  void on_step(const trainer::StepProgress& progress) override {
    if (step) step(progress);
  }
  void on_epoch(const trainer::EpochRow& row) override {
    if (epoch) epoch(row);
  }
  void on_checkpoint(const std::filesystem::path& file) override {
    if (checkpoint) checkpoint(file);
  }
  void on_notice(const std::string& text) override { notices.push_back(text); }
};

inline trainer::TrainResult run_job(const trainer::TrainerOptions& options, const RunSettings& settings = {}) {
  Watcher watcher;
  return make_job(options, settings).trainer.run(watcher);
}

}  // namespace penstock::test
