#include <string>

#include <gmock/gmock.h>

#include <penstock/pipeline/error.h>
#include <penstock/trainer/model_graph.h>
#include <penstock/trainer/models.h>

namespace penstock::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ModelOptions options(std::int64_t width, const Shape& input = Shape{32, 32, 1}) {
  return {.width = width, .input = input, .class_count = 10, .label_smoothing = 0.1F};
}

TEST(ModelGraphTest, CountsParametersAsPyTorchDoes) {
  EXPECT_EQ(resnet9(options(8)).parameter_count(), 103810U);
  EXPECT_EQ(resnet9(options(16)).parameter_count(), 412666U);
  EXPECT_EQ(resnet9(options(64, Shape{32, 32, 3})).parameter_count(), 6573130U);
  EXPECT_EQ(mlp(options(0, Shape{28, 28, 1})).parameter_count(), 235146U);
}

TEST(ModelGraphTest, NamesParametersAsPyTorchDoes) {
  const ModelGraph graph = resnet9(options(8));
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters()) names.push_back(parameter.name);
  EXPECT_THAT(names,
              ::testing::IsSupersetOf({"prep.0.weight", "prep.1.weight", "prep.1.bias", "prep.1.running_mean",
                                       "prep.1.running_var", "residual1.3.weight", "linear.weight", "linear.bias"}));
}

TEST(ModelGraphTest, DecaysFiltersAndMatricesOnly) {
  const ModelGraph graph = resnet9(options(8));
  for (const Parameter& parameter : graph.parameters()) {
    EXPECT_EQ(parameter.decayed, parameter.trained && parameter.shape.rank() > 1) << parameter.name;
  }
}

TEST(ModelGraphTest, RefusesBatchNormWithoutVariance) {
  ModelGraph graph(Shape{1, 1, 1});
  graph.softmax_cross_entropy("loss", graph.global_max_pool("pool", graph.batch_norm("norm", ModelGraph::input())), 0);
  EXPECT_THAT(
      [&] { graph.check_training_batch(1); },
      ThrowsMessage<InvalidArgument>(HasSubstr("norm: batch norm over maps of one value and a training batch of 1")));
  EXPECT_NO_THROW(graph.check_training_batch(2));
  EXPECT_NO_THROW(resnet9(options(8)).check_training_batch(1)) << "its smallest maps are 4x4";
}

TEST(ModelGraphTest, RefusesShapesThatDoNotFit) {
  ModelGraph graph(Shape{4, 4, 3});
  const ValueId wide = graph.conv("wide", ModelGraph::input(), 8, 3, 1, 1);
  EXPECT_THAT([&] { graph.add("sum", ModelGraph::input(), wide); },
              ThrowsMessage<InvalidArgument>(HasSubstr("sum: cannot add [4, 4, 3] and [4, 4, 8]")));
  EXPECT_THAT([&] { graph.max_pool("pool", wide, 5); },
              ThrowsMessage<InvalidArgument>(HasSubstr("pool: the window is larger than [4, 4, 8]")));
  EXPECT_THAT([&] { graph.conv("wide", wide, 8, 3, 1, 1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("two parameters of this name")));
  EXPECT_THAT([] { ModelGraph(Shape{4, 4, 5}); }, ThrowsMessage<InvalidArgument>(HasSubstr("at most 4 channels")));
  EXPECT_THAT([] { resnet9(options(8, Shape{4, 4, 1})); },
              ThrowsMessage<InvalidArgument>(HasSubstr("layer3.3: the window is larger than [1, 1, 64]")));
}

TEST(ModelGraphTest, RefusesUnknownModelsAndWidths) {
  EXPECT_THAT([] { make_model("resnet8", options(8)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("unknown model \"resnet8\": there are mlp, resnet9")));
  EXPECT_THAT([] { make_model("mlp", options(-1)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("width must be at least 1")));
}

}  // namespace
}  // namespace penstock::trainer
