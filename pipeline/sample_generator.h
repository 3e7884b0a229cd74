// Samples from a coroutine: the shortest way to write a range for flat_map, interleave and generator.
//
//   SampleGenerator crops(const Sample& photo) {
//     for (int i = 0; i < 1'000'000; ++i) co_yield crop_number(photo, i);   // one in memory at a time
//   }
//   photos.flat_map(crops)
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/pipeline/sample.h>

namespace penstock {

/// What such a coroutine returns: an input range of samples that runs the coroutine as far as the next `co_yield`, each
/// time that it is advanced. Move-only; one pass. What the coroutine throws comes out of `begin()` or `++`, and ends
/// the range. Destroyed early, it destroys what the coroutine holds at that point. Used by one thread at a time, not
/// always the same. A sample that flat_map or interleave passed by reference lives until the range is destroyed; all
/// else that a coroutine takes by reference must outlive it.
class SampleGenerator {
 public:
  class promise_type;  // NOLINT(readability-identifier-naming): the language looks for this name
  class Iterator;

  SampleGenerator(SampleGenerator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  SampleGenerator& operator=(SampleGenerator&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~SampleGenerator() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Runs to the first sample. At most once.
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  explicit SampleGenerator(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

/// The coroutine's side.
class SampleGenerator::promise_type {
 public:
  SampleGenerator get_return_object() {
    return SampleGenerator(std::coroutine_handle<promise_type>::from_promise(*this));
  }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  std::suspend_always final_suspend() const noexcept { return {}; }
  std::suspend_always yield_value(Sample sample) noexcept {
    sample_ = std::move(sample);
    return {};
  }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  /// Only samples are awaited.
  void await_transform() = delete;

 private:
  friend class SampleGenerator::Iterator;
  Sample sample_;
  std::exception_ptr error_;
};

/// Stands at a sample, which it holds until it is advanced.
class SampleGenerator::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Sample;
  using difference_type = std::ptrdiff_t;

  const Sample& operator*() const noexcept { return coroutine_.promise().sample_; }
  Iterator& operator++() {
    coroutine_.promise().sample_ = Sample();
    coroutine_.resume();
    if (coroutine_.promise().error_) std::rethrow_exception(std::exchange(coroutine_.promise().error_, nullptr));
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& at, std::default_sentinel_t) noexcept { return at.coroutine_.done(); }

 private:
  friend class SampleGenerator;
  explicit Iterator(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {
    if (!coroutine_.done()) ++*this;
  }
  std::coroutine_handle<promise_type> coroutine_;
};

inline SampleGenerator::Iterator SampleGenerator::begin() { return Iterator(coroutine_); }

}  // namespace penstock
