// The engine of a loader whose plan is not flat: pulls a tree of operators from its root, one turn at a time, and hands
// out what comes.
//
// A turn pulls until the batches asked for are there, an operator has to wait, no memory is left, or its time is up; it
// is due again when something of that changes. Elements are cut into batches by the StreamBatcher. Whoever is needed
// next has a guaranteed share of the budget: each operator that makes elements for one, and this class for the open
// batches and the one in the caller's hands. So nothing ever stands still.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/batch_blocks.h>
#include <penstock/pipeline/engine/batch_form.h>
#include <penstock/pipeline/engine/fault_log.h>
#include <penstock/pipeline/engine/loader_engine.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/engine/stream_batcher.h>
#include <penstock/pipeline/engine/stream_turn.h>
#include <penstock/pipeline/loader.h>

namespace penstock::engine {

/// Makes the operators of a plan; without the last batch stage when the core fills the batches itself.
using MakeRoot =
    std::function<std::unique_ptr<Operator>(const Plan& plan, StreamContext& context, bool without_last_batch)>;

/// Runs any plan with a batch stage. Policies fail and skip.
class StreamCore final : public LoaderEngine, public std::enable_shared_from_this<StreamCore>, private BatcherHost {
 public:
  /// Throws InvalidArgument: what the plan asks for is not possible, the budget cannot hold the guaranteed shares, the
  /// start is none.
  StreamCore(RuntimeState& runtime, std::shared_ptr<const Plan> plan, const LoaderOptions& options,
             const MakeRoot& make_root);
  ~StreamCore() override;
  /// Throws InvalidArgument when the cursor of the start belongs to another plan.
  void start() override;
  void shutdown() override;
  void stop() override;
  void pump() override;

  std::optional<std::uint64_t> batches_per_epoch() const override { return batches_per_epoch_; }
  std::uint64_t dropped_per_epoch() const override;
  const BatchLayout& layout() const noexcept override { return *form_.layout; }
  Position position() const override;
  LoaderReport report() const override;
  std::vector<SampleFault> faults() const override { return faults_.get(); }
  Knobs knobs() const override;
  void turn(const Knobs& knobs) override;

  void room_freed() override;
  void trim() override;

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<NextResult> try_take() override;
  void count_take_locked(bool ready);

  std::optional<BatchLease> acquire(const BatchLayout& layout) override;
  void deliver(std::vector<StreamResult> results) override;
  void save(Cursor& cursor) const override { root_->save(cursor); }

  void reserve_memory();
  void check_start(Position start);
  void make_operators(const MakeRoot& make_root);
  void restore();

  bool run_turn();
  bool step();
  bool room_ahead() const;
  void begin_pass();
  void end_pass();
  void wait_for_room();

  bool held_by_caller_locked() const;
  std::exception_ptr held_error() const;
  bool epochs_ended() const noexcept { return options_.epoch_count && take_epoch_ >= *options_.epoch_count; }

  RuntimeState& runtime_;
  const std::shared_ptr<const Plan> plan_;
  const LoaderOptions options_;
  const BatchForm form_;
  std::optional<std::uint64_t> batches_per_epoch_;
  std::uint64_t most_batch_bytes_ = 0;
  std::atomic<std::size_t> open_limit_;
  std::shared_ptr<BatchBlocks> own_blocks_;  // null when the memory is the user's
  std::shared_ptr<BatchMemory> memory_;
  const std::shared_ptr<const void> lent_count_ = std::make_shared<char>();
  const std::shared_ptr<StreamTurn> turn_;
  std::vector<std::pair<std::string, std::unique_ptr<StageCounter>>> counters_;  // made with the operators
  StreamContext context_;
  FaultLog faults_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> begun_{false};
  std::atomic<bool> starving_{false};
  std::atomic<bool> trim_wanted_{false};

  // Of the turn: one thread at a time.
  std::unique_ptr<Operator> root_;
  std::unique_ptr<StreamBatcher> batcher_;
  Element held_;  // pulled, and not yet placed
  bool holds_element_ = false;
  bool in_pass_ = false;
  bool pass_ended_ = false;  // but not everything of it has been delivered
  bool done_ = false;
  bool progressed_ = false;  // bytes may have come back in this turn
  std::uint64_t pull_epoch_ = 0;
  std::uint64_t next_batch_ = 0;  // counted over epochs

  mutable std::mutex mutex_;  // guards what follows
  std::deque<StreamResult> results_;
  std::size_t open_results_ = 0;  // batches among them, in full-size ones
  std::size_t end_results_ = 0;   // ends of epochs among them
  bool lease_refused_ = false;
  std::uint64_t take_epoch_ = 0;  // of the next result
  Position position_;
  std::uint64_t samples_delivered_ = 0;
  std::uint64_t batches_delivered_ = 0;
  bool taken_unready_ = false;  // the consumer found nothing, and waits or asks again
  std::uint64_t takes_ = 0;
  double ready_shares_ = 0;
  Knobs knobs_;
  std::optional<Clock::time_point> begin_;
};

}  // namespace penstock::engine
