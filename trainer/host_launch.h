// How the operations run on the host: tiles of a parallel loop, whole rows at a time. Tiles depend on counts alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include <penstock/pipeline/parallel.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/trainer/backend.h>
#include <penstock/trainer/conv_chunks.h>
#include <penstock/trainer/host_gemm.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer {

/// Inside a lane: everything on the calling thread.
class HostLane {
 public:
  template <class F>
  void for_each(NativeStream /*stream*/, std::int64_t n, F f) const {
    run(0, n, f);
  }
  template <class F>
  void for_each_row(NativeStream /*stream*/, std::int64_t rows, std::int64_t width, F f) const {
    run_rows(0, rows, width, f);
  }
  void gemm(NativeStream /*stream*/, const GemmSpec& spec, float alpha, const float* a, std::int64_t lda,
            const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) const {
    host_gemm(spec, alpha, a, lda, b, ldb, beta, c, ldc);
  }

  /// Functors are taken by value so that the compiler knows that no store changes their members.
  template <class F>
  static void run(std::int64_t begin, std::int64_t end, F f) {
    PENSTOCK_INDEPENDENT_LOOP
    for (std::int64_t i = begin; i < end; ++i) f(i);
  }
  template <class F>
  static void run_rows(std::int64_t begin, std::int64_t end, std::int64_t width, F f) {
    for (std::int64_t row = begin; row < end; ++row) f(row, 0, width);
  }
};

/// A launcher as backend_of.h describes it, on the threads of a runtime.
class HostLaunch {
 public:
  static constexpr std::int64_t kLanes = kMostLanes;

  explicit HostLaunch(const Runtime& runtime) : runtime_(runtime) { prepare_host_gemm(); }

  template <class F>
  void for_each(NativeStream /*stream*/, std::int64_t n, const F& f) const {
    const std::int64_t tile = std::max<std::int64_t>(1, kTileWork / work_of<F>());
    if (n <= tile) return HostLane::run(0, n, f);
    parallel_for(runtime_, n, tile, [&f](std::int64_t begin, std::int64_t end) { HostLane::run(begin, end, f); });
  }

  template <class F>
  void for_each_row(NativeStream /*stream*/, std::int64_t rows, std::int64_t width, const F& f) const {
    if (width < 1) return;
    const std::int64_t tile = std::max<std::int64_t>(1, kTileWork / (work_of<F>() * width));
    if (rows <= tile) return HostLane::run_rows(0, rows, width, f);
    parallel_for(runtime_, rows, tile,
                 [&f, width](std::int64_t begin, std::int64_t end) { HostLane::run_rows(begin, end, width, f); });
  }

  /// Large products are cut along their longer side, by shape alone; the inner dimension is never cut.
  void gemm(NativeStream /*stream*/, const GemmSpec& spec, float alpha, const float* a, std::int64_t lda,
            const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) const {
    const bool by_rows = spec.m >= spec.n;
    const std::int64_t side = by_rows ? spec.m : spec.n;
    const std::int64_t wanted = spec.m * spec.n * spec.k / kSliceProducts;
    const std::int64_t slices = std::clamp<std::int64_t>(std::min(wanted, side / kLeastSlice), 1, kMostLanes);
    if (slices == 1) return host_gemm(spec, alpha, a, lda, b, ldb, beta, c, ldc);
    // Multiples of kLeastSlice keep the slices on the edges of the library's own blocks.
    const std::int64_t slice = operations::ceil_div(operations::ceil_div(side, slices), kLeastSlice) * kLeastSlice;
    parallel_for(runtime_, side, slice, [&](std::int64_t begin, std::int64_t end) {
      GemmSpec part = spec;
      if (by_rows) {
        part.m = end - begin;
        host_gemm(part, alpha, a + begin * (spec.transpose_a ? 1 : lda), lda, b, ldb, beta, c + begin * ldc, ldc);
      } else {
        part.n = end - begin;
        host_gemm(part, alpha, a, lda, b + begin * (spec.transpose_b ? ldb : 1), ldb, beta, c + begin, ldc);
      }
    });
  }

  template <class F>
  void lanes(NativeStream /*stream*/, std::int64_t count, const F& f) const {
    parallel_for(runtime_, count, 1, [&f](std::int64_t begin, std::int64_t end) {
      const HostLane lane;
      for (std::int64_t index = begin; index < end; ++index) f(lane, index);
    });
  }

 private:
  static constexpr std::int64_t kTileWork = 32 * 1024;     // plain element operations a tile: about ten microseconds
  static constexpr std::int64_t kSliceProducts = 1 << 19;  // multiplications that are worth a slice
  static constexpr std::int64_t kLeastSlice = 16;

  template <class F>
  static constexpr std::int64_t work_of() {
    if constexpr (requires { F::kElementWork; }) {
      return F::kElementWork;
    } else {
      return 1;
    }
  }

  Runtime runtime_;
};

}  // namespace penstock::trainer
