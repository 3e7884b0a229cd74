// Row-major products by a column-major library: every combination of transposes, leading dimensions and alignments.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/gpu/device_error.h>
#include <penstock/trainer/cuda_gemm.h>

#include "trainer/cuda/agreement.h"

namespace penstock::trainer::test {
namespace {

constexpr float kUntouched = 1e30F;

class CudaGemmTest : public ::testing::Test {
 protected:
  void SetUp() override { PENSTOCK_NEEDS_RIGS(); }
};

/// A matrix as it is stored: rows of `leading` floats, of which the first are the matrix's, after `offset` others.
struct Stored {
  std::int64_t rows, columns, leading, offset;
  std::vector<float> data;
  Stored(std::int64_t rows_value, std::int64_t columns_value, std::int64_t spare, std::int64_t offset_value,
         std::uint32_t seed)
      : rows(rows_value), columns(columns_value), leading(columns_value + spare), offset(offset_value) {
    data.assign(static_cast<std::size_t>(offset + rows * leading), kUntouched);
    const std::vector<float> values = random_floats(rows * columns, seed);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) at(row, column) = values[row * columns + column];
    }
  }
  float& at(std::int64_t row, std::int64_t column) { return data[offset + row * leading + column]; }
  float* upload(Rig& rig) const {
    std::vector<std::byte> bytes(data.size() * sizeof(float));
    std::memcpy(bytes.data(), data.data(), bytes.size());
    return static_cast<float*>(rig.upload(bytes));
  }
  void download(Rig& rig, const float* from) {
    const std::vector<std::byte> bytes = rig.download(from, data.size() * sizeof(float));
    std::memcpy(data.data(), bytes.data(), bytes.size());
  }
};

struct Factors {
  float alpha, beta;
};

void expect_product(Rig& rig, CudaGemm& gemm, const GemmSpec& spec, Factors factors, std::int64_t spare,
                    std::int64_t offset) {
  Stored a = spec.transpose_a ? Stored(spec.k, spec.m, spare, offset, 1) : Stored(spec.m, spec.k, spare, offset, 1);
  Stored b = spec.transpose_b ? Stored(spec.n, spec.k, 2 * spare, 2 * offset, 2)
                              : Stored(spec.k, spec.n, 2 * spare, 2 * offset, 2);
  Stored c(spec.m, spec.n, 3 * spare, 4 * offset, 3);
  if (factors.beta == 0) c.data.assign(c.data.size(), kUntouched);  // what was there must not be read
  Stored got = c;
  const float* const a_data = a.upload(rig);
  const float* const b_data = b.upload(rig);
  if (factors.beta == 0) {
    for (std::int64_t i = 0; i < spec.m * spec.n; ++i) got.at(i / spec.n, i % spec.n) = NAN;
  }
  float* const c_data = got.upload(rig);
  rig.run([&](NativeStream stream) {
    gemm.multiply(static_cast<cudaStream_t>(stream), spec, factors.alpha, a_data + a.offset, a.leading,
                  b_data + b.offset, b.leading, factors.beta, c_data + c.offset, c.leading);
  });
  got.download(rig, c_data);

  double worst = 0;
  for (std::int64_t row = 0; row < spec.m; ++row) {
    for (std::int64_t column = 0; column < spec.n; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < spec.k; ++i) {
        sum += static_cast<double>(spec.transpose_a ? a.at(i, row) : a.at(row, i)) *
               static_cast<double>(spec.transpose_b ? b.at(column, i) : b.at(i, column));
      }
      const double old = factors.beta == 0 ? 0 : static_cast<double>(factors.beta * c.at(row, column));
      const double difference = std::abs(static_cast<double>(factors.alpha) * sum + old - got.at(row, column));
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      got.at(row, column) = kUntouched;
      c.at(row, column) = kUntouched;
    }
  }
  EXPECT_LE(worst, 1e-6 * static_cast<double>(spec.k + 1));
  EXPECT_TRUE(got.data == c.data) << "written outside the matrix";
}

TEST_F(CudaGemmTest, MultipliesRowMajorMatrices) {
  for (const std::unique_ptr<Rig>& rig : make_rigs()) {
    CudaGemm gemm;
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
                 {1, 1, 1}, {2, 3, 4}, {1, 7, 5}, {7, 1, 5}, {5, 6, 1}, {33, 17, 29}, {64, 32, 48}}) {
          for (const Factors factors : {Factors{1, 0}, Factors{0.5F, 1}, Factors{-2, 0.25F}}) {
            for (const std::int64_t spare : {0, 3}) {
              for (const std::int64_t offset : {0, 1, 4}) {
                SCOPED_TRACE(testing::Message()
                             << rig->name() << ": " << m << " " << n << " " << k << " " << transpose_a << transpose_b
                             << " beta " << factors.beta << " spare " << spare << " offset " << offset);
                expect_product(*rig, gemm, {transpose_a, transpose_b, m, n, k}, factors, spare, offset);
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaGemmTest, ChoosesOncePerProduct) {
  const std::unique_ptr<Rig> rig = std::move(make_rigs().front());
  CudaGemm gemm;
  const GemmSpec spec{false, true, 4, 8, 16};
  EXPECT_EQ(gemm.plan_count(), 0u);
  for (int i = 0; i < 3; ++i) expect_product(*rig, gemm, spec, {1, 0}, 0, 0);
  EXPECT_EQ(gemm.plan_count(), 1u) << "the same product";
  expect_product(*rig, gemm, spec, {2, 1}, 0, 0);
  EXPECT_EQ(gemm.plan_count(), 1u) << "factors are no part of it";
  expect_product(*rig, gemm, {false, true, 4, 8, 17}, {1, 0}, 0, 0);
  EXPECT_EQ(gemm.plan_count(), 2u) << "another shape";
  expect_product(*rig, gemm, spec, {1, 0}, 1, 0);
  EXPECT_EQ(gemm.plan_count(), 3u) << "other leading dimensions";
  expect_product(*rig, gemm, spec, {1, 0}, 0, 1);
  EXPECT_EQ(gemm.plan_count(), 4u) << "another alignment";
}

TEST_F(CudaGemmTest, SaysWhichProductWasRefused) {
  const std::unique_ptr<Rig> rig = std::move(make_rigs().front());
  CudaGemm gemm;
  auto* const memory = static_cast<float*>(rig->upload(std::vector<std::byte>(1024)));
  const auto multiply = [&](NativeStream stream) {
    gemm.multiply(static_cast<cudaStream_t>(stream), {true, false, 4, 8, 2}, 1, memory, 3, memory, 8, 0, memory, 8);
  };
  try {
    rig->run(multiply);
    FAIL() << "a leading dimension below the width was taken";
  } catch (const gpu::DeviceError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the product A^T B with m = 4, n = 8, k = 2"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cublasLt"));
  }
  EXPECT_EQ(gemm.plan_count(), 0u);
}

}  // namespace
}  // namespace penstock::trainer::test
