// Describes an input pipeline: an immutable plan; every call returns a new one, and nothing runs until a Loader does.
//
//   Pipeline train = image_folder("photos/train").shuffle({.seed = 7})
//                        .map(decode_image()).cache(memory)
//                        .map(random_resized_crop(224)).map(random_flip())
//                        .batch(256, LastBatch::kDrop);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/plan.h>

namespace penstock {

/// An input pipeline as a value. Copies are cheap and share the plan. Every call throws InvalidArgument, with the
/// stage's name, when the stage cannot work here. Safe to read from many threads.
class Pipeline {
 public:
  explicit Pipeline(std::shared_ptr<const Source> source);

  /// A map made by one of the library's functions: `map(decode_image())`.
  [[nodiscard]] Pipeline map(MapStage stage) const;
  /// One scalar field by value: `map("x", [](std::int64_t x) { return x + 1; })`.
  template <class F>
  [[nodiscard]] Pipeline map(std::string field, F function) const {
    return map(value_map(std::move(field), std::move(function)));
  }
  /// One field in place:
  /// `map("image", Output{DataType::kF32, {3, 224, 224}}, [](View<const std::uint8_t> in, View<float> out) { ... })`.
  template <class F>
  [[nodiscard]] Pipeline map(std::string field, Output output, F function) const {
    return map(view_map(std::move(field), std::move(output), std::move(function)));
  }
  /// The whole sample: `map([](Sample sample) { ...; return sample; })`.
  template <class F>
    requires(!std::is_convertible_v<F, MapStage> && !std::is_convertible_v<F, std::string>)
  [[nodiscard]] Pipeline map(F function, Outputs outputs = {}) const {
    return map(sample_map(std::move(function), std::move(outputs)));
  }
  /// The same with a name for cache keys.
  template <class F>
  [[nodiscard]] Pipeline map(const Identity& identity, std::string field, F function) const {
    return map(value_map(std::move(field), std::move(function), detail::identity_text(identity)));
  }
  template <class F>
  [[nodiscard]] Pipeline map(const Identity& identity, std::string field, Output output, F function) const {
    return map(view_map(std::move(field), std::move(output), std::move(function), detail::identity_text(identity)));
  }
  template <class F>
  [[nodiscard]] Pipeline map(const Identity& identity, F function, Outputs outputs = {}) const {
    return map(sample_map(std::move(function), std::move(outputs), detail::identity_text(identity)));
  }

  /// An exact permutation of all samples, a new one each epoch, from the seed alone.
  [[nodiscard]] Pipeline shuffle(Shuffle options = {}) const;
  /// The order so far `count` times over (at least once) within one epoch. A shuffle before it permutes each pass
  /// differently; a shuffle after it mixes the passes.
  [[nodiscard]] Pipeline repeat(std::uint64_t count) const;
  /// The first `count` samples of the order so far.
  [[nodiscard]] Pipeline take(std::uint64_t count) const;
  /// All but the first `count`.
  [[nodiscard]] Pipeline skip(std::uint64_t count) const;
  /// Every `world`-th sample from `rank` on. 0 <= rank < world.
  [[nodiscard]] Pipeline shard(std::uint64_t rank, std::uint64_t world) const;
  /// Keeps samples as they are here; later epochs get them from `store`. Refused after a map that draws.
  [[nodiscard]] Pipeline cache(std::shared_ptr<SampleStore> store) const;
  /// Rows of `size` samples, one block of memory a batch. All shapes must be known here.
  [[nodiscard]] Pipeline batch(std::size_t size, LastBatch last = LastBatch::kKeep) const;
  /// At least `batches` batches are filled ahead of the caller (default 1). Only after `batch`.
  [[nodiscard]] Pipeline prefetch(std::size_t batches) const;

  /// Fields of the samples here (after `batch`: of its rows).
  const Schema& schema() const noexcept { return plan_->schemas.back(); }
  /// Samples an epoch, or after `batch` batches an epoch; nothing for a stream.
  std::optional<std::uint64_t> size() const;
  const Plan& plan() const noexcept { return *plan_; }
  std::shared_ptr<const Plan> shared_plan() const noexcept { return plan_; }

 private:
  explicit Pipeline(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  Pipeline with(Stage stage, Schema after) const;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace penstock
