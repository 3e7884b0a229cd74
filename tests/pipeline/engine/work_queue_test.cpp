// Which loader's block goes first.
#include <penstock/pipeline/engine/work_queue.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

class Lane final : public WorkLane {
 public:
  explicit Lane(int priority) : WorkLane(priority) {}
  void room_freed() override {}
  void trim() override {}
  void set(bool waits, std::size_t ready) {
    consumer_waits_ = waits;
    ready_batches_ = ready;
  }
};

struct Item final : WorkItem {
  void run() noexcept override {}
  const WorkLane* lane = nullptr;
};

std::vector<Item> items_with(std::vector<std::uint64_t> sequences) {
  std::vector<Item> items(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) items[i].sequence = sequences[i];
  return items;
}

TEST(WorkQueueTest, WithinALoaderTheOldestGoesFirst) {
  WorkQueue queue;
  Lane lane(0);
  queue.add(lane);
  std::vector<Item> items = items_with({5, 2, 9});
  for (Item& item : items) queue.push(lane, item);
  EXPECT_EQ(queue.pop()->sequence, 2u);
  EXPECT_EQ(queue.pop()->sequence, 5u);
  EXPECT_EQ(queue.pop()->sequence, 9u);
  EXPECT_EQ(queue.pop(), nullptr);
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
  std::vector<Item> items = items_with({0, 1, 2, 3});
  queue.push(rich, items[0]);
  queue.push(poor, items[1]);
  queue.push(high, items[2]);
  queue.push(waiting, items[3]);
  EXPECT_EQ(queue.pop(), &items[3]);
  EXPECT_EQ(queue.pop(), &items[2]);
  EXPECT_EQ(queue.pop(), &items[1]);
  EXPECT_EQ(queue.pop(), &items[0]);
}

TEST(WorkQueueTest, EqualsTakeTurnsAndWithdrawnBlocksAreGone) {
  WorkQueue queue;
  Lane a(0);
  Lane b(0);
  queue.add(a);
  queue.add(b);
  std::vector<Item> of_a = items_with({0, 1, 2});
  std::vector<Item> of_b = items_with({0, 1, 2});
  for (int i = 0; i < 3; ++i) {
    of_a[i].lane = &a;
    of_b[i].lane = &b;
    queue.push(a, of_a[i]);
    queue.push(b, of_b[i]);
  }
  const auto next_lane = [&queue] { return static_cast<Item*>(queue.pop())->lane; };
  const WorkLane* const first = next_lane();
  const WorkLane* const second = next_lane();
  EXPECT_NE(first, second);
  EXPECT_EQ(next_lane(), first);
  EXPECT_EQ(queue.withdraw(a).size() + queue.withdraw(b).size(), 3u);
  EXPECT_EQ(queue.pop(), nullptr);
  queue.remove(a);
}

}  // namespace
}  // namespace penstock::engine
