// The threads sit in wait_for_all() of a graph that never becomes empty, inside an arena with a reserved slot for each:
// asleep without work, and never a worker of oneTBB's own.
#include <penstock/pipeline/engine/runtime_state.h>

#include <algorithm>
#include <thread>

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/file_reader.h>

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
  if (options.threads > 0) return options.threads;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
}

struct BlockDue {};

}  // namespace

struct RuntimeState::Workers {
  Workers(WorkQueue& queue, std::size_t thread_count)
      : arena(static_cast<int>(thread_count), static_cast<unsigned>(thread_count)) {
    arena.execute([&] {
      graph = std::make_unique<tbb::flow::graph>();
      run =
          std::make_unique<Node>(*graph, tbb::flow::unlimited, [&queue](BlockDue) noexcept -> tbb::flow::continue_msg {
            // Nothing may leave the body: it would cancel the graph, and everybody would wait for ever.
            const Due due = queue.pop();
            if (due.lane) due.lane->run(*due.block);
            return {};
          });
      graph->reserve_wait();
    });
    try {
      for (std::size_t i = 0; i < thread_count; ++i) {
        threads.emplace_back([this] { arena.execute([this] { graph->wait_for_all(); }); });
      }
    } catch (...) {
      end();
      throw;
    }
  }
  ~Workers() { end(); }

  void end() {
    graph->release_wait();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    arena.execute([this] {
      graph->wait_for_all();
      run.reset();
      graph.reset();
    });
  }

  using Node = tbb::flow::function_node<BlockDue, tbb::flow::continue_msg>;
  tbb::task_arena arena;
  std::unique_ptr<tbb::flow::graph> graph;
  std::unique_ptr<Node> run;
  std::vector<std::thread> threads;
};

RuntimeState::RuntimeState(const RuntimeOptions& options)
    : threads_(thread_count(options)),
      budget_(std::make_shared<Budget>(options.budget_bytes)),
      parallel_arena_(threads_),
      files_(make_file_reader(options.io_threads)),
      workers_(std::make_unique<Workers>(queue_, threads_)) {}

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

void RuntimeState::submit(WorkLane& lane, Block& block) {
  queue_.push(lane, block);
  workers_->run->try_put(BlockDue{});
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
