// Describes an input pipeline: an immutable plan; every call returns a new one, and nothing runs until a Loader does.
//
//   Pipeline train = image_folder("photos/train").shuffle({.seed = 7})
//                        .map(decode_image()).cache(memory)
//                        .map(random_resized_crop(224)).map(random_flip())
//                        .batch(256, LastBatch::kDrop);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/pipeline/filter_stage.h>
#include <penstock/pipeline/map_stage.h>
#include <penstock/pipeline/plan.h>
#include <penstock/pipeline/sample_range.h>
#include <penstock/pipeline/stage_options.h>

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

  /// Keeps the samples for which the predicate is true: of one scalar field, or of the whole sample; either may take a
  /// trailing `Draw&`. Runs in parallel, like a map.
  template <class F>
  [[nodiscard]] Pipeline filter(std::string field, F predicate) const {
    return map(value_filter(std::move(field), std::move(predicate)));
  }
  template <class F>
  [[nodiscard]] Pipeline filter(F predicate) const {
    return map(sample_filter(std::move(predicate)));
  }

  // Order, by arithmetic where the number of samples is known here; else counted.
  /// See Shuffle. After a `repeat` it mixes the passes.
  [[nodiscard]] Pipeline shuffle(Shuffle options = {}) const;
  /// The order so far `count` times over (at least once) within one epoch. A shuffle before it permutes each pass
  /// differently; a shuffle after it mixes the passes.
  [[nodiscard]] Pipeline repeat(std::uint64_t count) const;
  /// The first `count` samples of the order so far.
  [[nodiscard]] Pipeline take(std::uint64_t count) const;
  /// All but the first `count`.
  [[nodiscard]] Pipeline skip(std::uint64_t count) const;
  /// Every `world`-th sample from `rank` on. 0 <= rank < world.
  [[nodiscard]] Pipeline shard(std::uint64_t rank, std::uint64_t world,
                               UnevenShards uneven = UnevenShards::kKeep) const;

  // Stages that change how many samples there are, or what a sample is: one after the other, in order.
  /// The samples before the first for which `predicate` is false.
  [[nodiscard]] Pipeline take_while(std::function<bool(const Sample&)> predicate) const;
  /// Each sample becomes the samples of the range that `function` makes of it, which have the fields of `outputs`
  /// (empty: those of the input). `function(const Sample&)` returns a SampleRange, any input range of Sample, or a
  /// callable that returns std::optional<Sample>.
  template <class F>
  [[nodiscard]] Pipeline flat_map(F function, Outputs outputs = {}) const {
    return flat_map(std::function<SampleRange(const Sample&)>([function = std::move(function)](const Sample& sample) {
                      return detail::to_sample_range(function(sample));
                    }),
                    std::move(outputs));
  }
  [[nodiscard]] Pipeline flat_map(std::function<SampleRange(const Sample&)> function, Outputs outputs) const;
  /// As flat_map, with `cycle_length` ranges open at once, from which `block_length` samples are taken in turn.
  template <class F>
  [[nodiscard]] Pipeline interleave(F function, Interleave options = {}, Outputs outputs = {}) const {
    return interleave(std::function<SampleRange(const Sample&)>([function = std::move(function)](const Sample& sample) {
                        return detail::to_sample_range(function(sample));
                      }),
                      options, std::move(outputs));
  }
  [[nodiscard]] Pipeline interleave(std::function<SampleRange(const Sample&)> function, Interleave options,
                                    Outputs outputs) const;
  /// Each sample becomes one for each index of the leading dimension, which all fields share; of a batch: its rows.
  [[nodiscard]] Pipeline unbatch() const;
  /// Adds a scalar i64 field that numbers the samples of an epoch from `first` on.
  [[nodiscard]] Pipeline enumerate(std::string field = "index", std::int64_t first = 0) const;
  /// Carries a state from sample to sample; see Scan. The samples have the fields of `outputs` (empty: of the input).
  [[nodiscard]] Pipeline scan(Scan scan, Outputs outputs = {}) const;
  /// Each element is `size` samples of the order, stacked along a new leading dimension; see Window.
  [[nodiscard]] Pipeline window(Window window) const;

  /// Keeps samples as they are here; later epochs get them from `store`. Refused after a map that draws.
  [[nodiscard]] Pipeline cache(std::shared_ptr<SampleStore> store) const;

  /// Rows of `size` samples, one block of memory a batch. All shapes must be known here.
  [[nodiscard]] Pipeline batch(std::size_t size, LastBatch last = LastBatch::kKeep) const;
  /// Batches made by `collate` from `size` samples each (fewer in the last with kKeep): a sample whose fields, those of
  /// `outputs` with the batch as leading dimension (unknown: -1), all have the same leading dimension.
  [[nodiscard]] Pipeline batch(std::size_t size, std::function<Sample(const std::vector<Sample>&)> collate,
                               Outputs outputs, LastBatch last = LastBatch::kKeep) const;
  /// Batches whose fields of unknown dimensions are padded to the largest of the batch; see PaddedBatch.
  [[nodiscard]] Pipeline padded_batch(std::size_t size, PaddedBatch options = {}) const;
  /// Batches of samples of similar length; see Bucket.
  [[nodiscard]] Pipeline bucket(Bucket bucket) const;
  /// After `batch`: at least `batches` batches are filled ahead of the caller (default 1).
  [[nodiscard]] Pipeline prefetch(std::size_t batches) const;

  /// What becomes of samples that fail, in the whole pipeline. At most once; of a pipeline that is joined into another:
  /// to be said after the joint.
  [[nodiscard]] Pipeline on_error(ErrorPolicy policy) const;

  /// The plan for people: one line a stage with the fields after it and the number of elements, the branches of joins
  /// indented; then one line `warning: ...` for everything that is legal but surely wrong.
  std::string describe() const;
  /// The warnings alone.
  std::vector<std::string> warnings() const;

  /// Fields of the samples here (after `batch`: of its rows).
  const Schema& schema() const noexcept { return plan_->row_schema; }
  /// Samples an epoch, or after `batch` batches an epoch; nothing for a stream.
  std::optional<std::uint64_t> size() const;
  const Plan& plan() const noexcept { return *plan_; }
  std::shared_ptr<const Plan> shared_plan() const noexcept { return plan_; }

  /// For the files of stages: the plan with one more stage, whose elements have the schema `after`.
  [[nodiscard]] Pipeline with(Stage stage, Schema after) const;
  /// For the files of joins and generators: a plan that begins with `stage` over `inputs`.
  static Pipeline beginning(StreamStage stage, const std::vector<Pipeline>& inputs, Schema after);

 private:
  explicit Pipeline(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

/// Samples of all inputs side by side, until the shortest ends: one sample with the fields of all, whose names must
/// differ. At least two inputs, none of them batched.
[[nodiscard]] Pipeline zip(std::vector<Pipeline> inputs);
/// All of the first, then all of the second, ... The inputs have equal names and types; where shapes differ, the
/// dimension is unknown.
[[nodiscard]] Pipeline concatenate(std::vector<Pipeline> inputs);
/// Each sample comes from the input that is drawn, by `weights` (positive, any sum) and the seed alone; see SampleFrom.
[[nodiscard]] Pipeline sample_from(std::vector<Pipeline> inputs, std::vector<double> weights, SampleFrom options = {});
/// Samples that a function makes: `make()` is called at the start of each epoch and returns what flat_map's function
/// may return. `state()` needs ranges that can save (SampleRange), and `options.restore`.
[[nodiscard]] Pipeline generator(const Schema& schema, std::function<SampleRange(std::uint64_t epoch)> make,
                                 GeneratorOptions options = {});
template <class F>
  requires(!std::is_same_v<std::invoke_result_t<F, std::uint64_t>, SampleRange>)
[[nodiscard]] Pipeline generator(const Schema& schema, F make, GeneratorOptions options = {}) {
  return generator(schema, std::function<SampleRange(std::uint64_t)>([make = std::move(make)](std::uint64_t epoch) {
                     return detail::to_sample_range(make(epoch));
                   }),
                   std::move(options));
}

}  // namespace penstock
