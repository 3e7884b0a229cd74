// The stages of a round are laid out in its slice as long as they were measured; what no stage took is its end.
#include <penstock/pipeline/engine/stage_trace.h>

#include <algorithm>
#include <utility>

#include <penstock/pipeline/engine/stage_counter.h>

namespace penstock::engine {
namespace {

Trace::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void trace_slice(Trace& trace, std::uint32_t name, std::chrono::nanoseconds spent) noexcept {
  thread_local Trace::Clock::time_point last_begin;
  thread_local Trace::Clock::time_point last_end;
  const Trace::Clock::time_point now = Trace::Clock::now();
  Trace::Clock::time_point end = now;
  if (now - spent < last_end && last_begin < now) end = std::min(now, last_begin);
  last_begin = end - spent;
  last_end = now;
  try {
    trace.name_thread("worker");
    trace.slice(name, last_begin, spent, {});
  } catch (...) {
    // No memory for one more event: the samples count for more.
  }
}

StageTrace::StageTrace(std::shared_ptr<Trace> trace, const std::vector<std::string>& stages)
    : trace_(std::move(trace)) {
  if (!trace_) return;
  block_ = trace_->name("block");
  for (const std::string& stage : stages) stages_.push_back(trace_->name(stage));
}

void StageTrace::round(Trace::Clock::time_point begin, std::span<const StageTotals::Total> stages,
                       const TraceAbout& about) const noexcept {
  if (!trace_) return;
  try {
    double sum = 0;
    for (const StageTotals::Total& stage : stages) sum += stage.seconds;
    trace_->name_thread("worker");
    trace_->slice(block_, begin, std::max(Trace::Clock::now() - begin, duration_of(sum)), about);
    double at = 0;
    for (std::size_t i = 0; i < stages.size() && i < stages_.size(); ++i) {
      if (stages[i].seconds <= 0) continue;
      trace_->slice(stages_[i], begin + duration_of(at), duration_of(stages[i].seconds), about);
      at += stages[i].seconds;
    }
  } catch (...) {
    // No memory for one more event: the samples count for more.
  }
}

void StageTrace::read(Trace::Clock::time_point begin, const TraceAbout& about) const noexcept {
  if (!trace_) return;
  try {
    trace_->span(stages_.empty() ? block_ : stages_.front(), begin, Trace::Clock::now(), about);
  } catch (...) {
    // As above.
  }
}

}  // namespace penstock::engine
