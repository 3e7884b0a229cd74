// zip: samples of several inputs side by side.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pipeline/stage/joined_stage.h"

namespace penstock {
namespace {

using namespace test;

/// Lists with the fields a, b, c, ... whose values are 0, 1, ...; 100, 101, ...; ...
MakeOperator zipped(const std::vector<std::string>& texts) {
  std::vector<Pipeline> inputs;
  std::vector<ListOperator::Items> items;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string field(1, static_cast<char>('a' + i));
    inputs.push_back(named_numbers(9, field));
    items.push_back(list_of(texts[i], field, static_cast<std::int64_t>(i) * 100, static_cast<std::uint32_t>(i)));
  }
  return first_stage(zip(inputs), items);
}

/// `0+100`: the values of all fields.
std::string pairs(const std::vector<engine::Element>& elements) {
  std::string text;
  for (const engine::Element& element : elements) {
    if (!text.empty()) text += " ";
    if (!element.is_value()) text += element.kind == engine::Element::Kind::kError ? "!" : "~";
    for (std::size_t f = 0; f < element.sample.names().size(); ++f) {
      text += (f > 0 ? "+" : "") + std::to_string(number_of(element.sample, element.sample.names()[f]));
    }
  }
  return text;
}

TEST(ZipTest, JoinsSamplesAndEndsWithTheShortest) {
  EXPECT_EQ(pairs(run(zipped({"012", "012"}))), "0+100 1+101 2+102");
  EXPECT_EQ(pairs(run(zipped({"012", "01234"}))), "0+100 1+101 2+102");
  EXPECT_EQ(pairs(run(zipped({"01234", "0", "012"}))), "0+100+200");
  EXPECT_EQ(pairs(run(zipped({"", "012"}))), "");
  EXPECT_EQ(pairs(run(zipped({"012", ""}))), "");
}

TEST(ZipTest, AnErrorInOneInputIsTheErrorOfThePair) {
  const auto got = run(zipped({"0!2", "!1!"}));
  EXPECT_EQ(pairs(got), "! ! !");
  EXPECT_EQ(got[0].failure->origin, (Origin{0, 0})) << "of the second input";
  EXPECT_EQ(pairs(run(zipped({"0!2!", "01!!"}))), "0+100 ! ! !");
}

TEST(ZipTest, TheFirstErrorWins) {
  std::vector<engine::Element> first;
  first.push_back(engine::failed(number_element(0, 0), "decode", std::make_exception_ptr(Error("first"))));
  std::vector<engine::Element> second;
  second.push_back(engine::failed(number_element(0, 0), "decode", std::make_exception_ptr(Error("second"))));
  const auto got = run(first_stage(zip({named_numbers(1, "a"), named_numbers(1, "b")}),
                                   {ListOperator::items(std::move(first)), ListOperator::items(std::move(second))}));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(error_text(got[0]), "decode: first");
}

TEST(ZipTest, ASkippedElementTakesItsPairWithIt) {
  EXPECT_EQ(pairs(run(zipped({"~1~3", "0123"}))), "~ 1+101 ~ 3+103");
  EXPECT_EQ(pairs(run(zipped({"012", "~~2"}))), "~ ~ 2+102");
}

TEST(ZipTest, MixesLineagesAndListsAllOrigins) {
  const auto got = run(zipped({"01", "01"}));
  const auto a = list_of("01", "a", 0, 0);
  const auto b = list_of("01", "b", 0, 1);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].origins, (std::vector<Origin>{{0, 1}, {1, 1}}));
  EXPECT_EQ(got[1].sample.origin(), (Origin{0, 1}));
  EXPECT_NE(got[0].lineage, got[1].lineage);
  EXPECT_EQ(got[1].lineage, engine::joined_lineage(0x5A4950, {(*a)[1].lineage, (*b)[1].lineage}));
}

TEST(ZipTest, ChargesTheWholePair) {
  StreamFixture fixture;
  const auto root = zipped({"0", "0"})(fixture.context, {});
  root->start({});
  engine::Element element;
  ASSERT_EQ(root->next(element), engine::Pull::kElement);
  EXPECT_EQ(element.charge.bytes(), 16U);
}

