// A stream of elements out of a list, and what pulls operators to their end: for the tests of every operator.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/engine/runtime_state.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/runtime.h>

namespace penstock::test {

/// When a ListOperator answers kPending first: before none of its answers, before each (the end too), or before those
/// with the numbers given.
struct Pending {
  bool always = false;
  std::set<std::size_t> before = {};
};

/// A context over a real runtime, as the StreamCore makes one. `wait` is for the driver.
class StreamFixture {
 public:
  explicit StreamFixture(const RuntimeOptions& options = {.threads = 2, .budget_bytes = std::uint64_t{64} << 20},
                         std::uint64_t max_sample_bytes = std::uint64_t{1} << 20,
                         std::uint64_t kept_bytes = std::uint64_t{4} << 20)
      : runtime_(options),
        lane_(std::make_shared<Lane>(*this)),
        shared_(std::make_shared<Shared>()),
        context{.runtime = runtime_.state(), .lane = *lane_, .seed = 1, .max_sample_bytes = max_sample_bytes} {
    shared_->fixture = this;
    context.wake = [shared = shared_] { shared->wake(); };
    context.wake_when_room = [this] {
      if (starving_.exchange(true)) return;
      context.runtime.count_starving(1);
      context.wake();
    };
    context.submit = [shared = shared_](engine::WorkItem& item) {
      const std::lock_guard lock(shared->mutex);
      if (!shared->fixture || shared->fixture->context.stopped) return false;
      ++shared->active;
      shared->fixture->context.runtime.submit(shared->fixture->context.lane, item);
      return true;
    };
    context.finished = [shared = shared_] {
      const std::lock_guard lock(shared->mutex);
      --shared->active;
      shared->changed.notify_all();
    };
    context.counter = [this](const std::string& stage) -> engine::StageCounter& {
      counters_.emplace_back(stage, std::make_unique<engine::StageCounter>());
      return *counters_.back().second;
    };
    if (kept_bytes != 0) {
      context.kept = std::make_shared<engine::KeptBytes>(
          engine::BudgetShare::reserve(context.runtime.budget(), kept_bytes, "what stages keep"), kept_bytes);
    }
    context.runtime.add(lane_);
  }
  /// All operators made with the context must have gone, or be given to `drop` first.
  ~StreamFixture() {
    end_work();
    context.runtime.remove(*lane_);
    if (starving_.exchange(false)) context.runtime.count_starving(-1);
  }
  StreamFixture(const StreamFixture&) = delete;
  StreamFixture& operator=(const StreamFixture&) = delete;

  /// Ends what runs, waits for it, and destroys the operator: what a stream does at its end.
  void drop(std::unique_ptr<engine::Operator> root) {
    end_work();
    root.reset();
  }
  /// The number of wakes so far; `wait` returns when there have been more than `seen`.
  std::uint64_t wakes() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->wakes;
  }
  void wait(std::uint64_t seen) {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return shared_->wakes > seen; });
  }
  const Runtime& runtime() const noexcept { return runtime_; }
  const std::vector<std::pair<std::string, std::unique_ptr<engine::StageCounter>>>& counters() const noexcept {
    return counters_;
  }

 private:
  struct Lane final : engine::WorkLane {
    explicit Lane(StreamFixture& fixture) : WorkLane(0), of(fixture) {}
    void room_freed() override {
      if (of.starving_.exchange(false)) of.context.runtime.count_starving(-1);
      of.context.wake();
    }
    void trim() override {}
    StreamFixture& of;
  };
  struct Shared {
    void wake() {
      const std::lock_guard lock(mutex);
      ++wakes;
      changed.notify_all();
    }
    std::mutex mutex;
    std::condition_variable changed;
    StreamFixture* fixture = nullptr;  // null once it has gone
    std::uint64_t wakes = 0;
    std::size_t active = 0;
  };
  void end_work() {
    {
      const std::lock_guard lock(shared_->mutex);
      context.stopped = true;
      shared_->fixture = nullptr;
    }
    for (engine::WorkItem* const item : context.runtime.withdraw(context.lane)) item->run();
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return shared_->active == 0; });
  }

  Runtime runtime_;
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<Shared> shared_;
  std::atomic<bool> starving_{false};
  std::vector<std::pair<std::string, std::unique_ptr<engine::StageCounter>>> counters_;

 public:
  engine::StreamContext context;
};

