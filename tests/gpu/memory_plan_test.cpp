#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kG = kSlabGranule;

// `step` and `slot` bytes for each sample of a batch.
auto linear(std::uint64_t step, std::uint64_t slot) {
  return [=](std::size_t batch) { return PhaseBytes{step * batch, slot * batch}; };
}

PhaseNeed phase(std::string name, std::size_t batch, std::function<PhaseBytes(std::size_t)> bytes) {
  PhaseNeed need;
  need.name = std::move(name);
  need.batch = batch;
  need.bytes = std::move(bytes);
  return need;
}

// Two phases: 128 training samples of 2 MiB step, 256 validation samples of 0.5 MiB; 0.25 MiB slots.
JobNeed two_phases() {
  JobNeed job;
  job.fixed = {{"device/model", 5 * kMiB}, {"host/pinned/staging", 5000}};
  job.phases = {phase("train", 128, linear(2 * kMiB, kMiB / 4)), phase("val", 256, linear(kMiB / 2, kMiB / 4))};
  return job;
}

TEST(MemoryPlanTest, HasARowForEachAccountInWholeGranules) {
  const MemoryPlan plan = plan_memory(two_phases());
  EXPECT_TRUE(plan.fits);
  EXPECT_THAT(plan.refusal, IsEmpty());
  EXPECT_THAT(plan.suggestions, IsEmpty());
  EXPECT_EQ(plan.step_arena_bytes, 256 * kMiB);
  EXPECT_THAT(
      plan.accounts,
      ElementsAre(
          FieldsAre("train", (64 + 256) * kMiB, kNoCap), FieldsAre("val", (128 + 128) * kMiB, kNoCap),
          FieldsAre("device", (6 + 256 + 64 + 128) * kMiB, kNoCap), FieldsAre("device/model", 6 * kMiB, kNoCap),
          FieldsAre("device/step", 256 * kMiB, kNoCap), FieldsAre("device/train", 64 * kMiB, kNoCap),
          FieldsAre("device/train/ring", 64 * kMiB, kNoCap), FieldsAre("device/val", 128 * kMiB, kNoCap),
          FieldsAre("device/val/ring", 128 * kMiB, kNoCap), FieldsAre("host", 3 * (32 + 64) * kMiB + 8192, kNoCap),
          FieldsAre("host/pinned", 3 * (32 + 64) * kMiB + 8192, kNoCap), FieldsAre("host/pinned/staging", 8192, kNoCap),
          FieldsAre("host/pinned/train", 96 * kMiB, kNoCap), FieldsAre("host/pinned/val", 192 * kMiB, kNoCap)));
}

TEST(MemoryPlanTest, EveryStateHoldsFixedMemoryBothRingsAndTheArena) {
  const std::uint64_t device = (6 + 256 + 64 + 128) * kMiB;
  const std::uint64_t pinned = 288 * kMiB + 8192;
  EXPECT_THAT(plan_memory(two_phases()).states,
              ElementsAre(FieldsAre("train", device, pinned), FieldsAre("train->val", device, pinned),
                          FieldsAre("val", device, pinned), FieldsAre("val->train", device, pinned),
                          FieldsAre("checkpoint", device, pinned)));
}

TEST(MemoryPlanTest, PlansOnePhaseAndThree) {
  JobNeed job;
  job.phases = {phase("infer", 1, linear(1, 1))};
  EXPECT_THAT(plan_memory(job).states,
              ElementsAre(FieldsAre("infer", 2 * kG, 3 * 4096), FieldsAre("checkpoint", 2 * kG, 3 * 4096)));
  job.phases = {phase("a", 1, linear(1, 1)), phase("b", 1, linear(1, 1)), phase("c", 1, linear(1, 1))};
  std::vector<std::string> names;
  for (const PlannedState& state : plan_memory(job).states) names.push_back(state.name);
  EXPECT_THAT(names, ElementsAre("a", "a->b", "b", "b->c", "c", "c->a", "checkpoint"));
}

