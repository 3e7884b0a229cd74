// Makes JPEG files from pixels.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <stdlib.h>

#include <jpeglib.h>

namespace penstock::test {

/// A baseline JPEG of `pixels`, [height, width, channels], of 1 (grey) or 3 (RGB) channels.
inline std::string jpeg_bytes(std::span<const std::uint8_t> pixels, unsigned height, unsigned width, int channels,
                              int quality = 90) {
  if (pixels.size() != std::size_t{height} * width * static_cast<std::size_t>(channels)) {
    throw std::invalid_argument("pixels do not fit the size");
  }
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &memory, &size);
  state.image_width = width;
  state.image_height = height;
  state.input_components = channels;
  state.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, quality, TRUE);
  jpeg_start_compress(&state, TRUE);
  while (state.next_scanline < height) {
    const std::size_t offset = std::size_t{state.next_scanline} * width * static_cast<std::size_t>(channels);
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + offset);
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  free(memory);
  return bytes;
}

}  // namespace penstock::test
