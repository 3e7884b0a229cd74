// A slot is followed from the outermost stage inwards to the source. Shuffles below a repeat see which pass they are
// in, so that every pass has another permutation.
#include <penstock/pipeline/order/order.h>

#include <algorithm>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/error.h>

namespace penstock::order {
namespace {

constexpr std::size_t kKeptPerShuffle = 8;
constexpr std::uint64_t kSourceOrdinal = 0;

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

}  // namespace

Order::Order(std::uint64_t source_size, std::span<const Stage> stages, std::uint64_t seed) : size_(source_size) {
  for (const Stage& stage : stages) {
    std::visit(Cases{[&](const ShuffleStage& shuffle) {
                       const std::uint64_t of_seed = mix_lineage(shuffle.options.seed.value_or(seed), 0x5348);
                       steps_.push_back(Shuffled{mix_lineage(of_seed, shuffle_count_), size_, shuffle_count_});
                       ++shuffle_count_;
                     },
                     [&](const RepeatStage& repeat) {
                       std::uint64_t total = 0;
                       if (__builtin_mul_overflow(size_, repeat.count, &total) || total > (std::uint64_t{1} << 62)) {
                         throw InvalidArgument("repeat: " + std::to_string(size_) + " samples " +
                                               std::to_string(repeat.count) + " times are more than can be counted");
                       }
                       steps_.push_back(Repeat{size_});
                       size_ = total;
                       left_out_ *= repeat.count;
                     },
                     [&](const TakeStage& take) { size_ = std::min(size_, take.count); },
                     [&](const SkipStage& skip) {
                       steps_.push_back(Skip{skip.count});
                       size_ -= std::min(size_, skip.count);
                     },
                     [&](const ShardStage& shard) {
                       steps_.push_back(Shard{shard.rank, shard.world});
                       if (shard.uneven == UnevenShards::kDrop) {
                         left_out_ += size_ % shard.world;
                         size_ /= shard.world;
                       } else {
                         size_ = shard.rank < size_ ? (size_ - shard.rank - 1) / shard.world + 1 : 0;
                       }
                     },
                     [](const auto&) {}},
               stage);
  }
  kept_.resize(shuffle_count_);
}

std::shared_ptr<const Permutation> Order::permutation(const Shuffled& step, std::uint64_t key) const {
  const auto find = [&]() PENSTOCK_REQUIRES(mutex_) -> std::shared_ptr<const Permutation> {
    for (const Kept& kept : kept_[step.ordinal]) {
      if (kept.key == key) return kept.permutation;
    }
    return nullptr;
  };
  {
    const MutexLock lock(mutex_);
    if (auto found = find()) return found;
  }
  auto made = std::make_shared<const Permutation>(step.inner, key);
  const MutexLock lock(mutex_);
  if (auto found = find()) return found;
  std::vector<Kept>& kept = kept_[step.ordinal];
  if (kept.size() < kKeptPerShuffle) {
    kept.push_back({key, made});
  } else {
    kept[next_kept_++ % kKeptPerShuffle] = {key, made};
  }
  return made;
}

void Order::shuffle(const Shuffled& step, std::uint64_t epoch, bool repeated, std::span<Placed> out) const {
  const std::uint64_t of_epoch = mix_lineage(step.key, epoch);
  Kept used;  // another one once a pass at most
  for (Placed& placed : out) {
    if (!used.permutation || repeated) {
      const std::uint64_t key = mix_lineage(of_epoch, placed.lineage);
      if (!used.permutation || used.key != key) used = {key, permutation(step, key)};
    }
    placed.index = used.permutation->index_at(placed.index);
  }
}

// On the way inwards `lineage` is the mix of the passes so far. True when there is a repeat.
bool Order::place(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const {
  for (Placed& placed : out) placed = {slot++, 0};
  bool repeated = false;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    if (const auto* const shuffled = std::get_if<Shuffled>(&step)) {
      shuffle(*shuffled, epoch, repeated, out);
    } else if (const auto* const repeat = std::get_if<Repeat>(&step)) {
      repeated = true;
      for (Placed& placed : out) {
        placed.lineage = mix_lineage(placed.lineage, placed.index / repeat->inner);
        placed.index %= repeat->inner;
      }
    } else if (const auto* const skip = std::get_if<Skip>(&step)) {
      for (Placed& placed : out) placed.index += skip->count;
    } else if (const auto* const shard = std::get_if<Shard>(&step)) {
      for (Placed& placed : out) placed.index = placed.index * shard->world + shard->rank;
    }
  }
  return repeated;
}

void Order::fill(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const {
  const bool repeated = place(epoch, slot, out);
  const std::uint64_t source_hash = mix_lineage(kSourceOrdinal, 0x5352);
  for (Placed& placed : out) {
    const std::uint64_t passes = placed.lineage;
    placed.lineage = mix_lineage(source_hash, placed.index);
    if (repeated) placed.lineage = mix_lineage(placed.lineage, passes);
  }
}

void Order::fill_indices(std::uint64_t epoch, std::uint64_t slot, std::span<Placed> out) const {
  place(epoch, slot, out);
}

}  // namespace penstock::order
