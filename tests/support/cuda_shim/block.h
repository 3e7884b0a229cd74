// One block of a kernel: its threads as fibres of the calling thread, its barrier, its shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <vector>

#include <boost/context/fiber.hpp>

#include "cuda_shim.h"
#include "shared_memory.h"

namespace cuda_shim {

/// The order of `count` things, by `order`; `random` is used for kSeeded only.
std::vector<std::uint32_t> arrange(std::uint32_t count, Order order, std::mt19937_64& random);

/// Memory for the stacks of fibres, made when first asked for and used by one block after the other.
class Stacks {
 public:
  static constexpr std::size_t kBytes = std::size_t{128} << 10;
  std::byte* of(std::uint32_t thread);

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

/// Most kernels have no barrier, and need no fibres: the first thread runs in one, and when it ends without having met
/// a barrier the others are plain calls, for which a barrier is then a mistake (not all threads would come to it).
class Block {
 public:
  Block(const std::function<void()>& thread, dim3 shape, Order order, std::mt19937_64& random, Stacks& stacks);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  /// Unwinds the threads that an error left at a barrier.
  ~Block();

  /// Runs all threads to their end. Throws std::logic_error on a broken rule, and what a thread throws.
  void run();
  /// The calling thread of the block waits for all others.
  void barrier(const std::source_location& where);
  SharedMemory& shared() noexcept { return shared_; }
  bool had_barrier() const noexcept { return had_barrier_; }

  /// The block that runs on this thread; null outside.
  static Block* current() noexcept;

 private:
  struct Fibre {
    boost::context::fiber context;
    void* sanitizer_state = nullptr;
    bool ended = false;
    std::source_location waits_at;
  };

  struct Cancelled {};
  void start(std::uint32_t index);
  void switch_to(std::uint32_t index);
  void resume(std::uint32_t index);
  void run_plainly(std::uint32_t index);
  void check_barrier() const;

  const std::function<void()>& thread_;
  dim3 shape_;
  Order order_;
  std::mt19937_64& random_;
  Stacks& stacks_;
  SharedMemory shared_;
  boost::context::fiber scheduler_;
  std::exception_ptr error_;
  std::uint32_t running_ = 0;
  bool plain_ = false;
  bool had_barrier_ = false;
  bool cancelled_ = false;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
  std::vector<Fibre> fibres_;
};

}  // namespace cuda_shim
