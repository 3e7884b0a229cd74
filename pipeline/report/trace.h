// What ran when, for Perfetto (ui.perfetto.dev) or chrome://tracing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string_view>

namespace penstock {

/// What an event is about; what it does not concern stays kNothing.
struct TraceAbout {
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::uint64_t epoch = kNothing;
  std::uint64_t batch = kNothing;
  std::uint64_t row = kNothing;     ///< the first of the batch
  std::uint64_t count = kNothing;   ///< rows
  std::uint64_t sample = kNothing;  ///< index in the source
};

/// A bounded recorder in memory: each thread writes into a ring of its own, and what no longer fits replaces that
/// thread's oldest. Give one to LoaderOptions::trace; several loaders may share it. Safe for concurrent use.
///
/// On the rows of the worker threads stand slices named `block`, one for each round of a block, and inside of it one
/// for each stage: as long as the block's rows took there together, one stage after the other (in truth each row goes
/// through all stages). So the slices of a stage add up to its time in LoaderReport. Reads are spans of their own, from
/// the request to the answer. On the consumer's row stand its waits inside `next()`, and a mark for every batch.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws InvalidArgument for a ring of 0 events.
  explicit Trace(std::size_t events_a_thread = std::size_t{1} << 16);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  using About = TraceAbout;
  /// The number of a name for the calls below; equal names have equal numbers.
  std::uint32_t name(std::string_view text);
  /// Something that this thread did.
  void slice(std::uint32_t name, Clock::time_point begin, Clock::duration length, const About& about = {});
  /// Something that went on beside the threads.
  void span(std::uint32_t name, Clock::time_point begin, Clock::time_point end, const About& about = {});
  /// Something that happened on this thread.
  void mark(std::uint32_t name, Clock::time_point at, const About& about = {});
  /// Names this thread's row, unless it has a name already.
  void name_thread(std::string_view text);

  /// Events that were replaced by later ones.
  std::uint64_t dropped() const;
  /// Writes one JSON object as the Trace Event Format has it: times in microseconds since the recorder was made.
  void write_json(std::ostream& out) const;

 private:
  struct Event;
  struct Ring;
  class State;
  Ring& ring();
  const std::unique_ptr<State> state_;
};

}  // namespace penstock
