// Products on the host: all transpositions, leading dimensions and factors against a plain loop; and many threads at
// once.
#include <penstock/trainer/host_gemm.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

#include "stored_tensors.h"

namespace penstock::trainer {
namespace {

std::size_t at(std::int64_t row, std::int64_t stride, std::int64_t column) {
  return static_cast<std::size_t>(row * stride + column);
}

TEST(HostGemmTest, GivesWhatAPlainLoopGives) {
  prepare_host_gemm();
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {3, 5, 7}, {33, 16, 9}, {2, 70, 1}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const std::int64_t lda = (transpose_a ? m : k) + 2;
        const std::int64_t ldb = (transpose_b ? k : n) + 1;
        const std::int64_t ldc = n + 3;
        const auto a = random_values(at(transpose_a ? k : m, lda, 0), 1);
        const auto b = random_values(at(transpose_b ? n : k, ldb, 0), 2);
        const auto before = random_values(at(m, ldc, 0), 3);
        auto c = before;
        host_gemm(GemmSpec{transpose_a, transpose_b, m, n, k}, 0.5F, a.data(), lda, b.data(), ldb, 2.0F, c.data(), ldc);
        auto want = before;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              sum += static_cast<double>(a[transpose_a ? at(p, lda, i) : at(i, lda, p)]) *
                     static_cast<double>(b[transpose_b ? at(j, ldb, p) : at(p, ldb, j)]);
            }
            float& to = want[at(i, ldc, j)];
            to = static_cast<float>(0.5 * sum + 2 * static_cast<double>(to));
          }
        }
        expect_near(c, want, 1e-5, "c");
      }
    }
  }
}

TEST(HostGemmTest, BetaZeroDoesNotReadTheResult) {
  prepare_host_gemm();
  const std::vector<float> a{1, 2};
  const std::vector<float> b{3, 4};
  auto c = unwritten(1);
  host_gemm(GemmSpec{false, false, 1, 1, 2}, 1, a.data(), 2, b.data(), 1, 0, c.data(), 1);
  EXPECT_EQ(c[0], 11);
}

TEST(HostGemmTest, NothingToDoTouchesNothing) {
  float c = 7;
  host_gemm(GemmSpec{false, false, 0, 1, 2}, 1, nullptr, 2, nullptr, 1, 0, &c, 1);
  host_gemm(GemmSpec{false, false, 1, 0, 2}, 1, nullptr, 2, nullptr, 1, 0, &c, 1);
  EXPECT_EQ(c, 7);
}

TEST(HostGemmTest, FourThreadsGetTheSameBytes) {
  prepare_host_gemm();
  struct Product {
    GemmSpec spec;
    std::vector<float> a;
    std::vector<float> b;
    std::vector<float> c;
  };
  std::vector<Product> products;
  for (const GemmSpec& spec :
       {GemmSpec{false, true, 64, 16, 72}, GemmSpec{true, false, 16, 72, 64}, GemmSpec{false, false, 64, 72, 16},
        GemmSpec{false, true, 8, 8, 9}, GemmSpec{false, true, 100, 64, 130}, GemmSpec{true, true, 33, 65, 31}}) {
    Product product{spec, random_values(static_cast<std::size_t>(spec.m * spec.k), 1),
                    random_values(static_cast<std::size_t>(spec.k * spec.n), 2),
                    std::vector<float>(static_cast<std::size_t>(spec.m * spec.n))};
    products.push_back(std::move(product));
  }
  const auto multiply = [](const Product& product, float* c) {
    const GemmSpec& spec = product.spec;
    host_gemm(spec, 1, product.a.data(), spec.transpose_a ? spec.m : spec.k, product.b.data(),
              spec.transpose_b ? spec.k : spec.n, 0, c, spec.n);
  };
  for (Product& product : products) multiply(product, product.c.data());

  constexpr int kCalls = 6000;
  std::array<std::int64_t, 4> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int call = 0; call < kCalls; ++call) {
        const Product& product = products[(static_cast<std::size_t>(call) + thread) % products.size()];
        auto c = unwritten(product.c.size());
        multiply(product, c.data());
        if (std::memcmp(c.data(), product.c.data(), c.size() * sizeof(float)) != 0) ++wrong[thread];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::int64_t count : wrong) EXPECT_EQ(count, 0);
}

TEST(HostGemmTest, WideProcessorDoesNotGetTheOldestKernels) {
#if defined(__x86_64__)
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "no AVX2 here";
  prepare_host_gemm();
  EXPECT_STRNE(host_gemm_kernels(), "Prescott");
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr) << "the environment is as it was";
#endif
}

TEST(HostGemmTest, SerialBuildOfOpenBlasIsRefused) {
  EXPECT_NO_THROW(require_threaded_openblas(1));
  try {
    require_threaded_openblas(0);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "host back end: this OpenBLAS is its serial build, which gives wrong products when several threads call "
        "it; use the pthread build (Debian: libopenblas0-pthread)");
  }
}

}  // namespace
}  // namespace penstock::trainer
