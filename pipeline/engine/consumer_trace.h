// The consumer's row of a trace: how long it was inside next(), and every batch that it got.
#pragma once

#include <cstdint>
#include <memory>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/report/trace.h>

namespace penstock::engine {

/// Costs a comparison where there is no trace.
class ConsumerTrace {
 public:
  explicit ConsumerTrace(std::shared_ptr<Trace> trace);

  /// One call of next(), from its construction to its end.
  class Taking {
   public:
    explicit Taking(const ConsumerTrace& of);
    ~Taking();
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;
    void delivered(const Batch& batch) const;

   private:
    const ConsumerTrace& of_;
    Trace::Clock::time_point begin_;
  };

 private:
  std::shared_ptr<Trace> trace_;
  std::uint32_t wait_ = 0;
  std::uint32_t batch_ = 0;
};

}  // namespace penstock::engine