TEST(MemoryPlanTest, RoundsSlotsBeforeTheyAreCounted) {
  JobNeed job;
  job.phases = {phase("train", 1, linear(0, kG / 2 + 1))};
  const MemoryPlan plan = plan_memory(job);
  EXPECT_EQ(plan.accounts[0].planned_peak_bytes, 2 * kG);  // two slots of half a granule and 256 bytes
  EXPECT_EQ(plan.step_arena_bytes, 0);
  job.phases[0].bytes = linear(0, kG / 2);
  EXPECT_EQ(plan_memory(job).accounts[0].planned_peak_bytes, kG);
}

TEST(MemoryPlanTest, CountsWhatOthersHold) {
  JobNeed job = two_phases();
  job.held = {{"device/external", 1000}, {"train", 500}, {"host/cache", 12345}};
  const MemoryPlan plan = plan_memory(job);
  const MemoryPlan without = plan_memory(two_phases());
  EXPECT_EQ(plan.accounts[0].planned_peak_bytes, without.accounts[0].planned_peak_bytes + 500);
  EXPECT_THAT(plan.accounts, testing::Contains(FieldsAre("device/external", 1000, kNoCap)));
  EXPECT_EQ(plan.states[0].peak_bytes, without.states[0].peak_bytes + 1000);
  EXPECT_EQ(plan.states[0].pinned_bytes, without.states[0].pinned_bytes);
}

TEST(MemoryPlanTest, FitsAtTheCapAndNotOneByteBelow) {
  const MemoryPlan open = plan_memory(two_phases());
  JobNeed job = two_phases();
  job.phases[0].cap_bytes = open.accounts[0].planned_peak_bytes;
  job.phases[1].cap_bytes = open.accounts[1].planned_peak_bytes;
  job.device_cap_bytes = open.states[0].peak_bytes;
  job.device_available_bytes = open.states[0].peak_bytes;
  job.pinned_cap_bytes = open.states[0].pinned_bytes;
  EXPECT_TRUE(plan_memory(job).fits);
  for (std::uint64_t* cap : {&job.phases[0].cap_bytes, &job.phases[1].cap_bytes, &job.device_cap_bytes,
                             &job.device_available_bytes, &job.pinned_cap_bytes}) {
    --*cap;
    EXPECT_FALSE(plan_memory(job).fits);
    ++*cap;
  }
}

TEST(MemoryPlanTest, RefusalShowsTheArithmeticAndWhatFits) {
  JobNeed job = two_phases();
  job.phases[1].cap_bytes = 200 * kMiB;  // needs 0.5 MiB step + 2 x 0.25 MiB ring a sample: 256 MiB
  const MemoryPlan plan = plan_memory(job);
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.refusal,
            "val batch 256 needs 256.00 MiB of the val cap 200.00 MiB; what fits: val batch 200; val depth 1; val cap "
            ">= 256.00 MiB");
  job.phases[1].cap_bytes = 150 * kMiB;
  EXPECT_EQ(
      plan_memory(job).refusal,
      "val batch 256 needs 256.00 MiB of the val cap 150.00 MiB; what fits: val batch 148; val depth 1 with batch "
      "200; val cap >= 256.00 MiB");
}

TEST(MemoryPlanTest, RefusalOfTheDeviceNamesAllPhases) {
  JobNeed job = two_phases();
  job.device_cap_bytes = 300 * kMiB;
  EXPECT_THAT(plan_memory(job).refusal,
              HasSubstr("train batch 128 and val batch 256 need 454.00 MiB of the device cap 300.00 MiB; what fits: "));
  EXPECT_THAT(plan_memory(job).refusal, HasSubstr("device cap >= 454.00 MiB"));
  job.device_available_bytes = 200 * kMiB;
  const MemoryPlan plan = plan_memory(job);
  EXPECT_THAT(plan.refusal,
              HasSubstr("train batch 128 and val batch 256 need 454.00 MiB, the device has 200.00 MiB; "));
  EXPECT_THAT(plan.refusal, testing::Not(HasSubstr("device cap >=")));  // no cap makes the device larger
}

