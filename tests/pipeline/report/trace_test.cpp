// The recorder, and what a loader writes into it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/loader.h>
#include <penstock/pipeline/report/trace.h>

#include "support/pipeline_support.h"

namespace penstock {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

json events_of(const Trace& trace) {
  std::ostringstream text;
  trace.write_json(text);
  return json::parse(text.str()).at("traceEvents");
}

json of_phase(const json& events, const std::string& phase) {
  json found = json::array();
  for (const json& event : events) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(TraceTest, WritesSlicesSpansAndMarks) {
  Trace trace;
  const Trace::Clock::time_point now = Trace::Clock::now();
  trace.name_thread("main \"thread\"\n");
  trace.slice(trace.name("decode"), now, microseconds(1500), {.batch = 3, .row = 7});
  trace.span(trace.name("read"), now, now + microseconds(20), {.sample = 41});
  trace.mark(trace.name("batch"), now, {.epoch = 1});
  EXPECT_EQ(trace.name("decode"), 0u) << "equal names have equal numbers";

  const json events = events_of(trace);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].at("args").at("name"), "main \"thread\"\n");
  const json& slice = events[1];
  EXPECT_EQ(slice.at("ph"), "X");
  EXPECT_EQ(slice.at("name"), "decode");
  EXPECT_DOUBLE_EQ(slice.at("dur"), 1500);
  EXPECT_EQ(slice.at("args"), (json{{"batch", 3}, {"row", 7}}));
  EXPECT_EQ(events[2].at("ph"), "b");
  EXPECT_EQ(events[3].at("ph"), "e");
  EXPECT_EQ(events[2].at("id"), events[3].at("id"));
  EXPECT_NEAR(events[3].at("ts").get<double>() - events[2].at("ts").get<double>(), 20, 1e-6);
  EXPECT_EQ(events[2].at("args"), (json{{"sample", 41}}));
  EXPECT_EQ(events[4].at("ph"), "i");
  EXPECT_EQ(events[4].at("args"), (json{{"epoch", 1}}));
}

TEST(TraceTest, KeepsTheLatestOfEachThread) {
  Trace trace(4);
  const std::uint32_t name = trace.name("x");
  const Trace::Clock::time_point now = Trace::Clock::now();
  for (std::uint64_t i = 0; i < 10; ++i) trace.mark(name, now, {.sample = i});
  std::thread([&] { trace.mark(name, now, {.sample = 100}); }).join();
  std::vector<std::uint64_t> samples;
  std::set<int> threads;
  for (const json& event : of_phase(events_of(trace), "i")) {
    samples.push_back(event.at("args").at("sample"));
    threads.insert(event.at("tid").get<int>());
  }
  EXPECT_EQ(samples, (std::vector<std::uint64_t>{6, 7, 8, 9, 100}));
  EXPECT_EQ(threads.size(), 2u);
  EXPECT_EQ(trace.dropped(), 6u);
}

TEST(TraceTest, OneThreadWritesIntoSeveralRecorders) {
  Trace first;
  auto second = std::make_unique<Trace>();
  first.mark(first.name("a"), Trace::Clock::now());
  second->mark(second->name("b"), Trace::Clock::now());
  second = std::make_unique<Trace>();
  second->mark(second->name("c"), Trace::Clock::now());
  first.mark(first.name("a"), Trace::Clock::now());
  EXPECT_EQ(of_phase(events_of(first), "i").size(), 2u);
  ASSERT_EQ(of_phase(events_of(*second), "i").size(), 1u);
  EXPECT_EQ(of_phase(events_of(*second), "i")[0].at("name"), "c");
}

TEST(TraceTest, EmptyRecorderWritesValidJson) {
  EXPECT_TRUE(events_of(Trace{}).empty());
  EXPECT_THROW(Trace{0}, InvalidArgument);
}

/// A map that takes about `time` of its thread.
auto busy(microseconds time) {
  return [time](std::int64_t x) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
    return x + 1;
  };
}

