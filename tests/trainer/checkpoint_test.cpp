#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/error.h>
#include <penstock/trainer/checkpoint.h>
#include <penstock/trainer/models.h>
#include <penstock/trainer/run_folder.h>
#include <penstock/trainer/whole_file.h>

#include "support/source_temp_folder.h"

namespace penstock::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : model(layout.state_bytes) {
    Draw draw(5, 0, 0, 0);
    for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
      fill(draw, p, layout.weights[p]);
      if (graph.parameters()[p].trained) fill(draw, p, layout.momenta[p]);
    }
    const MetricSums sums{.loss = 0.1, .count = 64, .top1 = 3, .top5 = 40, .not_finite = 0};
    std::memcpy(model.data() + layout.train_metrics, &sums, sizeof sums);
    state.phase = CheckpointPhase::kValidationPending;
    state.epoch = 2;
    state.epoch_steps = 17;
    state.position = {3, 0};
    state.epoch_seconds = 0.1;
    state.identity = {{"model", "resnet9"}, {"seed", "7"}};
    state.classes = {"T-shirt \"checksum\":\"", "Größe"};
    state.recipe = recipe_to_json(recipe_by_name("fashion"));
    EpochRow row;
    row.epoch = 1;
    row.val_top1 = 1.0 / 3;
    row.accounts = {{"train", 0, 100, 200}, {"device/step", 0, 50, gpu::kNoCap}};
    state.rows = {row};
  }

  void fill(Draw& draw, std::size_t p, std::uint64_t offset) {
    auto* const values = reinterpret_cast<float*>(model.data() + offset);
    for (std::int64_t i = 0; i < graph.parameters()[p].shape.element_count(); ++i) {
      values[i] = static_cast<float>(draw.normal());
    }
  }

  std::filesystem::path path(const std::string& name = "a.safetensors") const { return folder.path(name); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  test::TempFolder folder;
  ModelGraph graph = resnet9({.width = 1, .input = Shape{8, 8, 3}, .class_count = 10});
  ModelLayout layout{graph};
  std::vector<std::byte> model;
  CheckpointState state;
};

TEST_F(CheckpointTest, ReadsBackWhatWasWritten) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const Checkpoint back = read_checkpoint(path(), graph, layout);
  EXPECT_TRUE(back.model == model);
  EXPECT_EQ(back.state.phase, CheckpointPhase::kValidationPending);
  EXPECT_EQ(back.state.epoch, 2U);
  EXPECT_EQ(back.state.epoch_steps, 17U);
  EXPECT_EQ(back.state.position, (Position{3, 0}));
  EXPECT_EQ(back.state.epoch_seconds, 0.1);
  EXPECT_EQ(back.state.identity, state.identity);
  EXPECT_EQ(back.state.classes, state.classes);
  EXPECT_EQ(recipe_from_json(back.state.recipe), recipe_by_name("fashion"));
  ASSERT_EQ(back.state.rows.size(), 1U);
  EXPECT_EQ(back.state.rows[0].val_top1, 1.0 / 3);
  EXPECT_EQ(row_to_json(back.state.rows[0]), row_to_json(state.rows[0]));
  EXPECT_THAT(files(), ElementsAre("a.safetensors"));
}

// The format, read by the rules of its description and nothing of ours.
TEST_F(CheckpointTest, IsSafetensorsInPyTorchLayout) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const std::vector<std::byte> bytes = read_file(path());
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  ASSERT_EQ(header_bytes % 8, 0U);
  const auto header =
      nlohmann::ordered_json::parse(std::string(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes));
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : tensor.items()) EXPECT_TRUE(value.is_string()) << key;
      continue;
    }
    EXPECT_EQ(tensor.at("data_offsets")[0], at) << name;
    at = tensor.at("data_offsets")[1];
  }
  EXPECT_EQ(at, bytes.size() - 8 - header_bytes);

  const auto& prep = header.at("prep.0.weight");
  EXPECT_EQ(prep.at("shape"), (std::vector<int>{1, 3, 3, 3}));
  const std::byte* const data = bytes.data() + 8 + header_bytes + prep.at("data_offsets")[0].get<std::size_t>();
  const auto* const state_weights = reinterpret_cast<const float*>(model.data() + layout.weights[0]);
  for (int c = 0; c < 3; ++c) {
    for (int r = 0; r < 3; ++r) {
      for (int s = 0; s < 3; ++s) {
        float value = 0;
        std::memcpy(&value, data + ((c * 3 + r) * 3 + s) * 4, 4);
        EXPECT_EQ(value, state_weights[(r * 3 + s) * 3 + c]);
      }
    }
  }
}

TEST_F(CheckpointTest, FindsEveryCut) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const std::string whole = read_text(path());
  for (std::size_t kept = 0; kept < whole.size(); kept += kept < 64 ? 1 : 997) {
    folder.write("cut.safetensors", whole.substr(0, kept));
    EXPECT_THAT(
        [&] { read_checkpoint(path("cut.safetensors"), graph, layout); },
        ThrowsMessage<CheckpointCorrupt>(AllOf(StartsWith("checkpoint_corrupt: \""), HasSubstr("cut.safetensors"))))
        << kept;
  }
  folder.write("cut.safetensors", whole + "x");
  EXPECT_THROW(read_checkpoint(path("cut.safetensors"), graph, layout), CheckpointCorrupt);
}

