// Every operation: the CUDA back end gives what the host's gives. Sizes are 0, 1, below, at and above a block of
// threads and a tile of rows, and such that divide neither.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/trainer/cuda_backend.h>

#include "trainer/cuda/agreement.h"

namespace penstock::trainer::test {
namespace {

class BackendAgreementTest : public ::testing::Test {
 protected:
  void SetUp() override { PENSTOCK_NEEDS_RIGS(); }
};

const std::vector<std::int64_t> kCounts{0, 1, 255, 256, 257, 1000};

std::string text(std::initializer_list<std::int64_t> numbers) {
  std::string result;
  for (const std::int64_t number : numbers) result.append(std::to_string(number)).append(" ");
  return result;
}

std::string text(const ConvShape& shape) {
  return text({shape.n, shape.h, shape.w, shape.c, shape.k, shape.r, shape.s, shape.stride, shape.pad});
}

std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> bytes;
  for (const float value : random_floats(count, seed)) bytes.push_back(static_cast<std::uint8_t>((value + 1) * 128));
  return bytes;
}

TEST_F(BackendAgreementTest, SetsScalars) {
  Case what;
  what.with(std::vector<StepScalars>(1));
  what.body = [](Backend& backend, NativeStream stream, const Memory& memory) {
    backend.set_scalars(stream, memory.at<StepScalars>(0), {0.125F, 17});
  };
  expect_agreement(what);
}

TEST_F(BackendAgreementTest, CastsAndNormalises) {
  for (const std::int64_t c : {1, 3, 4}) {
    for (const std::int64_t pixels : {1, 64, 100, 257}) {
      for (const auto& [n, valid] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 1}, {5, 3}, {9, 0}}) {
        Case what;
        what.name = text({n, pixels, c, valid});
        what.with(random_bytes(n * pixels * c, 1));
        what.output<float>(n * pixels * c);
        what.body = [=](Backend& backend, NativeStream stream, const Memory& memory) {
          const Normalisation normalisation{{0.1F, 0.2F, 0.3F, 0.4F}, {1.5F, 2.5F, 3.5F, 4.5F}};
          backend.cast_normalise(stream, memory.at<std::uint8_t>(0), memory.at<float>(1), n, pixels, c, normalisation,
                                 valid);
        };
        expect_agreement(what);
      }
    }
  }
}

TEST_F(BackendAgreementTest, CopiesLabels) {
  for (const std::int64_t n : kCounts) {
    Case what;
    what.name = text({n});
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < n; ++i) labels.push_back(i % 7 == 6 ? -5 : i % 11 == 10 ? std::int64_t{1} << 40 : i);
    what.with(labels);
    what.output<std::int32_t>(n);
    what.body = [n](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.copy_labels(stream, memory.at<std::int64_t>(0), memory.at<std::int32_t>(1), n, n - n / 4);
    };
    expect_agreement(what);
  }
}

// The last two are cut into chunks: by images (data gradient) and by lines (the other passes).
const std::vector<ConvShape> kConvolutions{
    {0, 5, 5, 3, 4, 3, 3, 1, 1},    {1, 5, 5, 1, 1, 3, 3, 1, 1},   {1, 1, 1, 3, 2, 3, 3, 1, 1},
    {2, 7, 6, 3, 5, 3, 3, 1, 1},    {3, 8, 8, 4, 8, 3, 3, 2, 1},   {2, 6, 6, 5, 7, 1, 1, 1, 0},
    {2, 9, 9, 3, 4, 1, 1, 2, 0},    {1, 12, 12, 2, 3, 5, 5, 1, 2}, {2, 11, 10, 3, 4, 7, 7, 2, 3},
    {4, 16, 16, 17, 9, 3, 3, 1, 1}, {1, 4, 9, 2, 3, 2, 4, 1, 0},   {9, 20, 20, 20, 3, 3, 3, 1, 1},
    {2, 48, 48, 32, 4, 3, 3, 1, 1}};