TEST(TraceTest, SlicesOfAStageAddUpToItsTimeInTheReport) {
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = Pipeline(std::make_shared<test::NumberSource>(600))
                                .map("x", busy(microseconds(40)))
                                .map("x", [](std::int64_t x) { return x * 3; })
                                .batch(50);
  const auto trace = std::make_shared<Trace>();
  Loader loader(runtime, pipeline, {.epoch_count = 2, .block_size = 10, .trace = trace});
  std::uint64_t batches = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (loader.next()) ++batches;
  }
  const LoaderReport report = loader.report();
  std::map<std::string, double> reported;
  for (const StageReport& stage : report.stages) reported[stage.name] += stage.seconds;
  std::map<std::string, double> traced;
  for (const json& event : of_phase(events_of(*trace), "X")) {
    traced[event.at("name")] += 1e-6 * event.at("dur").get<double>();
    if (event.at("name") == "block") {
      EXPECT_TRUE(event.at("args").contains("batch"));
    }
  }
  EXPECT_EQ(trace->dropped(), 0u);
  EXPECT_GT(reported.at("map(x)"), 600 * 2 * 39e-6);
  EXPECT_NEAR(traced.at("map(x)") / reported.at("map(x)"), 1, 0.05);
  EXPECT_NEAR(traced.at("read") / reported.at("read"), 1, 0.05);
  EXPECT_GE(traced.at("block"), 0.95 * reported.at("map(x)"));

  EXPECT_EQ(batches, 24u);
  const json marks = of_phase(events_of(*trace), "i");
  ASSERT_EQ(marks.size(), 24u);
  EXPECT_EQ(marks[23].at("args"), (json{{"epoch", 1}, {"batch", 11}, {"row", 0}, {"count", 50}}));
  EXPECT_GE(traced.at("next"), 0.9 * report.wait_seconds);
}

TEST(TraceTest, SlicesOfAStreamAddUpToo) {
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = Pipeline(std::make_shared<test::NumberSource>(400))
                                .map("x", busy(microseconds(40)))
                                .filter("x", [](std::int64_t x) { return x % 20 == 1; })
                                .batch(50);
  const auto trace = std::make_shared<Trace>();
  Loader loader(runtime, pipeline, {.epoch_count = 1, .trace = trace});
  while (loader.next()) {
  }
  const LoaderReport report = loader.report();
  std::map<std::string, double> reported;
  for (const StageReport& stage : report.stages) reported[stage.name] += stage.seconds;
  std::map<std::string, double> traced;
  for (const json& event : of_phase(events_of(*trace), "X")) {
    traced[event.at("name")] += 1e-6 * event.at("dur").get<double>();
  }
  EXPECT_GT(reported.at("map(x)"), 400 * 39e-6);
  for (const auto& [stage, seconds] : reported) {
    if (seconds > 1e-4) {
      EXPECT_NEAR(traced[stage] / seconds, 1, 0.05) << stage;
    }
  }
}

TEST(TraceTest, ReadsThatAreAnsweredLaterAreSpans) {
  // Every read is answered by a thread of its own.
  const auto source = std::make_shared<test::BytesSource>(std::vector<std::int64_t>(12, 64));
  std::vector<std::jthread> answers;
  std::mutex mutex;
  source->finish = [&](Sink& sink) {
    const std::lock_guard lock(mutex);
    answers.emplace_back([&sink] { sink.done(); });
  };
  const Runtime runtime({.threads = 2});
  const Pipeline pipeline = Pipeline(source)
                                .map("bytes", Output{DataType::kU8, {1}},
                                     [](View<const std::uint8_t> in, View<std::uint8_t> out) { out[0] = in[0]; })
                                .batch(4);
  const auto trace = std::make_shared<Trace>();
  {
    Loader loader(runtime, pipeline, {.epoch_count = 1, .trace = trace});
    while (loader.next()) {
    }
  }
  std::set<std::uint64_t> samples;
  const json begins = of_phase(events_of(*trace), "b");
  for (const json& event : begins) {
    EXPECT_EQ(event.at("name"), "read");
    samples.insert(event.at("args").at("sample").get<std::uint64_t>());
  }
  EXPECT_EQ(begins.size(), 12u);
  EXPECT_EQ(samples.size(), 12u);
  EXPECT_EQ(of_phase(events_of(*trace), "e").size(), 12u);
}

}  // namespace
}  // namespace penstock