TEST(MemoryPlanTest, RefusalNeverShowsEqualNumbers) {
  JobNeed job;
  job.phases = {phase("train", 1, linear(1024 * kMiB, 0))};
  job.phases[0].cap_bytes = 1024 * kMiB - 1;
  EXPECT_THAT(plan_memory(job).refusal,
              HasSubstr("train batch 1 needs 1.00 GiB of the train cap 1023.99 MiB; what fits: "
                        "train cap >= 1.00 GiB"));
}

TEST(MemoryPlanTest, SaysWhenNothingFits) {
  JobNeed job = two_phases();
  job.device_available_bytes = kMiB;
  const MemoryPlan plan = plan_memory(job);
  EXPECT_THAT(plan.suggestions, IsEmpty());
  EXPECT_THAT(plan.refusal, HasSubstr("the device has 1.00 MiB; no batch or depth fits"));
}

TEST(MemoryPlanTest, HugeNeedsDoNotWrapAround) {
  JobNeed job;
  job.phases = {phase(
      "train", 4, [](std::size_t batch) { return batch > 1 ? PhaseBytes{kNoCap - 5, kNoCap - 5} : PhaseBytes{1, 1}; })};
  job.device_cap_bytes = 4 * kG;
  const MemoryPlan plan = plan_memory(job);
  EXPECT_FALSE(plan.fits);
  EXPECT_THAT(plan.refusal, HasSubstr("train batch 1"));
}

TEST(MemoryPlanTest, WorksOutEachBatchOnce) {
  JobNeed job = two_phases();
  std::vector<int> calls(300, 0);
  job.phases[1].cap_bytes = 100 * kMiB;
  job.phases[1].bytes = [&calls](std::size_t batch) {
    ++calls.at(batch);
    return PhaseBytes{kMiB / 2 * batch, kMiB / 4 * batch};
  };
  EXPECT_FALSE(plan_memory(job).fits);
  EXPECT_EQ(*std::max_element(calls.begin(), calls.end()), 1);
  EXPECT_EQ(calls[256], 1);
}

TEST(MemoryPlanTest, RefusesWhatIsNoJob) {
  const auto refused = [](const JobNeed& job, const std::string& why) {
    EXPECT_THAT([&] { plan_memory(job); }, ThrowsMessage<InvalidArgument>("memory plan: " + why));
  };
  refused({}, "a job has at least one phase");
  JobNeed job = two_phases();
  job.phases[0].batch = 0;
  refused(job, "phase \"train\": batch 0, expected at least 1");
  job = two_phases();
  job.phases[1].depth = 0;
  refused(job, "phase \"val\": depth 0, expected at least 1");
  job = two_phases();
  job.phases[1].pinned_depth = 1;
  refused(job, "phase \"val\": pinned depth 1, expected at least 2");
  job = two_phases();
  job.phases[1].name = "train";
  refused(job, "phase \"train\" is there twice, or a name that the plan uses");
  job.phases[1].name = "device";
  refused(job, "phase \"device\" is there twice, or a name that the plan uses");
  job.phases[1].name = "step";
  refused(job, "account \"device/step\" is there twice, or a name that the plan uses");
  job.phases[1].name = "a/b";
  refused(job, "phase \"a/b\": a name without \"/\" is expected");
  job = two_phases();
  job.phases[0].bytes = nullptr;
  refused(job, "phase \"train\": it does not say its bytes");
  job = two_phases();
  job.fixed.push_back({"device/train/ring", 1});
  refused(job, "account \"device/train/ring\" is there twice, or a name that the plan uses");
  job = two_phases();
  job.fixed.push_back({"host/cache", 1});
  refused(job, "account \"host/cache\": expected one below device/ or host/pinned/");
}

