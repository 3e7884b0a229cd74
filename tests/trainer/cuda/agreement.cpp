#include "agreement.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include <gtest/gtest.h>

#include <penstock/pipeline/runtime.h>
#include <penstock/trainer/cuda_backend.h>
#include <penstock/trainer/host_backend.h>

namespace penstock::trainer::test {
namespace {

using Contents = std::vector<std::vector<std::byte>>;

Contents run_on(Rig& rig, Backend& backend, const Case& what) {
  std::vector<void*> addresses;
  for (const Case::Buffer& buffer : what.buffers) addresses.push_back(rig.upload(buffer.start));
  const Memory memory(addresses);
  rig.run([&](NativeStream stream) { what.body(backend, stream, memory); });
  Contents result;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    result.push_back(rig.download(addresses[i], what.buffers[i].start.size()));
  }
  return result;
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::size_t unwritten(const Case::Buffer& buffer, const std::vector<std::byte>& bytes) {
  const auto count_if = [](const auto& values, auto is_unwritten) {
    return static_cast<std::size_t>(std::count_if(values.begin(), values.end(), is_unwritten));
  };
  switch (buffer.content) {
    case Case::Content::kFloats:
      return count_if(values_of<float>(bytes), [](float value) { return std::isnan(value); });
    case Case::Content::kInts:
      return count_if(values_of<std::int32_t>(bytes), [](std::int32_t value) { return value == 0x7EFFFFFF; });
    case Case::Content::kBytes:
      return buffer.start == bytes && std::count(bytes.begin(), bytes.end(), std::byte{0xFF}) ==
                                          static_cast<std::ptrdiff_t>(bytes.size())
                 ? bytes.size()
                 : 0;
    default:
      return 0;
  }
}

double largest_difference(std::span<const float> expected, std::span<const float> got) {
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(got[i])) return INFINITY;
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
    difference = std::max(difference, static_cast<double>(std::abs(expected[i] - got[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

void expect_metrics(const MetricSums& expected, const MetricSums& got) {
  EXPECT_NEAR(got.loss, expected.loss, kRelativeError * std::abs(expected.loss));
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.top1, expected.top1);
  EXPECT_EQ(got.top5, expected.top5);
  EXPECT_EQ(got.not_finite, expected.not_finite);
}

void expect_equal(const Case& what, const Rig& rig, const Contents& expected, const Contents& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("buffer " + std::to_string(i));
    const Case::Content content = what.buffers[i].content;
    if (content == Case::Content::kScratch) {
      continue;
    } else if (content == Case::Content::kFloats && (what.has_product || !rig.has_host_arithmetic())) {
      EXPECT_LE(largest_difference(values_of<float>(expected[i]), values_of<float>(got[i])), kRelativeError);
    } else if (content == Case::Content::kMetrics && !rig.has_host_arithmetic()) {
      expect_metrics(values_of<MetricSums>(expected[i]).at(0), values_of<MetricSums>(got[i]).at(0));
    } else {
      EXPECT_TRUE(expected[i] == got[i]) << "bytes differ";
    }
  }
}

}  // namespace

Backend* host_backend() {
  static const Runtime runtime(RuntimeOptions{.threads = 2});
  static const std::unique_ptr<Backend> backend = make_host_backend(runtime);
  return backend.get();
}

std::vector<float> random_floats(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random() >> 8) / 8388608.0F - 1.0F;
  return values;
}

void expect_agreement(const Case& what) {
  SCOPED_TRACE(what.name);
  const std::unique_ptr<Rig> host = make_host_rig();
  const Contents expected = run_on(*host, *host_backend(), what);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(unwritten(what.buffers[i], expected[i]), 0u) << "values of buffer " << i << " that were not written";
  }
  Contents first;
  for (const std::unique_ptr<Rig>& rig : make_rigs()) {
    SCOPED_TRACE(rig->name());
    const Contents got = run_on(*rig, *make_cuda_backend(), what);
    expect_equal(what, *rig, expected, got);
    if (first.empty()) first = got;
    EXPECT_TRUE(first == got) << "differs from the first rig";
  }
}

}  // namespace penstock::trainer::test
