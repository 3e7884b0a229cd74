// Plans drawn at random from all stages, from a seed: what the laws are tested with. The functions of the stages look
// at whole samples, so that every stage may follow every other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/cache/memory_store.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/sample_generator.h>
#include <penstock/pipeline/source/memory.h>

namespace penstock::test {

/// The stages by name, in no special order.
inline constexpr std::array<std::string_view, 23> kStages{
    "map",         "draw",         "filter", "flat_map",   "interleave", "unbatch", "zip",    "concatenate",
    "sample_from", "take",         "skip",   "take_while", "enumerate",  "scan",    "window", "batch",
    "collate",     "padded_batch", "bucket", "shuffle",    "repeat",     "shard",   "cache"};

/// FNV-1a over all bytes and shapes of a sample.
inline std::uint64_t hash_of(const Sample& sample) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3ULL; };
  for (const Tensor& tensor : sample.tensors()) {
    for (const std::int64_t dim : tensor.shape().dims()) mix(static_cast<std::uint64_t>(dim));
    for (std::size_t i = 0; i < tensor.size_bytes(); ++i) mix(static_cast<std::uint64_t>(tensor.data()[i]));
  }
  return hash ^ (hash >> 29);
}

/// The sample with `amount` added to every i64 element.
inline Sample shifted(const Sample& sample, std::int64_t amount) {
  Sample result = sample;
  for (std::size_t f = 0; f < sample.names().size(); ++f) {
    const Tensor& tensor = sample.tensors()[f];
    if (tensor.type() != DataType::kI64) continue;
    std::vector<std::int64_t> values(tensor.view<std::int64_t>().span().begin(),
                                     tensor.view<std::int64_t>().span().end());
    for (std::int64_t& value : values) value += amount;
    result.set(sample.names()[f], Tensor::copy_of<std::int64_t>(values, tensor.shape()));
  }
  return result;
}

inline SampleGenerator children_of(Sample sample, std::uint64_t count) {
  for (std::uint64_t child = 0; child < count; ++child)
    co_yield shifted(sample, static_cast<std::int64_t>(1000 * child));
}

/// Sample {x: i64 [], v: f32 [3], w: u8 [2], or of up to 4 bytes when `ragged`}.
inline Sample plain_sample(std::int64_t number, bool ragged) {
  const std::array<float, 3> v{static_cast<float>(number), 0.5F, static_cast<float>(-number)};
  const std::vector<std::uint8_t> w(ragged ? static_cast<std::size_t>(number * 7 % 5) : 2,
                                    static_cast<std::uint8_t>(number));
  return Sample({"x", "v", "w"}, {Tensor::scalar<std::int64_t>(number), Tensor::copy_of<float>(v, Shape{3}),
                                  Tensor::copy_of<std::uint8_t>(w, Shape{static_cast<std::int64_t>(w.size())})});
}

/// One random plan, and what it was made of.
class RandomPlan {
 public:
  /// `ragged`: samples have a field of unknown length, so that only padding stages can batch them.
  RandomPlan(std::uint64_t seed, bool with_errors, bool ragged)
      : random_(seed), with_errors_(with_errors), ragged_(ragged) {}

  /// `samples` of them, from memory or from a generator (a stream).
  Pipeline source(std::uint64_t samples) {
    const auto first = static_cast<std::int64_t>(below(50));
    const Schema schema(
        {{"x", DataType::kI64, {}}, {"v", DataType::kF32, {3}}, {"w", DataType::kU8, {ragged_ ? Shape::kUnknown : 2}}});
    const bool ragged = ragged_;
    if (samples == 0 || below(4) == 0) {
      text_ = "generator";
      const auto from = [samples, first, ragged](std::uint64_t epoch, std::uint64_t begin) {
        const auto at = std::make_shared<std::uint64_t>(begin);
        return SampleRange(
            [samples, first, ragged, epoch, at]() -> std::optional<Sample> {
              if (*at == samples) return std::nullopt;
              return plain_sample(first + static_cast<std::int64_t>((*at)++ + epoch), ragged);
            },
            [at] { return std::to_string(*at); });
      };
      return generator(
          schema, [from](std::uint64_t epoch) { return from(epoch, 0); },
          {.restore = [from](std::uint64_t epoch, const std::string& text) { return from(epoch, std::stoull(text)); }});
    }
    text_ = "memory";
    std::vector<Sample> all;
    for (std::uint64_t i = 0; i < samples; ++i)
      all.push_back(plain_sample(first + static_cast<std::int64_t>(i), ragged));
    return memory(std::move(all));
  }