/// An element {"x": i64 value} of sample `index` of source 0; its lineage is made of the index.
inline engine::Element number_element(std::int64_t value, std::uint64_t index) {
  engine::Element element;
  element.sample = Sample({"x"}, {Tensor::scalar<std::int64_t>(value)}, {0, index});
  element.lineage = engine::joined_lineage(1, {index});
  element.origins = {{0, index}};
  return element;
}

/// An element whose sample could not be read: "bad bytes".
inline engine::Element error_element(std::uint64_t index) {
  return engine::failed(number_element(0, index), "read",
                        std::make_exception_ptr(DataError(ErrorKind::kCorrupt, "bad bytes")));
}

/// The same, left out by the policy.
inline engine::Element skipped_element(std::uint64_t index) {
  engine::Element element = error_element(index);
  element.kind = engine::Element::Kind::kSkipped;
  return element;
}

/// A copy without the charge.
inline engine::Element copy_of(const engine::Element& element) {
  engine::Element copy;
  copy.kind = element.kind;
  copy.sample = element.sample;
  copy.lineage = element.lineage;
  copy.origins = element.origins;
  copy.row_origins = element.row_origins;
  copy.failure = element.failure;
  return copy;
}

/// Gives on the elements of a list; each pass begins from the front, and mixes the pass into the lineages.
class ListOperator final : public engine::Operator {
 public:
  using Items = std::shared_ptr<const std::vector<engine::Element>>;
  ListOperator(engine::StreamContext& context, Items items, Pending pending = {})
      : context_(context), items_(std::move(items)), pending_(std::move(pending)) {}
  static Items items(std::vector<engine::Element> list) {
    return std::make_shared<const std::vector<engine::Element>>(std::move(list));
  }
  /// 0, 10, 20, ...
  static Items numbers(std::size_t count) {
    std::vector<engine::Element> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(number_element(static_cast<std::int64_t>(i) * 10, i));
    return items(std::move(list));
  }

  void start(const engine::Pass& pass) override { begin(pass, 0); }
  engine::Pull next(engine::Element& out) override {
    if (!asked_ && (pending_.always || pending_.before.count(at_) != 0)) {
      asked_ = true;
      context_.wake();
      return engine::Pull::kPending;
    }
    asked_ = false;
    if (at_ == items_->size()) return engine::Pull::kEnd;
    out = copy_of((*items_)[at_++]);
    if (pass_.repeated) out.lineage = engine::joined_lineage(2, {out.lineage, pass_.passes});
    return engine::Pull::kElement;
  }
  void save(Cursor& cursor) const override { cursor.numbers.push_back(at_); }
  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    begin(pass, static_cast<std::size_t>(cursor.number()));
  }

 private:
  void begin(const engine::Pass& pass, std::size_t at) {
    pass_ = pass;
    at_ = at;
    asked_ = false;
  }
  engine::StreamContext& context_;
  Items items_;
  Pending pending_;
  engine::Pass pass_;
  std::size_t at_ = 0;
  bool asked_ = false;
};

/// The next answer that is not kPending.
inline engine::Pull pull(StreamFixture& fixture, engine::Operator& root, engine::Element& out) {
  for (;;) {
    const std::uint64_t seen = fixture.wakes();
    const engine::Pull found = root.next(out);
    if (found != engine::Pull::kPending) return found;
    fixture.wait(seen);
  }
}

/// Everything up to the end of the pass.
inline std::vector<engine::Element> drain(StreamFixture& fixture, engine::Operator& root) {
  std::vector<engine::Element> all;
  engine::Element element;
  while (pull(fixture, root, element) == engine::Pull::kElement) {
    all.push_back(std::move(element));
    element = {};
  }
  return all;
}

