// Convolution as a matrix product: every output pixel gets the R * S * C inputs it sees as one row of a matrix
// (im2col), and the gradient of that matrix is summed back over the pixels (col2im). Both are gathers: every element is
// written from one place, with no atomics. In NHWC the S * C inputs of one filter row are adjacent in memory, so they
// are one copy.
#pragma once

#include <penstock/trainer/backend.h>
#include <penstock/trainer/operations/host_device.h>

namespace penstock::trainer::operations {

/// col[ox, r, s, c] of output lines first_line, first_line + 1, ... of [N * OH] lines. Launched by row with rows =
/// lines and width = OW * R * S * C.
struct Im2Col {
  ConvShape shape;
  std::int64_t out_h;
  std::int64_t out_w;
  std::int64_t first_line;
  const float* x;
  float* col;

  PENSTOCK_HD void operator()(std::int64_t line, std::int64_t begin, std::int64_t end) const {
    const std::int64_t c = shape.c;
    const std::int64_t piece = shape.s * c;
    const std::int64_t patch = shape.r * piece;
    const std::int64_t image = (first_line + line) / out_h;
    const std::int64_t top = (first_line + line - image * out_h) * shape.stride - shape.pad;
    const float* picture = x + image * shape.h * shape.w * c;
    float* out = col + line * out_w * patch;
    for (std::int64_t ox = begin / patch; ox * patch < end; ++ox) {
      const std::int64_t left = (ox * shape.stride - shape.pad) * c;  // where the piece starts in its input line
      std::int64_t r = larger(0, begin - ox * patch) / piece;
      for (; r < shape.r && ox * patch + r * piece < end; ++r) {
        const std::int64_t start = ox * patch + r * piece;
        const std::int64_t first = larger(0, begin - start);
        const std::int64_t last = smaller(piece, end - start);
        const std::int64_t in_y = top + r;
        float* to = out + start;
        if (in_y < 0 || in_y >= shape.h) {
          for (std::int64_t i = first; i < last; ++i) to[i] = 0;
          continue;
        }
        // The part of the piece that lies inside the line; before and after it is padding.
        const float* from = picture + in_y * shape.w * c + left;
        const std::int64_t inside = smaller(last, larger(first, -left));
        const std::int64_t outside = larger(inside, smaller(last, shape.w * c - left));
        for (std::int64_t i = first; i < inside; ++i) to[i] = 0;
        PENSTOCK_INDEPENDENT_LOOP
        for (std::int64_t i = inside; i < outside; ++i) to[i] = from[i];
        for (std::int64_t i = outside; i < last; ++i) to[i] = 0;
      }
    }
  }
};

/// dx of whole images, `col` and `dx` starting at the same image. Launched by row with rows = images * H and width = W
/// * C.
struct Col2Im {
  static constexpr std::int64_t kElementWork = 9;
  ConvShape shape;
  std::int64_t out_h;
  std::int64_t out_w;
  const float* col;
  float* dx;

  struct At {
    const float* picture;  ///< columns of the image
    std::int64_t in_y;
    std::int64_t in_x;
    float* to;
  };

  PENSTOCK_HD void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t c = shape.c;
    const std::int64_t image = row / shape.h;
    const float* picture = col + image * out_h * out_w * shape.r * shape.s * c;
    for (std::int64_t in_x = begin / c; in_x * c < end; ++in_x) {
      const At at{picture, row - image * shape.h, in_x, dx + (row * shape.w + in_x) * c};
      for_channel_blocks(*this, at, larger(0, begin - in_x * c), smaller(c, end - in_x * c));
    }
  }
  template <int W>
  PENSTOCK_HD void block(const At& at, std::int64_t channel) const {
    using Floats = typename Channels<W>::Floats;
    Floats sum{};
    for (std::int64_t r = 0; r < shape.r; ++r) {
      const std::int64_t oy = output_of(at.in_y + shape.pad - r, out_h);
      if (oy < 0) continue;
      for (std::int64_t s = 0; s < shape.s; ++s) {
        const std::int64_t ox = output_of(at.in_x + shape.pad - s, out_w);
        if (ox < 0) continue;
        Floats value;
        load(value, at.picture + (((oy * out_w + ox) * shape.r + r) * shape.s + s) * shape.c + channel);
        sum += value;
      }
    }
    store(at.to + channel, sum);
  }
  /// The output whose window has its first row or column `offset` input steps in, or -1 where there is none.
  PENSTOCK_HD std::int64_t output_of(std::int64_t offset, std::int64_t count) const {
    if (offset < 0) return -1;
    if (shape.stride == 1) return offset < count ? offset : -1;
    const std::int64_t out = offset / shape.stride;
    return out * shape.stride == offset && out < count ? out : -1;
  }
};

}  // namespace penstock::trainer::operations
