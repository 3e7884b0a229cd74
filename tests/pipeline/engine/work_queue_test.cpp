// Which loader's block goes first.
#include <penstock/pipeline/engine/work_queue.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/engine/block.h>

namespace penstock::engine {
namespace {

class Lane final : public WorkLane {
 public:
  explicit Lane(int priority) : WorkLane(priority) {}
  void run(Block&) override {}
  void room_freed() override {}
  void trim() override {}
  void set(bool waits, std::size_t ready) {
    consumer_waits_ = waits;
    ready_batches_ = ready;
  }
};

std::vector<Block> blocks_with(std::vector<std::uint64_t> sequences) {
  std::vector<Block> blocks(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) blocks[i].sequence = sequences[i];
  return blocks;
}

TEST(WorkQueueTest, WithinALoaderTheOldestGoesFirst) {
  WorkQueue queue;
  Lane lane(0);
  queue.add(lane);
  std::vector<Block> blocks = blocks_with({5, 2, 9});
  for (Block& block : blocks) queue.push(lane, block);
  EXPECT_EQ(queue.pop().block->sequence, 2u);
  EXPECT_EQ(queue.pop().block->sequence, 5u);
  EXPECT_EQ(queue.pop().block->sequence, 9u);
  EXPECT_EQ(queue.pop().block, nullptr);
}

TEST(WorkQueueTest, AWaitingConsumerThenPriorityThenFewestReady) {
  WorkQueue queue;
  Lane waiting(-5);
  Lane high(3);
  Lane poor(0);
  Lane rich(0);
  for (Lane* const lane : {&rich, &poor, &high, &waiting}) queue.add(*lane);
  waiting.set(true, 0);
  poor.set(false, 1);
  rich.set(false, 2);
  std::vector<Block> blocks = blocks_with({0, 1, 2, 3});
  queue.push(rich, blocks[0]);
  queue.push(poor, blocks[1]);
  queue.push(high, blocks[2]);
  queue.push(waiting, blocks[3]);
  EXPECT_EQ(queue.pop().lane, &waiting);
  EXPECT_EQ(queue.pop().lane, &high);
  EXPECT_EQ(queue.pop().lane, &poor);
  EXPECT_EQ(queue.pop().lane, &rich);
}

TEST(WorkQueueTest, EqualsTakeTurnsAndWithdrawnBlocksAreGone) {
  WorkQueue queue;
  Lane a(0);
  Lane b(0);
  queue.add(a);
  queue.add(b);
  std::vector<Block> of_a = blocks_with({0, 1, 2});
  std::vector<Block> of_b = blocks_with({0, 1, 2});
  for (int i = 0; i < 3; ++i) {
    queue.push(a, of_a[i]);
    queue.push(b, of_b[i]);
  }
  WorkLane* const first = queue.pop().lane;
  WorkLane* const second = queue.pop().lane;
  EXPECT_NE(first, second);
  EXPECT_EQ(queue.pop().lane, first);
  EXPECT_EQ(queue.withdraw(a).size() + queue.withdraw(b).size(), 3u);
  EXPECT_EQ(queue.pop().block, nullptr);
  queue.remove(a);
}

}  // namespace
}  // namespace penstock::engine
