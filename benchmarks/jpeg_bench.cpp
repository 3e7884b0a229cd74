// The evaluation chain over a folder of photos (read, decode, short side to 256, centre crop 224, normalise to f32
// planes, batches of 64) beside what bare libjpeg-turbo needs for the same files on one thread: the whole picture, and
// only the region that the chain needs. All figures are images per processor second, in one run. The folder is named by
// PENSTOCK_PHOTOS; make_photos.py makes one.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <jpeglib.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/source/image_folder.h>

#include "checksum.h"
#include "cpu_time.h"

namespace {

using penstock::bench::cpu_seconds;

std::string photo_folder() {
  const char* folder = std::getenv("PENSTOCK_PHOTOS");
  return folder != nullptr ? folder : "";
}

std::vector<std::string> photo_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(photo_folder())) {
    if (entry.path().extension() == ".jpg") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void report(benchmark::State& state, std::size_t images, double cpu) {
  state.counters["images/cpu_s"] = static_cast<double>(images) / cpu;
  state.SetItemsProcessed(static_cast<std::int64_t>(images));
}

enum class Part { kWhole, kRegion };

// Decodes one file into `rows`, whole or the centre region of 224/256 of the short side, accurate IDCT.
std::size_t decode(const std::vector<unsigned char>& file, Part part, std::vector<unsigned char>& rows) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  JDIMENSION x = 0, y = 0, width = jpeg.image_width, height = jpeg.image_height;
  if (part == Part::kRegion) {
    const double scale = std::min(width, height) / 256.0;
    const auto side = static_cast<JDIMENSION>(std::ceil(224 * scale)) + 2;
    width = std::min(width, side);
    height = std::min(height, side);
    x = (jpeg.image_width - width) / 2;
    y = (jpeg.image_height - height) / 2;
  }
  jpeg_start_decompress(&jpeg);
  if (width < jpeg.image_width) jpeg_crop_scanline(&jpeg, &x, &width);
  rows.resize(std::size_t{width} * height * 3 + 64);
  if (y > 0) jpeg_skip_scanlines(&jpeg, y);
  for (JDIMENSION row = 0; row < height;) {
    JSAMPROW line = rows.data() + std::size_t{row} * width * 3;
    row += jpeg_read_scanlines(&jpeg, &line, 1);
  }
  jpeg_abort_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return std::size_t{width} * height;
}

void Libjpeg(benchmark::State& state, Part part) {
  if (photo_folder().empty()) return state.SkipWithError("set PENSTOCK_PHOTOS");
  const std::vector<std::string> files = photo_files();
  std::vector<unsigned char> bytes, rows;
  const double before = cpu_seconds();
  std::size_t images = 0;
  for (auto _ : state) {
    for (const std::string& path : files) {
      std::FILE* file = std::fopen(path.c_str(), "rb");
      if (file == nullptr) return state.SkipWithError(path.c_str());
      bytes.resize(std::filesystem::file_size(path));
      if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) return state.SkipWithError(path.c_str());
      std::fclose(file);
      benchmark::DoNotOptimize(decode(bytes, part, rows));
      benchmark::DoNotOptimize(rows.data());
    }
    images += files.size();
  }
  report(state, images, cpu_seconds() - before);
}

void EvalChain(benchmark::State& state) {
  if (photo_folder().empty()) return state.SkipWithError("set PENSTOCK_PHOTOS");
  using namespace penstock;
  const Runtime runtime({.threads = static_cast<std::size_t>(state.range(0))});
  const Pipeline pipeline =
      image_folder(photo_folder())
          .map(decode_image())
          .map(resize_short_side(256))
          .map(center_crop(224, 224))
          .map(normalise({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}, {.layout = Layout::kChw}))
          .batch(64);
  std::uint64_t sum = 0;
  std::size_t images = 0;
  const double before = cpu_seconds();
  for (auto _ : state) {
    Loader loader(runtime, pipeline, {.epoch_count = 1});
    while (const std::optional<Batch> batch = loader.next()) {
      sum += bench::checksum(*batch);
      images += batch->size();
    }
  }
  benchmark::DoNotOptimize(sum);
  report(state, images, cpu_seconds() - before);
}

BENCHMARK_CAPTURE(Libjpeg, whole, Part::kWhole)
    ->Name("Libjpeg/Whole/warm/threads:1")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Libjpeg, region, Part::kRegion)
    ->Name("Libjpeg/Region/warm/threads:1")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(EvalChain)
    ->Name("EvalChain/warm")
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
