// Options of the stages that have more than one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/plan.h>
#include <penstock/pipeline/sample.h>
#include <penstock/pipeline/sample_range.h>

namespace penstock {

/// For `Pipeline::interleave`.
struct Interleave {
  std::size_t cycle_length = 16;  ///< ranges that are open at once; at least 1
  std::size_t block_length = 1;   ///< samples that are taken from one before the next; at least 1
};

/// For `Pipeline::window`: window k has the samples k * shift, k * shift + stride, ..., `size` of them.
struct Window {
  std::size_t size = 1;
  std::size_t shift = 0;  ///< 0: as `size`, so that windows do not overlap
  std::size_t stride = 1;
  /// Windows at the end that are not full: kKeep gives them with the samples there are (the leading dimension is then
  /// unknown), kDrop leaves them out. No other choice.
  LastBatch last = LastBatch::kDrop;
};

/// For `Pipeline::scan`.
struct Scan {
  Sample initial;  ///< the state at the start of each epoch
  /// (state, sample) -> (next state, sample to give on). Called in order, one at a time. What it throws takes the
  /// sample's place and leaves the state as it was.
  std::function<std::pair<Sample, Sample>(const Sample& state, const Sample& sample)> step;
  /// The state as text and back, for Loader::state; without them it throws and names the stage.
  std::function<std::string(const Sample& state)> save = {};
  std::function<Sample(const std::string& text)> restore = {};
};

/// For `Pipeline::padded_batch`.
struct PaddedBatch {
  LastBatch last = LastBatch::kKeep;
  /// Value of the padding, by field; fields not named get 0. Of the field's type after conversion.
  std::map<std::string, double> padding = {};
  /// Dimensions to pad to instead of the largest of the batch, by field: a shape whose unknown dimensions still are the
  /// largest. A sample that is larger is an error of that sample.
  std::map<std::string, Shape> shapes = {};
};

/// For `Pipeline::bucket`: samples wait in the bucket of their length until it has a batch. Bucket i holds lengths
/// in [boundaries[i - 1], boundaries[i]); one more holds what is longer.
struct Bucket {
  std::function<std::uint64_t(const Sample&)> length;  ///< e.g. the first dimension of a field
  std::vector<std::uint64_t> boundaries;               ///< strictly rising
  std::vector<std::size_t> batch_sizes;                ///< one more than boundaries
  PaddedBatch padded = {};  ///< how a batch is padded; `last` says what becomes of the rest in the buckets
};

/// For `sample_from`.
struct SampleFrom {
  std::optional<std::uint64_t> seed = {};  ///< default: the loader's seed
  /// What happens when an input ends.
  enum class AtEnd : std::uint8_t {
    kStop,      ///< the epoch ends
    kContinue,  ///< it goes on with the others until all have ended
    kRepeat,    ///< that input begins again with its next pass; the epoch ends when each has ended once
  } at_end = AtEnd::kContinue;
};

/// For `generator`.
struct GeneratorOptions {
  std::string name = "generator";
  /// A range that goes on from what `SampleRange::save` of the running one has returned; without it, or for ranges that
  /// cannot save, Loader::state throws and names the stage.
  std::function<SampleRange(std::uint64_t epoch, const std::string& text)> restore = {};
  std::optional<std::uint64_t> size = {};  ///< samples an epoch, when they are known: for counting only
};

}  // namespace penstock