  /// `pipeline` with one more stage. Throws InvalidArgument where the stage cannot follow.
  Pipeline add(const Pipeline& pipeline, std::string_view stage) {
    text_ += " " + std::string(stage);
    const std::uint64_t salt = below(1000);
    if (stage == "map") return pipeline.map([salt](Sample s) { return shifted(s, static_cast<std::int64_t>(salt)); });
    if (stage == "draw") {
      return pipeline.map(
          [](Sample s, Draw& draw) { return shifted(s, static_cast<std::int64_t>(draw.below(1 << 20))); });
    }
    if (stage == "fail") {
      return pipeline.map([salt](Sample s) {
        if (hash_of(s) % 11 == salt % 11) throw std::runtime_error("unlucky " + std::to_string(hash_of(s) % 1000));
        return s;
      });
    }
    if (stage == "filter") return pipeline.filter([salt](const Sample& s) { return (hash_of(s) + salt) % 4 != 0; });
    if (stage == "flat_map") {
      return pipeline.flat_map(
          [salt](const Sample& s) { return SampleRange::of(children_of(s, (hash_of(s) + salt) % 4)); });
    }
    if (stage == "interleave") {
      return pipeline.interleave(
          [salt](const Sample& s) { return SampleRange::of(children_of(s, (hash_of(s) + salt) % 4)); },
          Interleave{.cycle_length = 1 + below(4), .block_length = 1 + below(3)});
    }
    if (stage == "unbatch") return pipeline.unbatch();
    if (stage == "zip") return zip({pipeline, renamed(pipeline)});
    if (stage == "concatenate") return concatenate({pipeline, add_map(pipeline).take(1 + below(9))});
    if (stage == "sample_from") {
      return sample_from({pipeline, add_map(pipeline)}, {1.0, 0.5 + static_cast<double>(below(3))},
                         SampleFrom{.at_end = below(2) == 0 ? SampleFrom::AtEnd::kContinue : SampleFrom::AtEnd::kStop});
    }
    if (stage == "take") return pipeline.take(3 + below(60));
    if (stage == "skip") return pipeline.skip(below(5));
    if (stage == "take_while")
      return pipeline.take_while([salt](const Sample& s) { return (hash_of(s) + salt) % 53 != 0; });
    if (stage == "enumerate")
      return pipeline.enumerate("n" + std::to_string(names_++), static_cast<std::int64_t>(salt));
    if (stage == "scan") return scanned(pipeline);
    if (stage == "window")
      return pipeline.window({.size = 1 + below(4), .shift = 1 + below(3), .stride = 1 + below(2)});
    if (stage == "batch") return pipeline.batch(1 + below(6), below(2) == 0 ? LastBatch::kKeep : LastBatch::kDrop);
    if (stage == "collate") return collated(pipeline);
    if (stage == "padded_batch") return pipeline.padded_batch(1 + below(6), {.padding = padding_of(pipeline)});
    if (stage == "bucket") {
      return pipeline.bucket({.length = [](const Sample& s) { return hash_of(s) % 30; },
                              .boundaries = {10, 20},
                              .batch_sizes = {1 + below(4), 1 + below(4), 1 + below(4)}});
    }
    if (stage == "shuffle") return pipeline.shuffle({.buffer = has_known_order(pipeline.plan()) ? 0 : 2 + below(20)});
    if (stage == "repeat") return pipeline.repeat(1 + below(2));
    if (stage == "shard") {
      return pipeline.shard(below(2), 2, below(2) == 0 ? UnevenShards::kKeep : UnevenShards::kDrop);
    }
    if (stage == "cache") return pipeline.cache(cache::memory(1 << 20));
    throw std::logic_error("no such stage");
  }

