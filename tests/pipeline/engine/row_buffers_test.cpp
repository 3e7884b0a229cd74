// Memory of a row: old values stay readable, what a row needs is counted from the row alone, refusals are seen.
#include <penstock/pipeline/engine/row_buffers.h>

#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>

namespace penstock::engine {
namespace {

class RowBuffersTest : public testing::Test {
 protected:
  RowBuffers make(std::uint64_t most) {
    return RowBuffers([this](std::uint64_t bytes) { return share_->try_guaranteed(bytes); }, most);
  }
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(10000);
  std::shared_ptr<BudgetShare> share_ = BudgetShare::reserve(budget_, 10000, "all");
};

TEST_F(RowBuffersTest, TheOldValueStaysReadableWhileTheNewOneIsWritten) {
  RowBuffers buffers = make(10000);
  buffers.begin_row(0, {});
  std::byte* last = nullptr;
  for (int map = 0; map < 5; ++map) {
    buffers.begin_map({});
    std::byte* const now = buffers.value(0, 100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(now) % 64, 0u);
    EXPECT_NE(now, last);
    EXPECT_EQ(buffers.value(0, 80), now) << "written twice by one map";
    std::memset(now, map, 100);
    if (last) {
      EXPECT_EQ(static_cast<int>(*last), map - 1);
    }
    last = now;
  }
  EXPECT_EQ(buffers.needed_bytes(), 200u);
  EXPECT_EQ(budget_->current(), 200u);
}

TEST_F(RowBuffersTest, ScratchIsFreeAgainWithTheNextMapAndNeverOverlaps) {
  RowBuffers buffers = make(10000);
  buffers.begin_row(0, {});
  for (int map = 0; map < 3; ++map) {
    buffers.begin_map({});
    std::byte* const a = buffers.scratch(1000);
    std::byte* const b = buffers.scratch(10);
    std::byte* const c = buffers.scratch(500);
    std::memset(a, 1, 1000);
    std::memset(b, 2, 10);
    std::memset(c, 3, 500);
    EXPECT_EQ(static_cast<int>(a[999]), 1);
    EXPECT_EQ(static_cast<int>(b[9]), 2);
    for (const std::byte* const p : {a, b, c}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
  }
  EXPECT_EQ(buffers.needed_bytes(), 1510u);
  buffers.begin_map({});
  std::byte* const whole = buffers.scratch(2000);
  buffers.begin_map({});
  EXPECT_EQ(buffers.scratch(1000), whole) << "one chunk is kept";
}

TEST_F(RowBuffersTest, TooLargeDoesNotDependOnEarlierRows) {
  RowBuffers buffers = make(1000);
  for (int row = 0; row < 3; ++row) {
    buffers.begin_row(100, {});
    buffers.begin_map({});
    buffers.value(0, 400);
    buffers.begin_map({});
    buffers.value(0, 500);
    EXPECT_EQ(buffers.needed_bytes(), 1000u);
    try {
      buffers.scratch(1);
      FAIL() << "nothing was thrown";
    } catch (const DataError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTooLarge);
    }
    EXPECT_FALSE(buffers.refused());
    buffers.end_row();
  }
}

TEST_F(RowBuffersTest, NoRoomIsSeenAlsoWhenAMapSwallowsIt) {
  const Charge most = share_->try_guaranteed(9900);
  RowBuffers buffers = make(10000);
  buffers.begin_row(0, {});
  buffers.begin_map({});
  buffers.value(0, 60);
  EXPECT_THROW(buffers.value(1, 60), NoRoom);
  EXPECT_TRUE(buffers.refused());
  EXPECT_EQ(buffers.needed_bytes(), 120u);
  buffers.end_row();
  buffers.release();
  EXPECT_EQ(budget_->current(), 9900u);
  buffers.begin_row(0, {});
  EXPECT_FALSE(buffers.refused());
}

TEST_F(RowBuffersTest, TheLastWriterGetsTheRowOfTheBatch) {
  RowBuffers buffers = make(1000);
  std::vector<std::byte> row(8);
  const std::vector<RowBuffers::Place> places{{row.data(), 8}};
  const std::vector<std::int32_t> last{0};
  const std::vector<std::int32_t> earlier{-1};
  buffers.begin_row(0, places);
  buffers.begin_map(earlier);
  EXPECT_NE(buffers.value(0, 8), row.data());
  buffers.begin_map(last);
  EXPECT_EQ(buffers.value(0, 8), row.data());
  EXPECT_NE(buffers.value(0, 9), row.data()) << "another size: it is not the row's";
}

TEST_F(RowBuffersTest, HeldTensorsCountAndEndWithTheRow) {
  RowBuffers buffers = make(1000);
  buffers.begin_row(0, {});
  const auto bytes = std::make_shared<std::vector<std::byte>>(600);
  buffers.hold(Tensor(DataType::kU8, {600}, bytes, bytes->data()));
  EXPECT_EQ(bytes.use_count(), 2);
  EXPECT_EQ(budget_->current(), 600u);
  EXPECT_THROW(buffers.hold(Tensor(DataType::kU8, {600}, bytes, bytes->data())), DataError);
  buffers.end_row();
  EXPECT_EQ(bytes.use_count(), 1);
  EXPECT_EQ(budget_->current(), 0u);
}

}  // namespace
}  // namespace penstock::engine
