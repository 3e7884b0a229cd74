// A call that did not wait leaves a slice of no width, which shows that the batch was ready.
#include <penstock/pipeline/engine/consumer_trace.h>

#include <utility>

namespace penstock::engine {

ConsumerTrace::ConsumerTrace(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {
  if (!trace_) return;
  wait_ = trace_->name("next");
  batch_ = trace_->name("batch");
}

ConsumerTrace::Taking::Taking(const ConsumerTrace& of) : of_(of) {
  if (of_.trace_) begin_ = Trace::Clock::now();
}

ConsumerTrace::Taking::~Taking() {
  if (!of_.trace_) return;
  try {
    of_.trace_->name_thread("consumer");
    of_.trace_->slice(of_.wait_, begin_, Trace::Clock::now() - begin_);
  } catch (...) {
    // No memory for one more event: the batch counts for more.
  }
}

void ConsumerTrace::Taking::delivered(const Batch& batch) const {
  if (!of_.trace_) return;
  of_.trace_->mark(of_.batch_, Trace::Clock::now(),
                   {.epoch = batch.epoch(),
                    .batch = batch.index(),
                    .row = batch.first_row(),
                    .count = batch.size(),
                    .sample = TraceAbout::kNothing});
}

}  // namespace penstock::engine