/// All that can be seen of an element, as text: kind, fields with shapes and bytes, lineage, origins, failure.
inline std::string text(const engine::Element& element) {
  std::string out = element.is_value() ? "value" : element.kind == engine::Element::Kind::kError ? "error" : "skipped";
  for (std::size_t f = 0; f < element.sample.names().size(); ++f) {
    const Tensor& tensor = element.sample.tensors()[f];
    out += " " + element.sample.names()[f] + to_string(tensor.type()) + tensor.shape().to_string() + ":";
    for (std::size_t i = 0; i < tensor.size_bytes(); ++i) {
      out += std::to_string(static_cast<int>(tensor.data()[i])) + ",";
    }
  }
  out += " #" + std::to_string(element.lineage);
  const auto origins = [&](const std::vector<Origin>& list) {
    out += " <";
    for (const Origin& origin : list) out += std::to_string(origin.source) + "/" + std::to_string(origin.index) + " ";
    out += ">";
  };
  origins(element.origins);
  for (const auto& row : element.row_origins) origins(row);
  if (element.failure) out += " failed in " + element.failure->stage;
  return out;
}
inline std::vector<std::string> texts(const std::vector<engine::Element>& elements) {
  std::vector<std::string> all;
  for (const engine::Element& element : elements) all.push_back(text(element));
  return all;
}

/// Values of the scalar i64 field `field`; errors are -1, skipped ones -2.
inline std::vector<std::int64_t> numbers_of(const std::vector<engine::Element>& elements,
                                            const std::string& field = "x") {
  std::vector<std::int64_t> all;
  for (const engine::Element& element : elements) {
    all.push_back(!element.is_value() ? (element.kind == engine::Element::Kind::kError ? -1 : -2)
                                      : element.sample[field].view<std::int64_t>()[0]);
  }
  return all;
}

/// Makes the operator under test over inputs that answer as `Pending` says.
using MakeOperator = std::function<std::unique_ptr<engine::Operator>(engine::StreamContext& context, Pending pending)>;

/// The laws that hold for every operator: the same elements when each input is pending before each of its answers, when
/// a pass is started again, and when a fresh operator goes on from a state saved after any number of elements.
inline void expect_lawful(const MakeOperator& make, const engine::Pass& pass = {}) {
  StreamFixture fixture;
  std::unique_ptr<engine::Operator> plain = make(fixture.context, {});
  plain->start(pass);
  const std::vector<std::string> all = texts(drain(fixture, *plain));
  plain->start(pass);
  EXPECT_EQ(texts(drain(fixture, *plain)), all) << "started again";
  engine::Element none;
  EXPECT_EQ(pull(fixture, *plain, none), engine::Pull::kEnd) << "the end stays the end";

  for (const bool always : {false, true}) {
    const Pending pending{.always = always};
    std::unique_ptr<engine::Operator> saved = make(fixture.context, pending);
    saved->start(pass);
    for (std::size_t i = 0; i <= all.size(); ++i) {
      Cursor cursor;
      saved->save(cursor);
      if (cursor.unsaved_stage.empty()) {
        std::unique_ptr<engine::Operator> fresh = make(fixture.context, pending);
        engine::CursorReader reader(cursor);
        fresh->restore(pass, reader);
        EXPECT_TRUE(reader.at_end()) << "restore reads what save wrote, after " << i << " elements";
        EXPECT_EQ(texts(drain(fixture, *fresh)),
                  std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()))
            << "restored after " << i << " elements" << (always ? ", pending always" : "");
      }
      engine::Element element;
      const engine::Pull found = pull(fixture, *saved, element);
      ASSERT_EQ(found, i < all.size() ? engine::Pull::kElement : engine::Pull::kEnd) << i;
      if (found == engine::Pull::kElement) {
        EXPECT_EQ(text(element), all[i]) << (always ? "pending always" : "");
      }
    }
  }
  for (std::size_t before = 0; before <= all.size(); ++before) {
    std::unique_ptr<engine::Operator> once = make(fixture.context, {.before = {before}});
    once->start(pass);
    EXPECT_EQ(texts(drain(fixture, *once)), all) << "pending before answer " << before;
  }
}

}  // namespace penstock::test
