// window: which samples stand in it, and what becomes of those that are not full.
#include <gtest/gtest.h>

#include "pipeline/stage/serial_stage.h"

namespace penstock {
namespace {

using namespace test;

MakeOperator windows(const Window& window, ListOperator::Items items) {
  return last_stage(numbers(1).window(window), std::move(items));
}

TEST(WindowTest, StacksSamplesOfTheOrder) {
  EXPECT_EQ(shown(windows({.size = 3}, list("0123456"))), "[0 1 2] [3 4 5]");
  EXPECT_EQ(shown(windows({.size = 3, .last = LastBatch::kKeep}, list("0123456"))), "[0 1 2] [3 4 5] [6]");
  EXPECT_EQ(shown(windows({.size = 3, .shift = 1}, list("01234"))), "[0 1 2] [1 2 3] [2 3 4]");
  EXPECT_EQ(shown(windows({.size = 3, .shift = 1, .last = LastBatch::kKeep}, list("01234"))),
            "[0 1 2] [1 2 3] [2 3 4] [3 4] [4]");
  EXPECT_EQ(shown(windows({.size = 2, .shift = 3}, list("01234567"))), "[0 1] [3 4] [6 7]");
  EXPECT_EQ(shown(windows({.size = 2, .shift = 1, .stride = 2}, list("01234"))), "[0 2] [1 3] [2 4]");
  EXPECT_EQ(shown(windows({.size = 3, .shift = 2, .stride = 2, .last = LastBatch::kKeep}, list("0123456"))),
            "[0 2 4] [2 4 6] [4 6] [6]");
  EXPECT_EQ(shown(windows({.size = 1}, list("01"))), "[0] [1]");
  EXPECT_EQ(shown(windows({.size = 5}, list("01"))), "");
  EXPECT_EQ(shown(windows({.size = 5, .last = LastBatch::kKeep}, list(""))), "");
}

/// What the definition says, sample by sample.
std::string plain(const Window& window, std::uint64_t count) {
  const std::uint64_t shift = window.shift == 0 ? window.size : window.shift;
  std::string text;
  for (std::uint64_t first = 0; first < count; first += shift) {
    std::string one;
    std::uint64_t number = first;
    for (std::uint64_t i = 0; i < window.size; ++i, number += window.stride) {
      if (number < count) one += (one.empty() ? "" : " ") + std::to_string(number);
    }
    const bool full = first + (window.size - 1) * window.stride < count;
    if (full || window.last == LastBatch::kKeep) text += (text.empty() ? "[" : " [") + one + "]";
  }
  return text;
}

TEST(WindowTest, EveryShapeEqualsItsDefinition) {
  for (std::uint64_t count = 0; count < 12; ++count) {
    for (std::size_t size = 1; size < 5; ++size) {
      for (std::size_t shift = 0; shift < 6; ++shift) {
        for (std::size_t stride = 1; stride < 4; ++stride) {
          for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDrop}) {
            const Window window{size, shift, stride, last};
            const auto items = list(std::string("0123456789ab").substr(0, count));
            const auto got = run(windows(window, items));
            ASSERT_EQ(shown(got), plain(window, count)) << size << " " << shift << " " << stride;
            ASSERT_EQ(numbers(count).window(window).size(), got.size());
          }
        }
      }
    }
  }
}

TEST(WindowTest, AWindowWithAnErrorIsOneError) {
  EXPECT_EQ(shown(windows({.size = 2}, list("01!345"))), "[0 1] ! [4 5]");
  const auto got = run(windows({.size = 2, .shift = 1}, list("01!34")));
  EXPECT_EQ(shown(got), "[0 1] ! ! [3 4]");
  EXPECT_EQ(error_text(got[1]), "read: bad bytes");
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}, {0, 2}}));
}

TEST(WindowTest, SkippedOnesAreInNoWindow) {
  EXPECT_EQ(shown(windows({.size = 2}, list("0~2~34"))), "~ [0 2] ~ [4 5]");
}

TEST(WindowTest, KnowsWhatItWasMadeFrom) {
  const auto got = run(windows({.size = 2, .shift = 1}, list("012")));
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}, {0, 2}}));
  EXPECT_EQ(got[1].row_origins, (std::vector<std::vector<Origin>>{{{0, 1}}, {{0, 2}}}));
  EXPECT_NE(got[0].lineage, got[1].lineage);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got[0].sample["x"].data()) % 64, 0u);
}

TEST(WindowTest, SamplesOfDifferentShapesAreAnErrorInItsPlace) {
  const MakeOperator make = last_stage(list_pipeline().window({.size = 2}), lists({1, 1, 1, 2, 3, 3}));
  const auto got = run(make);
  EXPECT_EQ(shown(got), "[1 1] ! [3 3 3 3 3 3]");
  EXPECT_EQ(error_text(got[1]), "window: field \"x\" is [1] in one sample and [2] in another, and rows need one shape");
  EXPECT_EQ(shown(skipping(make)), "[1 1] ~ [3 3 3 3 3 3]");
  expect_lawful(make);
  expect_lawful(skipping(make));
}

TEST(WindowTest, KeepsOnlyWhatAWindowNeeds) {
  StreamFixture fixture;
  std::vector<engine::Element> wide;
  for (std::uint64_t i = 0; i < 9; ++i) wide.push_back(number_element(static_cast<std::int64_t>(i), i));
  const auto root = windows({.size = 2, .shift = 8, .stride = 3}, ListOperator::items(std::move(wide)))(
      fixture.context, {.before = {5}});
  root->start({});
  engine::Element element;
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(shown(element), "[0 3]");
  EXPECT_EQ(fixture.context.kept->used(), 0u);
}

TEST(WindowTest, RefusesWhatMakesNoWindow) {
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(1).window({.size = 0})); }),
            "window: a size of 0; at least 1 is needed");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(1).window({.size = 1, .stride = 0})); }),
            "window: a stride of 0; at least 1 is needed");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(1).window({.size = 1, .last = LastBatch::kPad})); }),
            "window: windows that are not full are kept or dropped (LastBatch::kKeep, LastBatch::kDrop)");
  EXPECT_EQ(refusal([] { static_cast<void>(numbers(1).window({.size = 1 << 20, .stride = 1 << 20})); }),
            "window: it reaches over more than 4294967296 samples");
  const Pipeline deep =
      numbers(1).map([](Sample sample) { return sample; }, Outputs{{"x", DataType::kU8, {1, 1, 1, 1, 1, 1}}});
  EXPECT_EQ(refusal([&] { static_cast<void>(deep.window({.size = 1})); }),
            "window: field \"x\" has 6 dimensions, which leaves none for the window");
}

TEST(WindowTest, SaysItsFields) {
  EXPECT_EQ(numbers(9).window({.size = 4}).schema().to_string(), "x: i64 [4]");
  EXPECT_EQ(numbers(9).window({.size = 4, .last = LastBatch::kKeep}).schema().to_string(), "x: i64 [?]");
}

TEST(WindowTest, WaitsForRoom) { expect_waits_for_room(windows({.size = 2, .shift = 1}, list("012345")), 16); }

TEST(WindowTest, IsLawful) {
  for (const auto& items : hard_lists()) {
    expect_lawful(windows({.size = 1}, items));
    expect_lawful(windows({.size = 3, .last = LastBatch::kKeep}, items));
    expect_lawful(windows({.size = 3, .shift = 1, .last = LastBatch::kKeep}, items));
    expect_lawful(windows({.size = 2, .shift = 5}, items));
    expect_lawful(windows({.size = 2, .shift = 1, .stride = 3}, items));
  }
}

}  // namespace
}  // namespace penstock
