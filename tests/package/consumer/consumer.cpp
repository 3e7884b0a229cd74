// Uses each installed part once: a pipeline with a cache and asynchronous batches, a device, the memory plan, a recipe.
#include <future>
#include <iostream>
#include <optional>

#include <boost/asio/use_future.hpp>

#include <penstock/cache/memory_store.h>
#include <penstock/gpu/device.h>
#include <penstock/gpu/memory_plan.h>
#include <penstock/pipeline/asio.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/memory.h>
#include <penstock/trainer/recipe.h>
#include <penstock/trainer/trainer.h>

int main() {
  using namespace penstock;
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < 10; ++i)
    samples.emplace_back(std::vector<std::string>{"x"}, std::vector{Tensor::scalar(i)});
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = memory(std::move(samples))
                                .map("x", [](std::int64_t x) { return x * x; })
                                .cache(cache::memory(1 << 20))
                                .shuffle({.seed = 7})
                                .batch(3);
  Loader loader(runtime, pipeline, {.epoch_count = 1});
  std::int64_t sum = 0;
  while (std::optional<Batch> batch = async_next(loader, boost::asio::use_future).get()) {
    const View<const std::int64_t> x = batch->view<std::int64_t>("x");
    for (std::int64_t i = 0; i < x.size(); ++i) sum += x[i];
  }
  const std::shared_ptr<gpu::Device> device = gpu::open_device("host", runtime, 64 << 20);
  const std::string recipe = trainer::recipe_by_name("fashion").name;
  std::cout << sum << " " << device->name() << " " << recipe << " " << gpu::parse_size("1MiB") << "\n";
  return sum == 285 && device->kind() == gpu::DeviceKind::kHost && recipe == "fashion" ? 0 : 1;
}