TEST(ZipTest, APairAboveTheLargestSampleIsAnError) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 100}, 12, 0);
  const auto root = zipped({"0", "0"})(fixture.context, {});
  root->start({});
  const auto got = drain(fixture, *root);
  EXPECT_EQ(pairs(got), "!");
  EXPECT_EQ(error_text(got[0]),
            "zip: the sample takes 16 bytes, the most allowed is 12 (LoaderOptions::max_sample_bytes)");
}

TEST(ZipTest, APairThatFindsNoRoomComesAgainAfterRestore) {
  StreamFixture fixture({.threads = 1, .budget_bytes = 16}, 16, 0);
  const auto root = zipped({"012", "012"})(fixture.context, {});
  root->start({});
  engine::Element held;
  ASSERT_EQ(root->next(held), engine::Pull::kElement);
  engine::Element next;
  ASSERT_EQ(root->next(next), engine::Pull::kPending);
  Cursor cursor;
  root->save(cursor);
  held = {};
  EXPECT_EQ(pairs(drain_one_by_one(*root)), "1+101 2+102");
  engine::CursorReader reader(cursor);
  root->restore({}, reader);
  EXPECT_EQ(pairs(drain_one_by_one(*root)), "1+101 2+102");
}

TEST(ZipTest, RefusesEqualNamesFewInputsAndBatches) {
  EXPECT_EQ(
      refusal([] { static_cast<void>(zip({named_numbers(1, "a"), named_numbers(1, "b"), named_numbers(1, "a")})); }),
      "zip: inputs 0 and 2 both have a field \"a\"; give it another name in one of them");
  EXPECT_EQ(refusal([] { static_cast<void>(zip({numbers(3)})); }), "zip: 1 inputs; at least 2 are needed");
  EXPECT_EQ(refusal([] { static_cast<void>(zip({numbers(3), named_numbers(4, "b").batch(2)})); }),
            "zip: input 1 is batched; say batch after zip");
  EXPECT_EQ(
      refusal([] { static_cast<void>(zip({numbers(3), named_numbers(4, "b").on_error({.action = OnError::kSkip})})); }),
      "zip: an input has an error policy of its own; say on_error after zip");
}

TEST(ZipTest, HasAllFieldsAndTheSmallestSize) {
  const Pipeline pipeline = zip({named_numbers(5, "a"), named_numbers(3, "b")});
  EXPECT_EQ(pipeline.schema().to_string(), "a: i64 [], b: i64 []");
  EXPECT_EQ(pipeline.size(), 3U);
  EXPECT_FALSE(zip({named_numbers(5, "a"), numbers(3).filter("x", [](std::int64_t) { return true; })}).size());
}

TEST(ZipTest, IsLawful) {
  for (const auto& texts : std::vector<std::vector<std::string>>{{"", ""},
                                                                 {"0", ""},
                                                                 {"012", "0123"},
                                                                 {"0!2~45", "~~1!~~4567"},
                                                                 {"!!~", "~01!"},
                                                                 {"01~~2", "~0~1~2", "!~~12"}}) {
    expect_lawful(zipped(texts));
    expect_lawful(zipped(texts), {1, 9, true});
  }
  const std::string many(70, '0');
  expect_lawful(zipped({many + "~", "~" + many}));
}

TEST(ZipTest, OfAZipIsLawful) {
  const MakeOperator inner = zipped({"0~123", "01!34"});
  const auto outer = std::get<std::shared_ptr<const StreamStage>>(
      zip({named_numbers(1, "m"), named_numbers(1, "n")}).plan().stages.front());
  expect_lawful([&](engine::StreamContext& context, const Pending& pending) {
    std::vector<std::unique_ptr<engine::Operator>> inputs;
    inputs.push_back(std::make_unique<ListOperator>(context, list_of("~01234", "n"), pending));
    inputs.push_back(inner(context, pending));
    return outer->make(context, std::move(inputs));
  });
}

}  // namespace
}  // namespace penstock
