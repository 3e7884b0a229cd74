// Training images a second of the bundled trainer on the host device: ResNet-9, 28x28x1 pictures padded to 32x32, batch
// 128, through the whole line (pipeline, pinned ring, device feed, planned step, update). Pictures are noise: speed
// does not depend on them. The rate is what the trainer reports for its training steps; validation is small and not in
// it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <penstock/gpu/device.h>
#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/source/memory.h>
#include <penstock/trainer/trainer.h>

namespace {

using namespace penstock;

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;

Pipeline noise(std::int64_t count) {
  Draw draw(7, 0, 0, 0);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count * kSide * kSide));
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(draw.bits());
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  for (std::int64_t& label : labels) label = static_cast<std::int64_t>(draw.below(kClasses));
  return memory_columns(Schema({{"image", DataType::kU8, {kSide, kSide, 1}}, {"label", DataType::kI64, {}}}),
                        {Tensor::copy_of<std::uint8_t>(pixels, Shape{count, kSide, kSide, 1}),
                         Tensor::copy_of<std::int64_t>(labels, Shape{count})});
}

void ResNet9(benchmark::State& state) {
  const std::int64_t width = state.range(0);
  const std::int64_t train_images = state.range(2);
  const Runtime runtime({.threads = static_cast<std::size_t>(state.range(1))});
  const std::shared_ptr<gpu::Device> device = gpu::open_device("host", runtime);
  const trainer::Recipe recipe = trainer::recipe_by_name("fashion");
  std::vector<std::string> classes;
  for (std::int64_t i = 0; i < kClasses; ++i) classes.push_back(std::to_string(i));
  const trainer::TrainerData data{.train = apply_recipe(recipe, noise(train_images), trainer::Phase::kTrain),
                                  .val = apply_recipe(recipe, noise(256), trainer::Phase::kVal),
                                  .classes = classes,
                                  .train_source = "noise",
                                  .val_source = "noise"};
  double seconds = 0;
  std::uint64_t images = 0;
  for (auto _ : state) {
    trainer::TrainerOptions options;
    options.width = width;
    options.epochs = 1;
    options.batch = 128;
    options.recipe = recipe;
    trainer::Trainer job(device, runtime, data, options);
    trainer::TrainObserver quiet;
    const trainer::TrainResult result = job.run(quiet);
    seconds += result.train_seconds;
    images += result.steps * options.batch;
    state.SetIterationTime(result.train_seconds);
  }
  state.counters["images/s"] = static_cast<double>(images) / seconds;
}

BENCHMARK(ResNet9)
    ->ArgNames({"width", "threads", "images"})
    ->Args({8, 1, 1280})
    ->Args({8, 2, 2560})
    ->Args({16, 2, 1280})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