std::int64_t input_elements(const ConvShape& shape) { return shape.n * shape.h * shape.w * shape.c; }
std::int64_t output_elements(const ConvShape& shape) { return shape.n * shape.out_h() * shape.out_w() * shape.k; }
std::int64_t filter_elements(const ConvShape& shape) { return shape.k * shape.r * shape.s * shape.c; }

// The scratch is the host's: it is the same on every device.
std::size_t scratch_of(std::size_t (Backend::*bytes)(const ConvShape&) const, const ConvShape& shape) {
  return ((*host_backend()).*bytes)(shape);
}

TEST_F(BackendAgreementTest, ConvolvesForward) {
  for (const ConvShape& shape : kConvolutions) {
    Case what;
    what.name = text(shape);
    what.has_product = true;
    what.with(random_floats(input_elements(shape), 1));
    what.with(random_floats(filter_elements(shape), 2));
    what.output<float>(output_elements(shape));
    what.scratch(scratch_of(&Backend::conv_forward_scratch, shape));
    what.body = [shape](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.conv_forward(stream, shape, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                           memory.at<std::byte>(3));
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, ConvolvesBackwardToData) {
  for (const ConvShape& shape : kConvolutions) {
    Case what;
    what.name = text(shape);
    what.has_product = true;
    what.with(random_floats(output_elements(shape), 1));
    what.with(random_floats(filter_elements(shape), 2));
    what.output<float>(input_elements(shape));
    what.scratch(scratch_of(&Backend::conv_backward_data_scratch, shape));
    what.body = [shape](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.conv_backward_data(stream, shape, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                                 memory.at<std::byte>(3));
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, ConvolvesBackwardToWeights) {
  for (const ConvShape& shape : kConvolutions) {
    Case what;
    what.name = text(shape);
    what.has_product = true;
    what.with(random_floats(input_elements(shape), 1));
    what.with(random_floats(output_elements(shape), 2));
    what.output<float>(filter_elements(shape));
    what.scratch(scratch_of(&Backend::conv_backward_weight_scratch, shape));
    what.body = [shape](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.conv_backward_weight(stream, shape, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                                   memory.at<std::byte>(3));
    };
    expect_agreement(what);
  }
}

struct LinearShape {
  std::int64_t n, in, out;
};
const std::vector<LinearShape> kLinears{{0, 4, 3}, {1, 1, 1}, {3, 5, 7}, {64, 33, 10}, {65, 256, 257}, {130, 17, 1}};

TEST_F(BackendAgreementTest, LinearForward) {
  for (const auto& [n, in, out] : kLinears) {
    for (const bool with_bias : {true, false}) {
      Case what;
      what.name = text({n, in, out, with_bias});
      what.has_product = true;
      what.with(random_floats(n * in, 1));
      what.with(random_floats(out * in, 2));
      what.with(random_floats(out, 3));
      what.output<float>(n * out);
      what.scratch(host_backend()->linear_scratch(n, in, out));
      what.body = [=, n = n, in = in, out = out](Backend& backend, NativeStream stream, const Memory& memory) {
        backend.linear_forward(stream, n, in, out, memory.at<float>(0), memory.at<float>(1),
                               with_bias ? memory.at<float>(2) : nullptr, memory.at<float>(3), memory.at<std::byte>(4));
      };
      expect_agreement(what);
    }
  }
}

TEST_F(BackendAgreementTest, LinearBackward) {
  for (const auto& [n, in, out] : kLinears) {
    for (const bool with_bias : {true, false}) {
      Case what;
      what.name = text({n, in, out, with_bias});
      what.has_product = true;
      what.with(random_floats(n * in, 1));
      what.with(random_floats(out * in, 2));
      what.with(random_floats(n * out, 3));
      what.output<float>(n * in);
      what.output<float>(out * in);
      if (with_bias) what.output<float>(out);
      const std::size_t scratch = what.scratch(host_backend()->linear_scratch(n, in, out));
      what.body = [=, n = n, in = in, out = out](Backend& backend, NativeStream stream, const Memory& memory) {
        backend.linear_backward_data(stream, n, in, out, memory.at<float>(2), memory.at<float>(1), memory.at<float>(3),
                                     memory.at<std::byte>(scratch));
        backend.linear_backward_weight(stream, n, in, out, memory.at<float>(0), memory.at<float>(2),
                                       memory.at<float>(4), with_bias ? memory.at<float>(5) : nullptr,
                                       memory.at<std::byte>(scratch));
      };
      expect_agreement(what);
    }
  }
}

struct NormShape {
  std::int64_t rows, c;
};
const std::vector<NormShape> kNorms{{2, 1}, {63, 3}, {64, 16}, {65, 17}, {2113, 5}, {200, 300}};

TEST_F(BackendAgreementTest, BatchNormForward) {
  for (const auto& [rows, c] : kNorms) {
    Case what;
    what.name = text({rows, c});
    what.with(random_floats(rows * c, 1));
    what.with(random_floats(c, 2));
    what.with(random_floats(c, 3));
    what.output<float>(rows * c);
    what.output<float>(c);
    what.output<float>(c);
    what.with(random_floats(c, 4));
    what.with(std::vector<float>(static_cast<std::size_t>(c), 0.5F));
    what.output<float>(rows * c);
    what.scratch(host_backend()->batch_norm_scratch(rows, c));
    what.body = [rows = rows, c = c](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.batch_norm_forward_train(stream, rows, c, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                                       memory.at<float>(3), memory.at<float>(4), memory.at<float>(5),
                                       memory.at<float>(6), memory.at<float>(7), 0.1F, 1e-5F, memory.at<std::byte>(9));
      backend.batch_norm_forward_eval(stream, rows, c, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                                      memory.at<float>(8), memory.at<float>(6), memory.at<float>(7), 1e-5F);
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, BatchNormBackward) {
  for (const auto& [rows, c] : kNorms) {
    for (const bool in_place : {false, true}) {
      Case what;
      what.name = text({rows, c, in_place});
      what.with(random_floats(rows * c, 1));
      what.with(random_floats(c, 2));
      what.with(random_floats(c, 3));
      what.with(std::vector<float>(static_cast<std::size_t>(c), 1.75F));
      what.with(random_floats(rows * c, 4));
      what.output<float>(c);
      what.output<float>(c);
      const std::size_t scratch = what.scratch(host_backend()->batch_norm_scratch(rows, c));
      const std::size_t dx = in_place ? 4 : what.output<float>(rows * c);
      what.body = [=, rows = rows, c = c](Backend& backend, NativeStream stream, const Memory& memory) {
        backend.batch_norm_backward(stream, rows, c, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                                    memory.at<float>(3), memory.at<float>(4), memory.at<float>(dx), memory.at<float>(5),
                                    memory.at<float>(6), memory.at<std::byte>(scratch));
      };
      expect_agreement(what);
    }
  }
}

TEST_F(BackendAgreementTest, Relu) {
  for (const std::int64_t count : kCounts) {
    Case what;
    what.name = text({count});
    what.with(random_floats(count, 1));
    what.with(random_floats(count, 2));
    what.output<float>(count);
    what.output<float>(count);
    what.body = [count](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.relu_forward(stream, count, memory.at<float>(0), memory.at<float>(2));
      backend.relu_backward(stream, count, memory.at<float>(2), memory.at<float>(1), memory.at<float>(3));
      backend.relu_forward(stream, count, memory.at<float>(0), memory.at<float>(0));
      backend.relu_backward(stream, count, memory.at<float>(2), memory.at<float>(1), memory.at<float>(1));
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, AddsScalesAndCopies) {
  for (const std::int64_t count : kCounts) {
    Case what;
    what.name = text({count});
    what.with(random_floats(count, 1));
    what.with(random_floats(count, 2));
    for (int i = 0; i < 3; ++i) what.output<float>(count);
    what.body = [count](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.add(stream, count, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2));
      backend.scale(stream, count, -0.3F, memory.at<float>(1), memory.at<float>(3));
      backend.copy(stream, count, memory.at<float>(2), memory.at<float>(4));
      backend.add(stream, count, memory.at<float>(0), memory.at<float>(1), memory.at<float>(0));
      backend.scale(stream, count, 3.0F, memory.at<float>(1), memory.at<float>(1));
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, MaxPool) {
  for (const PoolShape& shape : {PoolShape{0, 4, 4, 3, 2}, PoolShape{1, 2, 2, 1, 2}, PoolShape{2, 7, 9, 5, 2},
                                 PoolShape{3, 10, 11, 17, 3}, PoolShape{2, 8, 8, 64, 4}}) {
    const std::int64_t in = shape.n * shape.h * shape.w * shape.c;
    const std::int64_t out = shape.n * (shape.h / shape.size) * (shape.w / shape.size) * shape.c;
    Case what;
    what.name = text({shape.n, shape.h, shape.w, shape.c, shape.size});
    std::vector<float> x = random_floats(in, 1);
    for (float& value : x) value = static_cast<float>(static_cast<int>(value * 4));  // many are equal: the first wins
    what.with(x);
    what.with(random_floats(out, 2));
    what.output<float>(out);
    what.output<std::uint8_t>(out);
    what.output<float>(in);
    what.output<float>(out);
    what.body = [shape](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.max_pool_forward(stream, shape, memory.at<float>(0), memory.at<float>(2), memory.at<std::uint8_t>(3));
      backend.max_pool_backward(stream, shape, memory.at<float>(1), memory.at<std::uint8_t>(3), memory.at<float>(4));
      backend.max_pool_forward(stream, shape, memory.at<float>(0), memory.at<float>(5), nullptr);
    };
    expect_agreement(what);
  }
}

struct GlobalShape {
  std::int64_t n, pixels, c;
};
const std::vector<GlobalShape> kGlobals{{0, 4, 3}, {1, 1, 1}, {3, 16, 5}, {2, 49, 257}, {300, 4, 2}};

TEST_F(BackendAgreementTest, GlobalMaxPool) {
  for (const auto& [n, pixels, c] : kGlobals) {
    Case what;
    what.name = text({n, pixels, c});
    std::vector<float> x = random_floats(n * pixels * c, 1);
    for (float& value : x) value = static_cast<float>(static_cast<int>(value * 8));
    what.with(x);
    what.with(random_floats(n * c, 2));
    what.output<float>(n * c);
    what.output<std::int32_t>(n * c);
    what.output<float>(n * pixels * c);
    what.output<float>(n * c);
    what.body = [n = n, pixels = pixels, c = c](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.global_max_pool_forward(stream, n, pixels, c, memory.at<float>(0), memory.at<float>(2),
                                      memory.at<std::int32_t>(3));
      backend.global_max_pool_backward(stream, n, pixels, c, memory.at<float>(1), memory.at<std::int32_t>(3),
                                       memory.at<float>(4));
      backend.global_max_pool_forward(stream, n, pixels, c, memory.at<float>(0), memory.at<float>(5), nullptr);
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, GlobalAveragePool) {
  for (const auto& [n, pixels, c] : kGlobals) {
    Case what;
    what.name = text({n, pixels, c});
    what.with(random_floats(n * pixels * c, 1));
    what.with(random_floats(n * c, 2));
    what.output<float>(n * c);
    what.output<float>(n * pixels * c);
    what.body = [n = n, pixels = pixels, c = c](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.global_average_pool_forward(stream, n, pixels, c, memory.at<float>(0), memory.at<float>(2));
      backend.global_average_pool_backward(stream, n, pixels, c, memory.at<float>(1), memory.at<float>(3));
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, SoftmaxCrossEntropy) {
  for (const std::int64_t n : {0, 1, 5, 63, 64, 65, 300}) {
    for (const std::int64_t classes : {1, 2, 10, 257}) {
      for (const float smoothing : {0.0F, 0.1F}) {
        Case what;
        what.name = text({n, classes}) + "smoothing " + std::to_string(smoothing);
        std::vector<float> logits = random_floats(n * classes, 1);
        for (float& value : logits) value *= 9;
        what.with(logits);
        std::vector<std::int32_t> labels;
        for (std::int64_t i = 0; i < n; ++i) labels.push_back(static_cast<std::int32_t>(i % 6 == 5 ? -1 : i % classes));
        what.with(labels);
        what.output<float>(n * classes);
        what.with(std::vector<MetricSums>{{1.5, 2, 1, 1, 0}, {}});
        what.scratch(host_backend()->softmax_cross_entropy_scratch(n, classes));
        what.body = [=](Backend& backend, NativeStream stream, const Memory& memory) {
          const auto call = [&](float* dlogits, MetricSums* sums) {
            backend.softmax_cross_entropy(stream, n, classes, memory.at<float>(0), memory.at<std::int32_t>(1),
                                          smoothing, dlogits, sums, memory.at<std::byte>(4));
          };
          call(memory.at<float>(2), memory.at<MetricSums>(3));
          call(nullptr, memory.at<MetricSums>(3) + 1);
          call(memory.at<float>(0), memory.at<MetricSums>(3) + 1);
        };
        expect_agreement(what);
      }
    }
  }
}

TEST_F(BackendAgreementTest, CountsLossesThatAreNotFinite) {
  Case what;
  what.with(std::vector<float>{1, 2, 3, INFINITY, 0, 0, 5, 4, 3});
  what.with(std::vector<std::int32_t>{2, 1, 9});
  what.with(std::vector<MetricSums>(1));
  what.scratch(host_backend()->softmax_cross_entropy_scratch(3, 3));
  what.body = [](Backend& backend, NativeStream stream, const Memory& memory) {
    backend.softmax_cross_entropy(stream, 3, 3, memory.at<float>(0), memory.at<std::int32_t>(1), 0, nullptr,
                                  memory.at<MetricSums>(2), memory.at<std::byte>(3));
  };
  expect_agreement(what);
}

TEST_F(BackendAgreementTest, SgdUpdate) {
  for (const std::int64_t count : kCounts) {
    Case what;
    what.name = text({count});
    what.with(random_floats(count, 1));
    what.with(random_floats(count, 2));
    what.with(random_floats(count, 3));
    what.with(std::vector<StepScalars>{{0.05F, 3}});
    what.body = [count](Backend& backend, NativeStream stream, const Memory& memory) {
      backend.sgd_update(stream, count, memory.at<float>(0), memory.at<float>(1), memory.at<float>(2),
                         memory.at<StepScalars>(3), 0.9F, 5e-4F);
    };
    expect_agreement(what);
  }
}

TEST_F(BackendAgreementTest, ScratchIsTheSameOnEveryDevice) {
  const std::unique_ptr<Backend> cuda = make_cuda_backend();
  const Backend& host = *host_backend();
  for (const ConvShape& shape : kConvolutions) {
    EXPECT_EQ(cuda->conv_forward_scratch(shape), host.conv_forward_scratch(shape));
    EXPECT_EQ(cuda->conv_backward_data_scratch(shape), host.conv_backward_data_scratch(shape));
    EXPECT_EQ(cuda->conv_backward_weight_scratch(shape), host.conv_backward_weight_scratch(shape));
  }
  EXPECT_EQ(cuda->linear_scratch(65, 3, 7), host.linear_scratch(65, 3, 7));
  EXPECT_GT(host.linear_scratch(65, 3, 7), 0u);
  EXPECT_EQ(cuda->batch_norm_scratch(65, 7), host.batch_norm_scratch(65, 7));
  EXPECT_EQ(cuda->softmax_cross_entropy_scratch(65, 7), host.softmax_cross_entropy_scratch(65, 7));
}

}  // namespace
}  // namespace penstock::trainer::test
