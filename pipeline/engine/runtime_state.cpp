// Each thread waits for a task of its own that never runs, inside an arena with a reserved slot for each: asleep
// without work, and never a worker of oneTBB's own. They do not wait for the graph, whose wait_for_all() is for one
// thread at a time: it writes the graph's flags.
#include <penstock/pipeline/engine/runtime_state.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/file_reader.h>
#include <penstock/pipeline/io/thread_nice.h>

namespace penstock::engine {
namespace {

constexpr std::size_t kMostThreads = 1024;

std::size_t thread_count(const RuntimeOptions& options) {
  if (options.budget_bytes == 0) throw InvalidArgument("runtime: a budget of 0 bytes");
  if (options.threads > kMostThreads) {
    throw InvalidArgument("runtime: " + std::to_string(options.threads) + " threads; at most " +
                          std::to_string(kMostThreads) + " are possible");
  }
  if (options.io_threads == 0 || options.io_threads > kMostThreads) {
    throw InvalidArgument("runtime: " + std::to_string(options.io_threads) + " I/O threads; 1 to " +
                          std::to_string(kMostThreads) + " are possible");
  }
  const Governor& governor = options.governor;
  if (!(governor.max_utilisation > 0 && governor.max_utilisation <= 1)) {
    throw InvalidArgument("runtime: the governor's max_utilisation is " + std::to_string(governor.max_utilisation) +
                          "; a share above 0 and up to 1 is needed");
  }
  if (governor.nice < 0 || governor.nice > 19) {
    throw InvalidArgument("runtime: the governor's nice is " + std::to_string(governor.nice) +
                          "; 0 to 19 are possible");
  }
  if (options.threads > 0) return options.threads;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
}

// With a governor that keeps no core free, threads beyond the cores are the user's choice.
std::size_t active_at_first(std::size_t threads, const Governor& governor) {
  if (governor.free_cores == 0) return threads;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(cores - std::min(cores, governor.free_cores), 1, threads);
}

struct WorkDue {};

}  // namespace

struct RuntimeState::Workers {
  /// A thread that serves the arena until its task is dropped.
  struct Worker {
    Worker(tbb::task_arena& arena, int nice)
        : never_run(group.defer([] {})), thread([this, &arena, nice] {
            make_nice(nice);
            arena.execute([this] { group.wait(); });
          }) {}
    tbb::task_group group;
    tbb::task_handle never_run;
    std::thread thread;
  };

  Workers(RuntimeState& of, std::size_t thread_count)
      : arena(static_cast<int>(thread_count), static_cast<unsigned>(thread_count)) {
    arena.execute([&] {
      graph = std::make_unique<tbb::flow::graph>();
      run = std::make_unique<Node>(*graph, tbb::flow::unlimited, [&of](WorkDue) noexcept -> tbb::flow::continue_msg {
        // Nothing may leave the body: it would cancel the graph, and everybody would wait for ever.
        of.work();
        return {};
      });
    });
    try {
      for (std::size_t i = 0; i < thread_count; ++i) {
        threads.emplace_back(arena, of.governor_.nice);
      }
    } catch (...) {
      end();
      throw;
    }
  }
  ~Workers() { end(); }

  void end() {
    for (Worker& worker : threads) worker.never_run = {};
    for (Worker& worker : threads) worker.thread.join();
    threads.clear();
    arena.execute([this] {
      graph->wait_for_all();
      run.reset();
      graph.reset();
    });
  }

  using Node = tbb::flow::function_node<WorkDue, tbb::flow::continue_msg>;
  tbb::task_arena arena;
  std::unique_ptr<tbb::flow::graph> graph;
  std::unique_ptr<Node> run;
  std::deque<Worker> threads;
};

RuntimeState::RuntimeState(const RuntimeOptions& options)
    : threads_(thread_count(options)),
      governor_(options.governor),
      gate_(active_at_first(threads_, governor_)),
      budget_(std::make_shared<Budget>(options.budget_bytes)),
      parallel_arena_(threads_),
      files_(make_file_reader(options.io_threads, governor_.nice)),
      workers_(std::make_unique<Workers>(*this, threads_)) {}

RuntimeState::~RuntimeState() = default;

void RuntimeState::add(const std::shared_ptr<WorkLane>& lane) {
  queue_.add(*lane);
  const MutexLock lock(mutex_);
  std::erase_if(lanes_, [](const std::weak_ptr<WorkLane>& other) { return other.expired(); });
  lanes_.push_back(lane);
}

void RuntimeState::remove(WorkLane& lane) {
  queue_.remove(lane);
  const MutexLock lock(mutex_);
  std::erase_if(lanes_, [&lane](const std::weak_ptr<WorkLane>& other) {
    const std::shared_ptr<WorkLane> held = other.lock();
    return !held || held.get() == &lane;
  });
}

void RuntimeState::submit(WorkLane& lane, WorkItem& item) {
  queue_.push(lane, item);
  workers_->run->try_put(WorkDue{});
}

// A message says that work may be due. Messages that find the gate full are gone: so whoever leaves it looks for more.
void RuntimeState::work() noexcept {
  thread_local UtilisationDebt debt(1.0);
  thread_local const RuntimeState* debt_of = nullptr;
  const bool limited = governor_.max_utilisation < 1.0;
  if (limited && debt_of != this) {
    debt = UtilisationDebt(governor_.max_utilisation);
    debt_of = this;
  }
  for (;;) {
    if (!gate_.enter()) {
      if (gate_.is_full() || queue_.empty()) return;
      continue;
    }
    WorkItem* const item = queue_.pop();
    if (item && !limited) {
      item->run();
    } else if (item) {
      const auto begin = std::chrono::steady_clock::now();
      item->run();
      debt.busy(std::chrono::steady_clock::now() - begin);
    }
    gate_.leave();
    if (limited) std::this_thread::sleep_for(debt.take());
    if (queue_.empty()) return;
  }
}

void RuntimeState::set_active_threads(std::size_t count) noexcept {
  gate_.set_limit(std::clamp<std::size_t>(count, 1, threads_));
  for (std::size_t i = 0; i < threads_; ++i) workers_->run->try_put(WorkDue{});
}

std::vector<std::shared_ptr<WorkLane>> RuntimeState::lanes() {
  std::vector<std::shared_ptr<WorkLane>> alive;
  const MutexLock lock(mutex_);
  for (const std::weak_ptr<WorkLane>& lane : lanes_) {
    if (auto held = lane.lock()) alive.push_back(std::move(held));
  }
  return alive;
}

void RuntimeState::room_freed() {
  if (starving_.load(std::memory_order_seq_cst) == 0) return;
  const std::vector<std::shared_ptr<WorkLane>> alive = lanes();
  for (const std::shared_ptr<WorkLane>& lane : alive) lane->trim();
  for (const std::shared_ptr<WorkLane>& lane : alive) lane->room_freed();
}

void RuntimeState::trim() {
  for (const std::shared_ptr<WorkLane>& lane : lanes()) lane->trim();
}

}  // namespace penstock::engine
