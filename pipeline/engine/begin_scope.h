// Marks the block that the present thread is beginning, so that rows that settle within that call know it.
#pragma once

namespace penstock::engine {

struct Block;

/// Scopes may nest: a source that waits inside oneTBB may begin another block meanwhile.
class BeginScope {
 public:
  explicit BeginScope(Block& block) noexcept;
  ~BeginScope();
  BeginScope(const BeginScope&) = delete;
  BeginScope& operator=(const BeginScope&) = delete;

 private:
  Block* const before_;
};

}  // namespace penstock::engine