TEST(MemoryPlanTest, TableShowsAccountsAndStates) {
  JobNeed job;
  job.phases = {phase("train", 1, linear(1, 1))};
  job.device_cap_bytes = 8 * kMiB;
  EXPECT_EQ(plan_memory(job).table(),
            "account                           planned          cap\n"
            "train                            4.00 MiB            -\n"
            "device                           4.00 MiB     8.00 MiB\n"
            "device/step                      2.00 MiB            -\n"
            "device/train                     2.00 MiB            -\n"
            "device/train/ring                2.00 MiB            -\n"
            "host                            12.00 KiB            -\n"
            "host/pinned                     12.00 KiB            -\n"
            "host/pinned/train               12.00 KiB            -\n"
            "state                              device       pinned\n"
            "train                            4.00 MiB    12.00 KiB\n"
            "checkpoint                       4.00 MiB    12.00 KiB\n");
}

// Suggestions are put back into the job: with them it fits, with one more (one byte less, for caps) it does not.
std::uint64_t most_asked(const JobNeed& job, const std::string& knob) {
  for (const PhaseNeed& need : job.phases) {
    if (knob == need.name + " batch") return need.batch;
    if (knob == need.name + " depth") return need.depth;
    if (knob == need.name + " pinned depth") return need.pinned_depth;
  }
  return kNoCap;
}

void turn(JobNeed& job, const std::string& knob, std::uint64_t value) {
  if (knob == "device cap") job.device_cap_bytes = value;
  if (knob == "pinned cap") job.pinned_cap_bytes = value;
  for (PhaseNeed& need : job.phases) {
    if (knob == need.name + " batch") need.batch = value;
    if (knob == need.name + " depth") need.depth = value;
    if (knob == need.name + " pinned depth") need.pinned_depth = value;
    if (knob == need.name + " cap") need.cap_bytes = value;
  }
}

JobNeed with(JobNeed job, const Suggestion& suggestion) {
  turn(job, suggestion.knob, suggestion.value);
  for (const Suggestion& other : suggestion.with) turn(job, other.knob, other.value);
  return job;
}

void expect_true(const JobNeed& job, const Suggestion& suggestion) {
  const JobNeed changed = with(job, suggestion);
  EXPECT_TRUE(plan_memory(changed).fits) << suggestion.knob << " " << suggestion.value;
  std::vector<Suggestion> changes = suggestion.with;
  changes.push_back(suggestion);
  for (const Suggestion& change : changes) {
    if (change.knob.ends_with(" cap")) {
      JobNeed less = changed;
      turn(less, change.knob, change.value - 1);
      EXPECT_FALSE(plan_memory(less).fits) << change.knob << " " << change.value << " less one byte";
      continue;
    }
    const bool is_depth_with_batch =
        change.knob == suggestion.knob && !suggestion.with.empty() && change.knob.ends_with(" depth");
    for (std::uint64_t more = change.value + 1; more <= most_asked(job, change.knob); ++more) {
      JobNeed larger = changed;
      turn(larger, change.knob, more);
      if (is_depth_with_batch) break;  // its batch is what cannot grow
      EXPECT_FALSE(plan_memory(larger).fits) << change.knob << " " << more << " instead of " << change.value;
    }
  }
}

struct SuggestionCase {
  const char* name;
  JobNeed job;
  std::vector<std::string> knobs;  // of the first change of each suggestion
};

