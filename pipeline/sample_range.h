// Samples one after the other: what the functions of flat_map, interleave and generator return. Lazy, so that one
// sample may become a million.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>

#include <penstock/pipeline/sample.h>

namespace penstock {

/// A source of samples that is asked for one at a time, until it says that there are no more. Used by one thread at a
/// time, not always the same. May throw anything: the error takes the place of the sample, and ends the range.
class SampleRange {
 public:
  SampleRange() = default;
  /// Asks `next` until it returns nothing.
  explicit SampleRange(std::function<std::optional<Sample>()> next) : next_(std::move(next)) {}
  /// With `save`: the range's state as text after what `next` has returned so far, for GeneratorOptions::restore.
  SampleRange(std::function<std::optional<Sample>()> next, std::function<std::string()> save)
      : next_(std::move(next)), save_(std::move(save)) {}
  /// Any input range of samples: a vector, a view, a coroutine's generator.
  template <std::ranges::input_range R>
    requires std::convertible_to<std::ranges::range_value_t<R>, Sample>
  static SampleRange of(R range) {
    struct State {
      explicit State(R&& from) : range(std::move(from)) {}
      R range;
      std::optional<std::ranges::iterator_t<R>> at;
    };
    auto state = std::make_shared<State>(std::move(range));
    return SampleRange([state]() -> std::optional<Sample> {
      if (!state->at) {
        state->at.emplace(std::ranges::begin(state->range));
      } else if (*state->at != std::ranges::end(state->range)) {
        ++*state->at;
      }
      if (*state->at == std::ranges::end(state->range)) return std::nullopt;
      return Sample(**state->at);
    });
  }
  std::optional<Sample> next() { return next_ ? next_() : std::nullopt; }
  bool can_save() const noexcept { return save_ != nullptr; }
  std::string save() const { return save_(); }

 private:
  std::function<std::optional<Sample>()> next_;
  std::function<std::string()> save_;
};

namespace detail {

/// What a user's function returned, as a range.
template <class R>
SampleRange to_sample_range(R range) {
  if constexpr (std::is_same_v<R, SampleRange>) {
    return range;
  } else if constexpr (std::ranges::input_range<R>) {
    return SampleRange::of(std::move(range));
  } else {
    return SampleRange(std::function<std::optional<Sample>()>(std::move(range)));
  }
}

}  // namespace detail
}  // namespace penstock
