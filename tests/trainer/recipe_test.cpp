#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/source/memory.h>
#include <penstock/trainer/label_check.h>
#include <penstock/trainer/learning_rate.h>
#include <penstock/trainer/metrics.h>
#include <penstock/trainer/recipe.h>

namespace penstock::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two samples whose pictures differ in size where `image` does not say it.
Pipeline samples(const Shape& image) {
  std::vector<Sample> list;
  for (const std::int64_t unknown : {3, 4}) {
    std::vector<std::int64_t> dims;
    for (const std::int64_t dim : image.dims()) dims.push_back(dim == Shape::kUnknown ? unknown : dim);
    const Shape shape{std::span<const std::int64_t>(dims)};
    const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.element_count()));
    list.emplace_back(
        std::vector<std::string>{"image", "label"},
        std::vector<Tensor>{Tensor::copy_of<std::uint8_t>(bytes, shape), Tensor::scalar<std::int64_t>(0)});
  }
  return memory(std::move(list));
}

std::vector<std::string> map_names(const Pipeline& pipeline) {
  std::vector<std::string> names;
  for (const Stage& stage : pipeline.plan().stages) {
    if (const auto* const map = std::get_if<MapStage>(&stage)) names.push_back(map->name);
    if (std::holds_alternative<ShuffleStage>(stage)) names.push_back("shuffle");
    if (std::holds_alternative<CacheStage>(stage)) names.push_back("cache");
  }
  return names;
}

TEST(RecipeTest, SurvivesJson) {
  const Recipe recipe = recipe_by_name("fashion");
  EXPECT_EQ(recipe_from_json(recipe_to_json(recipe)), recipe);
  EXPECT_EQ(recipe.train.size(), 2U);
  EXPECT_NEAR(recipe.mean[0], 0.286, 1e-3);
}

TEST(RecipeTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT([] { recipe_by_name("fashoin"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("unknown recipe \"fashoin\": there are fashion")));
  EXPECT_THAT([] { recipe_from_json("{}"); }, ThrowsMessage<InvalidArgument>(HasSubstr("not a recipe")));
  Recipe recipe = recipe_by_name("fashion");
  recipe.train = {{"rotate", {}}};
  EXPECT_THAT([&] { apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kTrain); },
              ThrowsMessage<InvalidArgument>(HasSubstr("unknown map \"rotate\": there are resize, pad")));
  recipe.train = {{"random_flip", {{"p", 0.5}}}};
  EXPECT_THAT([&] { apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kTrain); },
              ThrowsMessage<InvalidArgument>(HasSubstr("random_flip has no parameter \"p\"")));
  recipe.train = {{"pad", {{"height", 32}, {"width", 31.5}}}};
  EXPECT_THAT([&] { apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kTrain); },
              ThrowsMessage<InvalidArgument>(HasSubstr("\"width\" of map pad must be a whole number")));
  EXPECT_THAT([&] { apply_recipe(recipe_by_name("fashion"), samples(Shape{28, 28, 3}), Phase::kVal); },
              ThrowsMessage<InvalidArgument>(HasSubstr("not u8 [28, 28, 3]")));
}

TEST(RecipeTest, BuildsTheSameShapeFromArraysAndFromFiles) {
  const Recipe recipe = recipe_by_name("fashion");
  for (const Shape& image : {Shape{28, 28, 1}, Shape{40, 20, 1}, Shape{Shape::kUnknown}}) {
    for (const Phase phase : {Phase::kTrain, Phase::kVal}) {
      const Pipeline built = apply_recipe(recipe, samples(image), phase);
      EXPECT_EQ(built.schema()[0].shape, (Shape{32, 32, 1})) << image.to_string();
    }
  }
  EXPECT_THAT(map_names(apply_recipe(recipe, samples(Shape{Shape::kUnknown}), Phase::kTrain)),
              ::testing::ElementsAre("shuffle", "decode_image", "resize", "center_crop", "random_flip"));
  EXPECT_THAT(map_names(apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kVal)),
              ::testing::ElementsAre("center_crop"));
}

class NoStore final : public SampleStore {
 public:
  Lookup begin(const SampleKey&, Sample&, Waiter) override { return Lookup::kOwner; }
  void commit(const SampleKey&, const Sample&) override {}
  void fail(const SampleKey&, std::exception_ptr) override {}
  void abandon(const SampleKey&) override {}
  std::string describe() const override { return "none"; }
};

TEST(RecipeTest, CachesBeforeTheFirstMapThatDraws) {
  const Recipe recipe = recipe_by_name("fashion");
  const auto store = std::make_shared<NoStore>();
  EXPECT_THAT(map_names(apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kTrain, store)),
              ::testing::ElementsAre("shuffle", "center_crop", "cache", "random_flip"));
  EXPECT_THAT(map_names(apply_recipe(recipe, samples(Shape{28, 28, 1}), Phase::kVal, store)),
              ::testing::ElementsAre("center_crop", "cache"));
}

TEST(TriangleScheduleTest, RisesToThePeakAndFallsToZero) {
  const TriangleSchedule schedule{.peak = 0.4, .peak_fraction = 0.25, .step_count = 1000};
  EXPECT_NEAR(schedule.at(0), 0.4 * 0.5 / 250, 1e-7);
  EXPECT_NEAR(schedule.at(124), 0.4 * 124.5 / 250, 1e-6);
  EXPECT_NEAR(schedule.at(249), 0.4, 1e-3);
  EXPECT_NEAR(schedule.at(250), 0.4, 1e-3);
  EXPECT_NEAR(schedule.at(624), 0.2, 1e-3);
  EXPECT_GT(schedule.at(999), 0.0F);
  EXPECT_LT(schedule.at(999), 0.001F);
  double sum = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) sum += schedule.at(step);
  EXPECT_NEAR(sum / 1000, 0.2, 1e-4) << "the mean of a triangle is half its height";
}

TEST(TriangleScheduleTest, WorksWithoutARiseOrAFall) {
  EXPECT_NEAR((TriangleSchedule{1, 0, 10}.at(0)), 0.95, 1e-6);
  EXPECT_NEAR((TriangleSchedule{1, 1, 10}.at(9)), 0.95, 1e-6);
}

// 522 samples in batches of 256, 256 and 10 with 179, 205 and 9 right: not the mean of the batches' means.
TEST(MetricsTest, WeighSamplesNotBatches) {
  MetricSums sums;
  for (const auto& [count, right] : {std::pair{256, 179}, {256, 205}, {10, 9}}) {
    sums.count += count;
    sums.top1 += right;
    sums.loss += count * (1.0 - right / static_cast<double>(count));
  }
  EXPECT_NEAR(metrics_of(sums).top1, 0.752874, 1e-6);
  EXPECT_NEAR(metrics_of(sums).loss, 1 - 0.752874, 1e-6);
  EXPECT_EQ(metrics_of({}).top1, 0);
}

}  // namespace
}  // namespace penstock::trainer
