// Threads of a block as fibres: a barrier switches to the next one.
#include "block.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace cuda_shim {
namespace {

constinit thread_local Block* current_block = nullptr;

std::string place(const std::source_location& where) { return "line " + std::to_string(where.line()); }

std::string block_name() {
  return "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
         std::to_string(blockIdx.z) + ")";
}

// AddressSanitizer is told of every change of stack.
void start_switch([[maybe_unused]] void** state, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(state, bottom, bytes);
#endif
}
void finish_switch([[maybe_unused]] void* state, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(state, bottom, bytes);
#endif
}

}  // namespace

std::vector<std::uint32_t> arrange(std::uint32_t count, Order order, std::mt19937_64& random) {
  std::vector<std::uint32_t> result(count);
  std::iota(result.begin(), result.end(), 0u);
  if (order == Order::kDescending) std::reverse(result.begin(), result.end());
  if (order == Order::kSeeded) std::shuffle(result.begin(), result.end(), random);
  return result;
}

std::byte* Stacks::of(std::uint32_t thread) {
  while (memory_.size() <= thread) memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBytes));
  return memory_[thread].get();
}

Block::Block(const std::function<void()>& thread, dim3 shape, Order order, std::mt19937_64& random, Stacks& stacks)
    : thread_(thread), shape_(shape), order_(order), random_(random), stacks_(stacks) {}

Block::~Block() {
  cancelled_ = true;
  for (std::uint32_t i = 0; i < fibres_.size(); ++i) {
    if (fibres_[i].context) switch_to(i);
  }
}

Block* Block::current() noexcept { return current_block; }

void Block::start(std::uint32_t index) {
  struct StackOf {
    std::byte* memory;
    boost::context::stack_context allocate() const {
      boost::context::stack_context context;
      context.size = Stacks::kBytes;
      context.sp = memory + Stacks::kBytes;
      return context;
    }
    void deallocate(boost::context::stack_context& /*context*/) const noexcept {}
  };
  ASAN_UNPOISON_MEMORY_REGION(stacks_.of(index), Stacks::kBytes);  // of what the thread before it left
  fibres_[index].context = boost::context::fiber(std::allocator_arg, StackOf{stacks_.of(index)},
                                                 [this, index](boost::context::fiber&& scheduler) {
                                                   finish_switch(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
                                                   scheduler_ = std::move(scheduler);
                                                   try {
                                                     thread_();
                                                   } catch (const Cancelled&) {
                                                   } catch (...) {
                                                     error_ = std::current_exception();
                                                   }
                                                   fibres_[index].ended = true;
                                                   start_switch(nullptr, scheduler_stack_, scheduler_stack_bytes_);
                                                   return std::move(scheduler_);
                                                 });
}

void Block::switch_to(std::uint32_t index) {
  running_ = index;
  threadIdx = {index % shape_.x, index / shape_.x % shape_.y, index / shape_.x / shape_.y};
  void* state = nullptr;
  start_switch(&state, stacks_.of(index), Stacks::kBytes);
  fibres_[index].context = std::move(fibres_[index].context).resume();
  finish_switch(state, nullptr, nullptr);
}

void Block::resume(std::uint32_t index) {
  switch_to(index);
  if (error_) std::rethrow_exception(error_);
}

void Block::run_plainly(std::uint32_t index) {
  threadIdx = {index % shape_.x, index / shape_.x % shape_.y, index / shape_.x / shape_.y};
  thread_();
}

void Block::check_barrier() const {
  const auto waiting = std::find_if(fibres_.begin(), fibres_.end(), [](const Fibre& fibre) { return !fibre.ended; });
  for (const Fibre& fibre : fibres_) {
    if (fibre.ended) {
      throw std::logic_error("cuda shim: " + block_name() + ": thread " + std::to_string(&fibre - fibres_.data()) +
                             " ended while thread " + std::to_string(waiting - fibres_.begin()) +
                             " waits at the barrier of " + place(waiting->waits_at));
    }
    if (fibre.waits_at.line() != waiting->waits_at.line() || fibre.waits_at.column() != waiting->waits_at.column()) {
      throw std::logic_error("cuda shim: " + block_name() + ": threads " + std::to_string(waiting - fibres_.begin()) +
                             " and " + std::to_string(&fibre - fibres_.data()) + " wait at different barriers, of " +
                             place(waiting->waits_at) + " and " + place(fibre.waits_at));
    }
  }
}

void Block::run() {
  struct Entered {
    explicit Entered(Block* block) { current_block = block; }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered() { current_block = nullptr; }
  } entered(this);

  const std::uint32_t count = shape_.x * shape_.y * shape_.z;
  std::vector<std::uint32_t> turn = arrange(count, order_, random_);
  fibres_.resize(count);
  start(turn[0]);
  resume(turn[0]);
  if (fibres_[turn[0]].ended) {
    plain_ = true;
    for (std::uint32_t i = 1; i < count; ++i) run_plainly(turn[i]);
  } else {
    had_barrier_ = true;
    for (std::uint32_t i = 1; i < count; ++i) {
      start(turn[i]);
      resume(turn[i]);
    }
    while (!std::all_of(fibres_.begin(), fibres_.end(), [](const Fibre& fibre) { return fibre.ended; })) {
      check_barrier();
      turn = arrange(count, order_, random_);
      for (const std::uint32_t index : turn) resume(index);
    }
  }
  shared_.check(block_name());
}

void Block::barrier(const std::source_location& where) {
  if (plain_) {
    throw std::logic_error("cuda shim: " + block_name() + ": a thread waits at the barrier of " + place(where) +
                           " after another thread ended without coming to it");
  }
  Fibre& own = fibres_[running_];
  own.waits_at = where;
  start_switch(&own.sanitizer_state, scheduler_stack_, scheduler_stack_bytes_);
  scheduler_ = std::move(scheduler_).resume();
  finish_switch(own.sanitizer_state, &scheduler_stack_, &scheduler_stack_bytes_);
  if (cancelled_) throw Cancelled();
}

std::byte* shared_bytes(std::size_t bytes, const std::source_location& where) {
  return Block::current()->shared().array(bytes, where);
}

}  // namespace cuda_shim

void __syncthreads(std::source_location where) { cuda_shim::Block::current()->barrier(where); }