  /// The pipeline as a loader takes it: batched, with the policy.
  Pipeline finish(Pipeline pipeline) {
    if (with_errors_) pipeline = add(pipeline, "fail");
    if (pipeline.plan().batch_depth == 0) {
      bool known = true;
      for (const Field& field : pipeline.schema().fields()) known = known && field.shape.known();
      pipeline = known ? add(pipeline, "batch") : add(pipeline, "padded_batch");
    }
    if (with_errors_ && below(2) == 0) {
      text_ += " skip";
      pipeline = pipeline.on_error({.action = OnError::kSkip});
    }
    return pipeline;
  }

  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  const std::string& text() const { return text_; }

  /// Whether the samples here can be permuted by arithmetic.
  static bool has_known_order(const Plan& plan) {
    return plan.source && plan.source->size() &&
           std::all_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
             const auto* const map = std::get_if<MapStage>(&stage);
             const auto* const shuffle = std::get_if<ShuffleStage>(&stage);
             return !(map && map->drops) && !(shuffle && shuffle->options.buffer != 0) &&
                    !std::holds_alternative<BatchStage>(stage) &&
                    !std::holds_alternative<std::shared_ptr<const StreamStage>>(stage);
           });
  }

 private:
  static std::map<std::string, double> padding_of(const Pipeline& pipeline) {
    return {{pipeline.schema()[pipeline.schema().size() - 1].name, 9.0}};
  }

  static Pipeline add_map(const Pipeline& pipeline) {
    return pipeline.map([](Sample s) { return shifted(s, 7); });
  }

  // The same samples under other names.
  Pipeline renamed(const Pipeline& pipeline) {
    const std::string suffix = "'" + std::to_string(names_++);
    Outputs outputs;
    for (Field field : pipeline.schema().fields()) {
      field.name += suffix;
      outputs.push_back(std::move(field));
    }
    return pipeline.map(
        [suffix](Sample s) {
          std::vector<std::string> names;
          for (const std::string& name : s.names()) names.push_back(name + suffix);
          return Sample(std::move(names), s.tensors(), s.origin());
        },
        outputs);
  }

  static Pipeline scanned(const Pipeline& pipeline) {
    const auto number = [](const Sample& state) { return state["sum"].view<std::int64_t>()[0]; };
    const auto state_of = [](std::int64_t sum) { return Sample({"sum"}, {Tensor::scalar<std::int64_t>(sum)}); };
    return pipeline.scan({.initial = state_of(1),
                          .step =
                              [=](const Sample& state, const Sample& sample) {
                                const std::int64_t sum =
                                    number(state) + static_cast<std::int64_t>(hash_of(sample) % 100);
                                return std::pair(state_of(sum), shifted(sample, sum));
                              },
                          .save = [=](const Sample& state) { return std::to_string(number(state)); },
                          .restore = [=](const std::string& text) { return state_of(std::stoll(text)); }});
  }

  // Batches that keep one number a sample.
  Pipeline collated(const Pipeline& pipeline) {
    return pipeline.batch(
        1 + below(5),
        [](const std::vector<Sample>& samples) {
          std::vector<std::int64_t> values;
          for (const Sample& sample : samples) values.push_back(static_cast<std::int64_t>(hash_of(sample) >> 1));
          return Sample({"h"},
                        {Tensor::copy_of<std::int64_t>(values, Shape{static_cast<std::int64_t>(values.size())})});
        },
        Outputs{{"h", DataType::kI64, {Shape::kUnknown}}});
  }

  std::mt19937_64 random_;
  bool with_errors_;
  bool ragged_;
  std::uint64_t names_ = 0;
  std::string text_;
};

}  // namespace penstock::test
