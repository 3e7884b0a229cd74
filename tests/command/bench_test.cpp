// `penstock bench`: its figures, files and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "command/picture_folder.h"
#include "command/program.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::ChildResult;
using test::TempFolder;
using test::with;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class BenchTest : public ::testing::Test {
 protected:
  ChildResult run(const std::vector<std::string>& options) {
    return test::run_penstock(with({"bench"}, options), work_.make_folder("work"));
  }
  json measured(const std::vector<std::string>& options) {
    const ChildResult result = run(with(options, {"--json"}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << "one object and nothing else";
    return json::parse(result.out);
  }
  std::string file(const std::string& name) { return test::read_text(work_.path("work") + "/" + name); }

  TempFolder work_;
  std::string digits_ = test::write_idx(work_, "train", 100);
};

TEST_F(BenchTest, JsonHasEveryFigure) {
  const json result = measured({digits_, "--batch", "16", "--epochs", "2", "--threads", "2", "--seed", "5"});
  EXPECT_EQ(result.at("source"), digits_);
  EXPECT_EQ(result.at("samples"), 200);
  EXPECT_EQ(result.at("batches"), 14);
  EXPECT_EQ(result.at("threads"), 2);
  EXPECT_GT(result.at("samples_per_s"), 0);
  EXPECT_GT(result.at("samples_per_cpu_s"), 0);
  EXPECT_EQ(result.at("limit").at("name"), "copy rate");
  EXPECT_GT(result.at("limit").at("samples_per_s"), 0);
  EXPECT_GT(result.at("share_of_limit"), 0);
  EXPECT_EQ(result.at("batch_hash").get<std::string>().size(), 16u);
  EXPECT_GE(result.at("peak_in_flight_bytes"), 16 * 28 * 28 * 4);
  ASSERT_EQ(result.at("stages").size(), 2u);
  EXPECT_EQ(result.at("stages")[0].at("name"), "read");
  EXPECT_EQ(result.at("stages")[1].at("name"), "normalise");
  for (const json& stage : result.at("stages")) {
    EXPECT_EQ(stage.at("count"), 200) << stage;
    EXPECT_GE(stage.at("seconds"), 0) << stage;
    EXPECT_TRUE(stage.contains("wait")) << stage;
  }
  EXPECT_THAT(result.at("verdict").get<std::string>(), HasSubstr("samples/s"));
}

TEST_F(BenchTest, HashIsTheSameForAnyThreadsCacheAndPrefetch) {
  const std::vector<std::string> job{digits_, "--chain", "random", "--batch", "16", "--epochs", "2", "--shuffle"};
  const json hash = measured(with(job, {"--threads", "1"})).at("batch_hash");
  EXPECT_EQ(measured(with(job, {"--threads", "3", "--prefetch", "4"})).at("batch_hash"), hash);
  EXPECT_EQ(measured(with(job, {"--cache", "memory:1MiB"})).at("batch_hash"), hash);
  EXPECT_EQ(measured(with(job, {"--autotune"})).at("batch_hash"), hash);
  EXPECT_NE(measured(with(job, {"--seed", "1"})).at("batch_hash"), hash);
}

TEST_F(BenchTest, RunsTheChainsOnPictures) {
  const std::string pictures = test::write_picture_folder(work_, "pictures", 20);
  const json eval = measured({pictures, "--batch", "8"});
  EXPECT_EQ(eval.at("samples"), 20);
  EXPECT_EQ(eval.at("limit").at("name"), "picture decoding rate");
  EXPECT_EQ(eval.at("maps"), (json{"decode_image", "resize_short_side", "center_crop", "normalise"}));
  EXPECT_EQ(measured({pictures, "--batch", "8", "--chain", "random"}).at("maps"),
            (json{"decode_image", "random_resized_crop", "random_flip", "normalise"}));
  const json own = measured({pictures, "--batch", "8", "--map", "decode:1", "--map", "center_crop:16"});
  EXPECT_EQ(own.at("maps"), (json{"decode_image", "center_crop"}));
  const json none = measured({"folder:" + pictures, "--batch", "8", "--chain", "none"});
  EXPECT_EQ(none.at("samples"), 20);
  EXPECT_NE(none.at("batch_hash"), own.at("batch_hash"));
}

TEST_F(BenchTest, TextNamesStagesLimitAndVerdict) {
  const ChildResult result = run({digits_, "--batch", "16"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("100 samples in 7 batches of 16, 1 epoch, "));
  EXPECT_THAT(result.out, HasSubstr("\nnormalise "));
  EXPECT_THAT(result.out, HasSubstr("\nlimit: copy rate, "));
  EXPECT_THAT(result.out, HasSubstr("\nverdict: "));
}

TEST_F(BenchTest, EmulatedConsumerHasItsUtilisation) {
  const json result = measured({digits_, "--batch", "10", "--consumer", "3.5ms"});
  EXPECT_DOUBLE_EQ(result.at("consumer").at("step"), 0.0035);
  EXPECT_GT(result.at("consumer").at("utilisation"), 0.2);
  EXPECT_LE(result.at("consumer").at("utilisation"), 1);
  EXPECT_GE(result.at("seconds"), 10 * 0.0035);
  EXPECT_EQ(result.at("bound"), "consumer");
  EXPECT_THAT(run({digits_, "--consumer", "1ms"}).out, HasSubstr("accelerator: steps of 1 ms, utilisation "));
}

TEST_F(BenchTest, WritesPictureAndTrace) {
  const ChildResult result = run({digits_, "--batch", "16", "--svg", "out.svg", "--trace", "out.json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string svg = file("out.svg");
  EXPECT_THAT(svg, StartsWith("<?xml"));
  EXPECT_THAT(svg, HasSubstr(">normalise</text>"));
  EXPECT_THAT(svg, HasSubstr(">consumer</text>"));
  EXPECT_THAT(svg, HasSubstr("microseconds a sample"));
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>'));
  const json trace = json::parse(file("out.json"));
  const json& events = trace.at("traceEvents");
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const json& event) { return event.at("ph") == "i" && event.at("name") == "batch"; }),
            7);
}

TEST_F(BenchTest, ShowsWhereARowCameFrom) {
  const std::vector<std::string> job{digits_, "--chain", "random", "--batch", "16", "--shuffle", "--seed", "3"};
  const ChildResult text = run(with(job, {"--show", "2:5"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("epoch 0, batch 2, row 5, slot 37\n"));
  EXPECT_THAT(text.out, HasSubstr("random_flip drew 2 words: "));
  EXPECT_THAT(text.out, HasSubstr("image: f32 [1, 28, 28], xxh3 "));
  const json row = measured(with(job, {"--show", "2:5"}));
  EXPECT_EQ(row.at("slot"), 37);
  EXPECT_LT(row.at("index"), 100);
  EXPECT_EQ(row.at("draws").size(), 2u);
  EXPECT_EQ(row.at("error"), nullptr);
  EXPECT_EQ(row.at("fields")[1].at("name"), "label");
}

TEST_F(BenchTest, DamagedPictureFailsTheRun) {
  const std::string pictures = test::write_picture_folder(work_, "pictures", 20);
  work_.write("pictures/3/0003.jpg", "this is text");
  const ChildResult result = run({pictures, "--batch", "8"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("penstock: decode_image: sample "));
  EXPECT_THAT(result.err, HasSubstr("0003.jpg"));
}

TEST_F(BenchTest, RefusesWhatMakesNoSense) {
  const auto refused = [&](const std::vector<std::string>& options, const std::string& text) {
    const ChildResult result = run(options);
    EXPECT_EQ(result.code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("penstock: "));
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(test::names_below(work_.path("work")), IsEmpty());
  };
  refused({}, "SOURCE");
  refused({"csv:x"}, "SOURCE: 'csv:x'");
  refused({digits_, "--chain", "fast"}, "--chain: eval, random or none is expected, got 'fast'");
  refused({digits_, "--chain", "eval", "--map", "normalise"}, "--map");
  refused({digits_, "--map", "blur"}, "--map: 'blur' is no map; there are decode, resize, ");
  refused({digits_, "--map", "resize"}, "--map: resize:SHORT_SIDE or HEIGHT,WIDTH is expected, got 'resize'");
  refused({digits_, "--map", "resize:x"}, "got 'x'");
  refused({digits_, "--map", "decode"}, "--map: 'decode': ");
  refused({digits_, "--batch", "0"}, "--batch");
  refused({digits_, "--consumer", "3"}, "--consumer: a time is expected, as in 3.5ms, 200us or 1s, got '3'");
  refused({digits_, "--show", "3"}, "--show: BATCH:ROW is expected, as in 3:17, got '3'");
  refused({digits_, "--show", "9:0"}, "batch 9, row 0: an epoch has 100 rows in batches of 64");
  refused({digits_, "--host-budget", "1MiB"}, "budget");
  refused({digits_, "--svg", "none/out.svg"}, "--svg: 'none/out.svg' cannot be written");
}

}  // namespace
}  // namespace penstock
