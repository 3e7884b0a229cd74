// Maps that change the type of the values, one by one, and the layout.
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/image/image_maps.h>
#include <penstock/pipeline/image/image_stage.h>

namespace penstock {
namespace {

template <class T>
using ValueTable = std::array<T, 256>;

const char* layout_text(Layout layout) { return layout == Layout::kHwc ? "hwc" : "chw"; }

Shape laid_out(std::int64_t height, std::int64_t width, std::int64_t channels, Layout layout) {
  return layout == Layout::kHwc ? Shape{height, width, channels} : Shape{channels, height, width};
}

// to = tables[c][from], for `channels` channels; a single table serves all.
template <class T>
void look_up(const detail::Picture& from, const std::vector<ValueTable<T>>& tables, Layout layout, T* to) {
  const auto pixel_count = static_cast<std::size_t>(from.height * from.width);
  const auto channels = static_cast<std::size_t>(from.channels);
  const auto* values = reinterpret_cast<const std::uint8_t*>(from.pixels);
  const std::size_t pixel_step = layout == Layout::kHwc ? channels : 1;
  const std::size_t channel_step = layout == Layout::kHwc ? 1 : pixel_count;
  for (std::size_t c = 0; c < channels; ++c) {
    const T* const table = tables[tables.size() == 1 ? 0 : c].data();
    T* const plane = to + c * channel_step;
    for (std::size_t i = 0; i < pixel_count; ++i) plane[i * pixel_step] = table[values[i * channels + c]];
  }
}

// The same for three channels, with the channel known to the compiler.
template <class T>
void look_up_rgb(const detail::Picture& from, const std::vector<ValueTable<T>>& tables, Layout layout, T* to) {
  const auto pixel_count = static_cast<std::size_t>(from.height * from.width);
  const auto* values = reinterpret_cast<const std::uint8_t*>(from.pixels);
  const auto table_of = [&](std::size_t c) { return tables[tables.size() == 1 ? 0 : c].data(); };
  if (layout == Layout::kHwc) {
    const T* const red = table_of(0);
    const T* const green = table_of(1);
    const T* const blue = table_of(2);
    for (std::size_t i = 0; i < pixel_count; ++i) {
      to[3 * i] = red[values[3 * i]];
      to[3 * i + 1] = green[values[3 * i + 1]];
      to[3 * i + 2] = blue[values[3 * i + 2]];
    }
    return;
  }
  // Plane by plane: three streams of stores at once are slower, above all when planes lie a multiple of 4096 bytes
  // apart.
  for (std::size_t c = 0; c < 3; ++c, to += pixel_count) {
    const T* const table = table_of(c);
    const std::uint8_t* value = values + c;
    std::size_t i = 0;
    for (; i + 4 <= pixel_count; i += 4, value += 12) {
      const T a = table[value[0]], b = table[value[3]], d = table[value[6]], e = table[value[9]];
      to[i] = a;
      to[i + 1] = b;
      to[i + 2] = d;
      to[i + 3] = e;
    }
    for (; i < pixel_count; ++i, value += 3) to[i] = table[*value];
  }
}

template <class T>
detail::FieldBody table_body(std::vector<ValueTable<T>> tables, Layout layout) {
  const auto shared = std::make_shared<const std::vector<ValueTable<T>>>(std::move(tables));
  return [shared, layout](Row& row, std::size_t at, Draw&) {
    const detail::Picture picture = detail::picture_of(row.cell(at));
    const Shape shape = laid_out(picture.height, picture.width, picture.channels, layout);
    T* const to = reinterpret_cast<T*>(row.write(at, kDataType<T>, shape));
    if (picture.channels == 3) {
      look_up_rgb(picture, *shared, layout, to);
    } else {
      look_up(picture, *shared, layout, to);
    }
  };
}

template <class T>
ValueTable<T> plain_table() {
  ValueTable<T> table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<T>(i);
  return table;
}

}  // namespace

MapStage normalise(std::vector<float> mean, std::vector<float> deviation, Normalise options) {
  if (mean.empty() || mean.size() != deviation.size()) {
    throw InvalidArgument("normalise: " + std::to_string(mean.size()) + " means and " +
                          std::to_string(deviation.size()) + " deviations; one of each a channel is wanted");
  }
  std::string parameters = detail::parameter("layout", layout_text(options.layout));
  std::vector<ValueTable<float>> tables(mean.size());
  for (std::size_t c = 0; c < mean.size(); ++c) {
    if (!std::isfinite(mean[c]) || !std::isfinite(deviation[c]) || !(deviation[c] > 0)) {
      throw InvalidArgument("normalise: channel " + std::to_string(c) + " has mean " + std::to_string(mean[c]) +
                            " and deviation " + std::to_string(deviation[c]) +
                            "; both must be finite, the deviation above 0");
    }
    parameters += ", " + detail::parameter("mean", mean[c]) + ", " + detail::parameter("deviation", deviation[c]);
    for (std::size_t x = 0; x < tables[c].size(); ++x) {
      const float share = static_cast<float>(x) / 255.0F;
      const float centred = share - mean[c];
      tables[c][x] = centred / deviation[c];
    }
  }
  return detail::image_stage({
      .name = "normalise",
      .parameters = std::move(parameters),
      .field = std::move(options.field),
      .rule =
          [channels = static_cast<std::int64_t>(mean.size()), layout = options.layout](const Field& field) {
            detail::require_picture(field);
            if (field.shape[2] != channels) {
              throw InvalidArgument("field \"" + field.name + "\" has " + std::to_string(field.shape[2]) +
                                    " channels, and there are " + std::to_string(channels) + " means");
            }
            return Field{field.name, DataType::kF32, laid_out(field.shape[0], field.shape[1], channels, layout)};
          },
      .body = table_body(std::move(tables), options.layout),
  });
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the body is owned by the std::function inside

MapStage convert(DataType type, Convert options) {
  if (type != DataType::kF32 && type != DataType::kU8) {
    throw InvalidArgument(std::string("convert: the type is ") + to_string(type) + ", and must be f32 or u8");
  }
  return detail::image_stage({
      .name = "convert",
      .parameters =
          detail::parameter("type", to_string(type)) + ", " + detail::parameter("layout", layout_text(options.layout)),
      .field = std::move(options.field),
      .rule =
          [type, layout = options.layout](const Field& field) {
            detail::require_picture(field);
            return Field{field.name, type, laid_out(field.shape[0], field.shape[1], field.shape[2], layout)};
          },
      .body = type == DataType::kF32 ? table_body(std::vector{plain_table<float>()}, options.layout)
                                     : table_body(std::vector{plain_table<std::uint8_t>()}, options.layout),
  });
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the body is owned by the std::function inside

}  // namespace penstock