TEST_F(CheckpointTest, FindsEveryFlip) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const std::string whole = read_text(path());
  for (std::size_t at = 0; at < whole.size(); at += at < 4000 ? 7 : 1009) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x04);
    folder.write("flip.safetensors", flipped);
    EXPECT_THAT([&] { read_checkpoint(path("flip.safetensors"), graph, layout); },
                ThrowsMessage<CheckpointCorrupt>(AllOf(HasSubstr("checkpoint_corrupt"), HasSubstr("flip.safetensors"))))
        << at;
  }
}

TEST_F(CheckpointTest, RefusesAnotherModel) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const ModelGraph wider = resnet9({.width = 2, .input = Shape{8, 8, 3}, .class_count = 10});
  EXPECT_THAT([&] { read_checkpoint(path(), wider, ModelLayout(wider)); },
              ThrowsMessage<CheckpointCorrupt>(HasSubstr("tensor \"prep.0.weight\" has another type, shape or place")));
}

TEST_F(CheckpointTest, MissingFileIsNamed) {
  EXPECT_THAT([&] { read_checkpoint_state(path("none")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot open"), HasSubstr("none"), HasSubstr("No such file"))));
}

// A limit of the file size is a full disk in miniature: the write fails in the middle.
TEST_F(CheckpointTest, FailedWriteLeavesTheOldOne) {
  write_checkpoint(path(), graph, layout, state, model.data());
  const std::string before = read_text(path());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  state.epoch = 3;
  EXPECT_THAT(
      [&] { write_checkpoint(path(), graph, layout, state, model.data()); },
      ThrowsMessage<Error>(AllOf(HasSubstr("cannot write"), HasSubstr("a.safetensors"), HasSubstr("too large"))));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_text(path()), before);
  EXPECT_THAT(files(), ElementsAre("a.safetensors"));
}

TEST_F(CheckpointTest, ListsEachDifferenceOfTwoJobs) {
  EXPECT_EQ(identity_differences({{"batch", "128"}, {"seed", "1"}}, {{"batch", "128"}, {"seed", "1"}}), "");
  EXPECT_EQ(identity_differences({{"batch", "128"}, {"seed", "1"}, {"old", "x"}}, {{"batch", "64"}, {"seed", "1"}}),
            "batch: 128 in the checkpoint, 64 now; old: x in the checkpoint, nothing now");
}

TEST(RunFolderTest, KeepsTheTwoNewestAndTheBest) {
  const test::TempFolder temp;
  RunFolder folder(temp.path("run"), {});
  folder.begin("{}", {"a", "b"}, {});
  const std::filesystem::path checkpoints = temp.path("run/checkpoints");
  for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
    const std::filesystem::path file = folder.checkpoint_file(epoch, std::nullopt);
    replace_file(file, "x");
    folder.set_last(file);
    if (epoch == 2) folder.set_best(file);
    EXPECT_EQ(find_checkpoint(temp.path("run")), file);
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("last", "best", "epoch-000002.safetensors",
                                                     "epoch-000004.safetensors", "epoch-000005.safetensors"));
  EXPECT_EQ(read_text(temp.path("run/classes.txt")), "a\nb\n");
  EXPECT_EQ(checkpoint_before(checkpoints / "epoch-000005.safetensors"), checkpoints / "epoch-000004.safetensors");
  EXPECT_EQ(checkpoint_before(checkpoints / "epoch-000002.safetensors"), "");
}

TEST(RunFolderTest, NamesOfCheckpointsSortByAge) {
  const RunFolder folder("run", {});
  EXPECT_LT(folder.checkpoint_file(1, 5), folder.checkpoint_file(1, 10));
  EXPECT_LT(folder.checkpoint_file(1, 10), folder.checkpoint_file(1, std::nullopt));
  EXPECT_LT(folder.checkpoint_file(1, std::nullopt), folder.checkpoint_file(2, 5));
}

TEST(RunFolderTest, FindsTheNewestCheckpointOfARunKilledBeforeItPointedThere) {
  const test::TempFolder temp;
  RunFolder folder(temp.path("run"), {});
  folder.begin("{}", {"a", "b"}, {});
  const std::filesystem::path file = folder.checkpoint_file(1, 5);
  replace_file(file, "x");
  EXPECT_EQ(find_checkpoint(temp.path("run")), file);
}

TEST(RunFolderTest, RefusesAFolderThatHoldsARun) {
  const test::TempFolder temp;
  RunFolder(temp.path("run"), {}).begin("{}", {}, {});
  EXPECT_THAT([&] { RunFolder(temp.path("run"), {}); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(temp.path("run")), HasSubstr("holds a run already"))));
  EXPECT_NO_THROW(RunFolder(temp.path("run"), temp.path("run/checkpoints/epoch-000001.safetensors")));
  EXPECT_THAT([&] { find_checkpoint(temp.path("run")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("holds no checkpoint")));
  EXPECT_THAT([&] { find_checkpoint(temp.path("gone")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("there is no checkpoint")));
}

}  // namespace
}  // namespace penstock::trainer
