// What a Runtime shares among its loaders: worker threads, the byte budget, and the reader of files.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include <penstock/pipeline/engine/budget.h>
#include <penstock/pipeline/engine/parallel_arena.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/engine/worker_gate.h>
#include <penstock/pipeline/mutex.h>
#include <penstock/pipeline/runtime.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

/// Threads of its own inside one arena whose slots are all theirs, so that neither another oneTBB setting nor a
/// consumer inside somebody's parallel_for takes them away. One flow graph serves all loaders: a message says that
/// work is due, and the node's body takes the most urgent one from the queue. Loaders come and go without a node being
/// made or ended, so a loader can be destroyed on any thread, also on a worker. Safe for concurrent use.
class RuntimeState {
 public:
  explicit RuntimeState(const RuntimeOptions& options);
  ~RuntimeState();
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;

  std::size_t threads() const noexcept { return threads_; }
  const WorkerGate& gate() const noexcept { return gate_; }
  void set_active_threads(std::size_t count) noexcept;
  const std::shared_ptr<Budget>& budget() const noexcept { return budget_; }
  FileReader& files() noexcept { return *files_; }
  ParallelArena& parallel_arena() noexcept { return parallel_arena_; }

  void add(const std::shared_ptr<WorkLane>& lane);
  void remove(WorkLane& lane);
  /// Makes `item` due: a worker will soon run it. Neither blocks nor runs anything itself.
  void submit(WorkLane& lane, WorkItem& item);
  /// Takes back what is due on `lane` and not begun.
  std::vector<WorkItem*> withdraw(WorkLane& lane) { return queue_.withdraw(lane); }

  /// A loader was refused room and waits (`change` = 1), or does no longer (-1).
  void count_starving(int change) noexcept { starving_.fetch_add(change, std::memory_order_seq_cst); }
  /// Bytes came back: loaders that were refused room ask again. Not under a lock.
  void room_freed();
  /// Gives back what loaders keep for reuse and do not use. Not under a lock.
  void trim();

 private:
  struct Workers;
  std::vector<std::shared_ptr<WorkLane>> lanes();

  void work() noexcept;

  const std::size_t threads_;
  const Governor governor_;
  WorkerGate gate_;
  const std::shared_ptr<Budget> budget_;
  WorkQueue queue_;
  std::atomic<int> starving_{0};
  Mutex mutex_;
  std::vector<std::weak_ptr<WorkLane>> lanes_ PENSTOCK_GUARDED_BY(mutex_);
  ParallelArena parallel_arena_;
  std::shared_ptr<FileReader> files_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace penstock::engine
