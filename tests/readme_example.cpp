#include <iostream>

#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/image_folder.h>

using namespace penstock;

int main(int, char** arguments) {
  Runtime runtime({.threads = 2, .budget_bytes = 256 << 20});
  Pipeline train = image_folder(arguments[1])  // one folder a class
                       .shuffle({.seed = 7})
                       .map(decode_image())
                       .cache(cache::memory(1 << 30))
                       .map(random_resized_crop(64))  // drawn anew in each epoch
                       .map(random_flip())
                       .batch(4, LastBatch::kDrop);
  Loader loader(runtime, train, {.epoch_count = 2});
  for (int epoch = 1; epoch <= 2; ++epoch)
    while (std::optional<Batch> batch = loader.next())  // nullopt: the epoch is over
      std::cout << "epoch " << epoch << ", image " << batch->view<std::uint8_t>("image").shape().to_string()
                << ", label " << batch->view<std::int64_t>("label")[0] << " from " << batch->describe(0) << "\n";
}