std::vector<SuggestionCase> suggestion_cases() {
  std::vector<SuggestionCase> cases;
  const auto add = [&cases](const char* name, std::vector<std::string> knobs, auto change) {
    SuggestionCase made{name, two_phases(), std::move(knobs)};
    change(made.job);
    cases.push_back(std::move(made));
  };
  add("train cap", {"train batch", "train cap"}, [](JobNeed& job) {
    job.phases[0].cap_bytes = 280 * kMiB;
    job.phases[0].depth = 1;
  });
  add("train cap, depth with batch", {"train batch", "train depth", "train cap"},
      [](JobNeed& job) { job.phases[0].cap_bytes = 280 * kMiB; });
  add("val cap, depth 3", {"val batch", "val depth", "val cap"}, [](JobNeed& job) {
    job.phases[1].cap_bytes = 300 * kMiB;
    job.phases[1].depth = 4;
  });
  add("device cap", {"train batch", "train depth", "val batch", "val depth", "device cap"},
      [](JobNeed& job) { job.device_cap_bytes = 440 * kMiB; });
  add("device available", {"train batch", "val batch", "val depth"}, [](JobNeed& job) {
    job.device_available_bytes = 390 * kMiB;
    job.phases[0].depth = 1;
  });
  add("device cap, joint", {"train batch", "device cap"}, [](JobNeed& job) { job.device_cap_bytes = 100 * kMiB; });
  add("pinned cap", {"train batch", "train pinned depth", "val batch", "val pinned depth", "pinned cap"},
      [](JobNeed& job) { job.pinned_cap_bytes = 280 * kMiB; });
  add("both phase caps", {"train batch", "train cap"}, [](JobNeed& job) {
    job.phases[0].cap_bytes = 100 * kMiB;
    job.phases[1].cap_bytes = 101 * kMiB;
  });
  add("phase cap and pinned cap", {"val batch", "val depth", "val cap"}, [](JobNeed& job) {
    job.phases[1].cap_bytes = 150 * kMiB;
    job.pinned_cap_bytes = 270 * kMiB;
  });
  // Batches above 16 switch to an algorithm without scratch, except multiples of 7.
  const auto uneven = [](std::size_t batch) {
    const std::uint64_t scratch = batch <= 16 ? 300 * kMiB : batch % 7 == 0 ? 200 * kMiB : 0;
    return PhaseBytes{scratch + batch * kMiB, batch * kMiB};
  };
  add("need that is not monotone", {"train batch", "train depth", "train cap"}, [&](JobNeed& job) {
    job.phases[0] = phase("train", 70, uneven);
    job.phases[0].cap_bytes = 200 * kMiB;
  });
  add("batch 1 is too much", {"train cap"}, [](JobNeed& job) {
    job.phases[0].bytes = linear(300 * kMiB, kMiB);
    job.phases[0].cap_bytes = 290 * kMiB;
  });
  add("fixed memory is too much", {"device cap"}, [](JobNeed& job) {
    job.fixed[0].bytes = 800 * kMiB;
    job.device_cap_bytes = 700 * kMiB;
  });
  return cases;
}

TEST(MemoryPlanTest, SuggestionsAreTrue) {
  for (const SuggestionCase& one : suggestion_cases()) {
    SCOPED_TRACE(one.name);
    const MemoryPlan plan = plan_memory(one.job);
    EXPECT_FALSE(plan.fits);
    std::vector<std::string> knobs;
    for (const Suggestion& suggestion : plan.suggestions) {
      knobs.push_back(suggestion.knob);
      expect_true(one.job, suggestion);
    }
    EXPECT_EQ(knobs, one.knobs) << plan.refusal;
  }
}

TEST(MemoryPlanTest, SuggestsNoBatchThatTheSetCannotFill) {
  JobNeed job = two_phases();
  job.phases[1].batch = std::size_t{1} << 40;  // looking at each of these would take days
  job.phases[1].sample_count = 200;
  job.device_cap_bytes = 500 * kMiB;
  EXPECT_THAT(plan_memory(job).refusal, HasSubstr("what fits: val batch 200"));
  job.phases[0].batch = std::size_t{1} << 40;
  job.phases[0].sample_count = 100;
  EXPECT_THAT(plan_memory(job).refusal, HasSubstr("train batch 100 with val batch 200"));
}

TEST(MemoryPlanTest, CapsInTheRefusalAreEnoughWhenTypedIn) {
  JobNeed job = two_phases();
  job.phases[1].bytes = linear(kMiB / 2 + 12345, kMiB / 4 + 777);
  job.phases[1].cap_bytes = 100 * kMiB;
  const MemoryPlan plan = plan_memory(job);
  const std::string word = "val cap >= ";
  const std::size_t at = plan.refusal.find(word);
  ASSERT_NE(at, std::string::npos) << plan.refusal;
  job.phases[1].cap_bytes = parse_size(plan.refusal.substr(at + word.size()));
  EXPECT_TRUE(plan_memory(job).fits);
}

}  // namespace
}  // namespace penstock::gpu
