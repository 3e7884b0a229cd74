// Sources, a store and readers of batches for the tests of the pipeline.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/pipeline.h>
#include <penstock/pipeline/sample_store.h>
#include <penstock/pipeline/source.h>

namespace penstock::test {

/// Sample i is {"x": i64 i * 10}, borrowed from memory that is there.
class NumberSource final : public Source {
 public:
  explicit NumberSource(std::uint64_t count) : values_(count) {
    for (std::uint64_t i = 0; i < count; ++i) values_[i] = static_cast<std::int64_t>(i) * 10;
  }
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return values_.size(); }
  std::string describe(std::uint64_t index) const override { return "number " + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    sink.borrow(0, Shape{}, reinterpret_cast<const std::byte*>(&values_[index]));
    sink.done();
  }
  std::string fingerprint(std::uint64_t index) const override { return "number:" + std::to_string(index); }

 private:
  Schema schema_{{{"x", DataType::kI64, {}}}};
  std::vector<std::int64_t> values_;
};

/// Sample i is {"bytes": u8 [sizes[i]]}, byte j = i + j, allocated in the sink; then `finish` is called for each sample
/// that got its room, to complete it now or later. A size of -1 fails.
class BytesSource final : public Source {
 public:
  explicit BytesSource(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return sizes_.size(); }
  std::string describe(std::uint64_t index) const override { return "bytes/" + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    reads.fetch_add(1);
    if (sizes_[index] < 0) {
      sink.fail(std::make_exception_ptr(DataError(ErrorKind::kTruncated, "truncated: it ends too early")));
      return;
    }
    std::byte* const data = sink.allocate(0, Shape{sizes_[index]});
    if (!data) {
      refusals.fetch_add(1);
      return;
    }
    for (std::int64_t j = 0; j < sizes_[index]; ++j)
      data[j] = static_cast<std::byte>(index + static_cast<std::uint64_t>(j));
    if (finish) {
      finish(sink);
    } else {
      sink.done();
    }
  }
  std::string fingerprint(std::uint64_t index) const override { return "bytes:" + std::to_string(index); }

  std::function<void(Sink&)> finish;
  mutable std::atomic<std::uint64_t> reads{0};
  mutable std::atomic<std::uint64_t> refusals{0};

 private:
  Schema schema_{{{"bytes", DataType::kU8, {Shape::kUnknown}}}};
  std::vector<std::int64_t> sizes_;
};

/// Keeps everything; one load a key.
class KeepAllStore final : public SampleStore {
 public:
  Lookup begin(const SampleKey& key, Sample& hit, Waiter waiter) override {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[{key.high, key.low}];
    if (entry.sample) {
      hit = *entry.sample;
      ++hits_;
      return Lookup::kHit;
    }
    if (entry.loading) {
      entry.waiters.push_back(std::move(waiter));
      ++pending_;
      return Lookup::kPending;
    }
    entry.loading = true;
    return Lookup::kOwner;
  }
  void commit(const SampleKey& key, const Sample& sample) override { end(key, keeps ? &sample : nullptr, nullptr); }
  void fail(const SampleKey& key, std::exception_ptr error) override { end(key, nullptr, std::move(error)); }
  void abandon(const SampleKey& key) override {
    ++abandoned_;
    end(key, nullptr, nullptr);
  }
  std::string describe() const override { return "keeps all"; }

  std::uint64_t hits() const { return hits_; }
  std::uint64_t pending() const { return pending_; }
  std::uint64_t abandoned() const { return abandoned_; }
  std::size_t loading() const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [key, entry] : entries_) count += entry.loading ? 1 : 0;
    return count;
  }
  bool keeps = true;

 private:
  struct Entry {
    std::optional<Sample> sample;
    bool loading = false;
    std::vector<Waiter> waiters;
  };
  void end(const SampleKey& key, const Sample* sample, const std::exception_ptr& error) {
    std::vector<Waiter> waiters;
    {
      const std::lock_guard lock(mutex_);
      Entry& entry = entries_[{key.high, key.low}];
      if (sample) entry.sample = *sample;
      entry.loading = false;
      waiters.swap(entry.waiters);
    }
    for (const Waiter& waiter : waiters) waiter(error);
  }
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Entry> entries_;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<std::uint64_t> abandoned_{0};
};

inline Pipeline numbers(std::uint64_t count) { return Pipeline(std::make_shared<NumberSource>(count)); }

/// Values of a scalar i64 field.
inline std::vector<std::int64_t> values(const Batch& batch, std::string_view field = "x") {
  const auto view = batch.view<std::int64_t>(field);
  return {view.span().begin(), view.span().end()};
}

/// FNV-1a over every byte of every valid row of every field, and over where the rows come from.
class BatchHash {
 public:
  void add(const Batch& batch) {
    for (std::size_t f = 0; f < batch.layout().fields.size(); ++f) {
      const std::size_t bytes = batch.layout().fields[f].row_bytes * batch.size();
      for (std::size_t i = 0; i < bytes; ++i) mix(static_cast<std::uint64_t>(batch.field_data(f)[i]));
    }
    for (std::size_t row = 0; row < batch.size(); ++row) mix(batch.origin(row).index);
    mix(batch.size());
    mix(batch.index());
    mix(batch.epoch());
  }
  std::uint64_t get() const { return hash_; }

 private:
  void mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3ULL; }
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
};

/// All batches of the next epoch, as lists of values.
inline std::vector<std::vector<std::int64_t>> epoch_values(Loader& loader, std::string_view field = "x") {
  std::vector<std::vector<std::int64_t>> all;
  while (const std::optional<Batch> batch = loader.next()) all.push_back(values(*batch, field));
  return all;
}

/// The same in one list.
inline std::vector<std::int64_t> flat_epoch(Loader& loader, std::string_view field = "x") {
  std::vector<std::int64_t> all;
  for (const auto& batch : epoch_values(loader, field)) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace penstock::test
