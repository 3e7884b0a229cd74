// Rates are of processor time, so what else runs on the machine makes them no lower.
#include <penstock/pipeline/report/machine_limits.h>

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <penstock/pipeline/image/decode.h>
#include <penstock/pipeline/report/read_sample.h>

namespace penstock {
namespace {

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double copy_rate() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  constexpr int kPasses = 4;
  std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double begin = thread_seconds();
    std::memcpy(to.data(), from.data(), kBytes);
    const double seconds = thread_seconds() - begin;
    from[static_cast<std::size_t>(pass)] = to[kBytes - 1];  // the copy is used
    if (seconds > 0) best = std::max(best, static_cast<double>(kBytes) / seconds);
  }
  return best;
}

/// The field that the plan's first map of that name decodes; nothing when no map does, or another one before it.
bool decodes(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    if (const auto* const map = std::get_if<MapStage>(&stage)) return map->name.starts_with("decode_image");
  }
  return false;
}

void decode(const Sample& sample, std::vector<std::byte>& pixels, std::vector<std::byte>& scratch) {
  const Tensor& image = sample["image"];
  ImageDecoder decoder(std::span<const std::byte>(image.data(), image.size_bytes()));
  pixels.resize(std::max(pixels.size(), decoder.pixel_bytes()));
  scratch.resize(std::max(scratch.size(), decoder.scratch_bytes()));
  decoder.decode(pixels, scratch);
}

double decoding_rate(const Source& source, const MeasureOptions& options) {
  const std::uint64_t size = source.size().value_or(0);
  const std::uint64_t count = std::min<std::uint64_t>(size, options.samples);
  std::vector<std::byte> pixels;
  std::vector<std::byte> scratch;
  double best = 0;
  for (std::size_t pass = 0; pass < options.passes; ++pass) {
    double seconds = 0;
    std::uint64_t decoded = 0;
    for (std::uint64_t i = 0; i < count && seconds < options.seconds; ++i) {
      const double begin = thread_seconds();
      try {
        decode(report::read_sample_here(source, i * (size / count)), pixels, scratch);
        ++decoded;
        seconds += thread_seconds() - begin;
      } catch (const std::exception&) {
        continue;  // the loader says what is wrong with it; here it has no rate
      }
    }
    if (decoded > 0 && seconds > 0) best = std::max(best, static_cast<double>(decoded) / seconds);
  }
  return best;
}

std::uint64_t row_bytes(const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const Field& field : plan.row_schema.fields()) {
    if (!field.shape.known()) return 0;
    bytes += static_cast<std::uint64_t>(field.shape.element_count()) * byte_size(field.type);
  }
  return bytes;
}

}  // namespace

MachineLimits measure_limits(const Pipeline& pipeline, const MeasureOptions& options) {
  const Plan& plan = pipeline.plan();
  MachineLimits limits;
  limits.cores = std::max(1U, std::thread::hardware_concurrency());
  limits.copy_bytes_per_s = copy_rate();
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) limits.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(getpagesize());
  if (plan.source && decodes(plan)) {
    limits.samples_per_s = decoding_rate(*plan.source, options);
    if (limits.samples_per_s > 0) limits.limit = "picture decoding rate";
  } else if (const std::uint64_t bytes = row_bytes(plan); bytes > 0) {
    limits.samples_per_s = limits.copy_bytes_per_s / static_cast<double>(bytes);
    limits.limit = "copy rate";
  }
  return limits;
}

}  // namespace penstock
