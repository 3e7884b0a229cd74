// Batches of samples of similar length.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/cursor_part.h>
#include <penstock/pipeline/stage/padding.h>
#include <penstock/pipeline/stage/stack.h>

namespace penstock {
namespace {

using engine::Charge;
using engine::Element;
using engine::Pass;
using engine::Pull;

constexpr std::uint64_t kKind = 0x424B;
// Waiting elements that are not further apart are pulled again together.
constexpr std::uint64_t kNear = 32;

/// An element in its bucket.
struct Waiting {
  std::uint64_t number = 0;              // among the input's elements
  std::shared_ptr<const Cursor> before;  // of the input, when this element was its next
  std::size_t bucket = 0;
  Element element;
};

/// Waiting elements that are pulled again together: the first is the cursor's next.
struct Run {
  Cursor cursor;
  std::vector<std::uint64_t> numbers;
};

/// What is to be pulled again after `restore`: all waiting elements; then the input goes on where it was.
struct Replay {
  std::vector<Run> runs;
  std::size_t run = 0;  // the present one
  std::size_t at = 0;   // of its numbers
  Cursor end;
  std::uint64_t end_number = 0;
};

void write(const std::vector<Run>& runs, const Cursor& end, std::uint64_t end_number, Cursor& cursor) {
  cursor.numbers.insert(cursor.numbers.end(), {end_number, runs.size()});
  for (const Run& run : runs) {
    cursor.numbers.push_back(run.numbers.size());
    cursor.numbers.insert(cursor.numbers.end(), run.numbers.begin(), run.numbers.end());
    stage::append_part(cursor, run.cursor);
  }
  stage::append_part(cursor, end);
}

/// A batch is given as soon as a bucket has its size; at the end of a pass what is left, by ascending bucket, or
/// nothing. Errors belong to no bucket and are passed on at once. Saved are the cursors of all waiting elements (of the
/// first, where several lie near each other), and the input's.
class BucketOperator final : public engine::Operator {
 public:
  BucketOperator(engine::StreamContext& context, Bucket options, Schema rows, std::vector<stage::RowShape> shapes,
                 std::unique_ptr<engine::Operator> input)
      : context_(context),
        options_(std::move(options)),
        rows_(std::move(rows)),
        shapes_(shapes),
        stacker_(context, "bucket", kKind, std::move(shapes)),
        input_(std::move(input)) {}
  ~BucketOperator() override { drop_all(); }

  void start(const Pass& pass) override {
    begin(pass);
    input_->start(pass);
    number_ = 0;
    note_place();
    note_given();
  }

  Pull next(Element& out) override {
    out = {};
    if (replay_ && !replay()) return Pull::kPending;
    while (true) {
      if (const std::optional<std::size_t> bucket = due_bucket()) return give(*bucket, out);
      if (ended_) return Pull::kEnd;
      Waiting next{number_, place_, 0, {}};
      const Pull pull = input_->next(next.element);
      if (pull == Pull::kPending) return pull;
      if (pull == Pull::kEnd) {
        ended_ = true;
        continue;
      }
      if (next.element.kind != Element::Kind::kSkipped) ++number_;
      note_place();
      if (next.element.is_value()) sort_in(next);
      if (!next.element.is_value()) {
        out = std::move(next.element);
        note_given();
        return Pull::kElement;
      }
      put(std::move(next));
    }
  }

  void save(Cursor& cursor) const override {
    if (replay_) {
      write(replay_->runs, replay_->end, replay_->end_number, cursor);
    } else {
      write(waiting_runs(), *given_place_, given_number_, cursor);
    }
  }

  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    begin(pass);
    Replay replay;
    replay.end_number = cursor.number();
    const std::uint64_t count = cursor.number();
    for (std::uint64_t i = 0; i < count; ++i) {
      Run run;
      run.numbers.resize(static_cast<std::size_t>(cursor.number()));
      for (std::uint64_t& number : run.numbers) number = cursor.number();
      run.cursor = stage::read_part(cursor);
      replay.runs.push_back(std::move(run));
    }
    replay.end = stage::read_part(cursor);
    replay_ = std::move(replay);
    begin_run();
  }

 private:
  void begin(const Pass& pass) {
    drop_all();
    pass_ = pass;
    counts_.assign(options_.batch_sizes.size(), 0);
    ended_ = false;
    replay_.reset();
  }
  void drop_all() {
    for (Waiting& waiting : waiting_) context_.kept->give_on(waiting.element, Charge{});
    waiting_.clear();
  }
  void note_place() {
    auto place = std::make_shared<Cursor>();
    input_->save(*place);
    place_ = std::move(place);
  }
  // What `save` describes.
  void note_given() {
    given_place_ = place_;
    given_number_ = number_;
  }

  // Finds the bucket, or makes an error of the element.
  void sort_in(Waiting& next) const {
    try {
      stage::require_room(rows_, shapes_, next.element.sample);
      const std::uint64_t length = options_.length(next.element.sample);
      const auto& bounds = options_.boundaries;
      next.bucket = static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), length) - bounds.begin());
    } catch (...) {
      next.element = stage::failed_or_skipped(context_, std::move(next.element), "bucket", std::current_exception());
    }
  }

  std::optional<std::size_t> due_bucket() const {
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      const bool rest = ended_ && options_.padded.last != LastBatch::kDrop && counts_[bucket] > 0;
      if (rest || counts_[bucket] >= options_.batch_sizes[bucket]) return bucket;
    }
    return std::nullopt;
  }

  Pull give(std::size_t bucket, Element& out) {
    std::vector<const Element*> rows;
    for (const Waiting& waiting : waiting_) {
      if (waiting.bucket == bucket) rows.push_back(&waiting.element);
    }
    try {
      std::optional<Element> made = stacker_.stack(rows, rows.size());
      if (!made) return Pull::kPending;
      out = std::move(*made);
    } catch (...) {
      out = stage::failed_or_skipped(context_, stage::joined(kKind, rows), "bucket", std::current_exception());
    }
    std::deque<Waiting> others;
    for (Waiting& waiting : waiting_) {
      if (waiting.bucket == bucket) {
        context_.kept->give_on(waiting.element, Charge{});
      } else {
        others.push_back(std::move(waiting));
      }
    }
    waiting_.swap(others);
    counts_[bucket] = 0;
    note_given();
    return Pull::kElement;
  }

  std::vector<Run> waiting_runs() const {
    std::vector<Run> runs;
    for (const Waiting& waiting : waiting_) {
      if (waiting.number >= given_number_) break;
      if (runs.empty() || waiting.number - runs.back().numbers.back() > kNear) runs.push_back({*waiting.before, {}});
      runs.back().numbers.push_back(waiting.number);
    }
    return runs;
  }

  // Puts the input to the present run, or to the end.
  void begin_run() {
    replay_->at = 0;
    const bool last = replay_->run == replay_->runs.size();
    const Cursor& cursor = last ? replay_->end : replay_->runs[replay_->run].cursor;
    engine::CursorReader reader(cursor);
    input_->restore(pass_, reader);
    number_ = last ? replay_->end_number : replay_->runs[replay_->run].numbers.front();
    note_place();
    if (!last) return;
    note_given();
    replay_.reset();
  }

  // True when all waiting elements are there again.
  bool replay() {
    while (replay_) {
      Waiting next{number_, place_, 0, {}};
      const Pull pull = input_->next(next.element);
      if (pull == Pull::kPending) return false;
      const Run& run = replay_->runs[replay_->run];
      if (pull == Pull::kEnd) throw InvalidArgument("bucket: a sample that waited at this state is no longer there");
      if (next.element.kind == Element::Kind::kSkipped) continue;
      ++number_;
      note_place();
      if (next.number != run.numbers[replay_->at]) continue;
      if (next.element.is_value()) sort_in(next);
      if (next.element.is_value()) put(std::move(next));
      if (++replay_->at < run.numbers.size()) continue;
      ++replay_->run;
      begin_run();
    }
    return true;
  }

  void put(Waiting waiting) {
    context_.kept->keep(waiting.element, "bucket");
    ++counts_[waiting.bucket];
    waiting_.push_back(std::move(waiting));
  }

  engine::StreamContext& context_;
  const Bucket options_;
  const Schema rows_;
  const std::vector<stage::RowShape> shapes_;
  stage::Stacker stacker_;
  std::unique_ptr<engine::Operator> input_;
  Pass pass_;
  std::deque<Waiting> waiting_;      // by number
  std::vector<std::size_t> counts_;  // of each bucket
  std::uint64_t number_ = 0;         // of the input's next element
  std::shared_ptr<const Cursor> place_;
  std::uint64_t given_number_ = 0;
  std::shared_ptr<const Cursor> given_place_;
  bool ended_ = false;
  std::optional<Replay> replay_;
};

void require_bounds(const Bucket& bucket) {
  if (!bucket.length) throw InvalidArgument("bucket: length is no function");
  if (bucket.batch_sizes.size() != bucket.boundaries.size() + 1) {
    throw InvalidArgument("bucket: " + std::to_string(bucket.batch_sizes.size()) + " batch sizes for " +
                          std::to_string(bucket.boundaries.size()) + " boundaries; one more than boundaries is needed");
  }
  for (const std::size_t size : bucket.batch_sizes) {
    if (size == 0) throw InvalidArgument("bucket: a batch size of 0; at least 1 is needed");
  }
  for (std::size_t i = 1; i < bucket.boundaries.size(); ++i) {
    if (bucket.boundaries[i] > bucket.boundaries[i - 1]) continue;
    throw InvalidArgument("bucket: boundary " + std::to_string(bucket.boundaries[i]) + " after " +
                          std::to_string(bucket.boundaries[i - 1]) + "; boundaries must rise");
  }
  if (bucket.padded.last != LastBatch::kKeep && bucket.padded.last != LastBatch::kDrop) {
    throw InvalidArgument(
        "bucket: what is left in the buckets is kept or dropped (LastBatch::kKeep, LastBatch::kDrop)");
  }
}

std::string text_of(const Bucket& bucket) {
  std::string text = "bucket(";
  for (std::size_t i = 0; i < bucket.batch_sizes.size(); ++i) {
    text += std::to_string(bucket.batch_sizes[i]);
    if (i < bucket.boundaries.size()) text += " below " + std::to_string(bucket.boundaries[i]) + ", ";
  }
  return text + (bucket.padded.last == LastBatch::kDrop ? ", drop)" : ")");
}

}  // namespace

Pipeline Pipeline::bucket(Bucket bucket) const {
  require_bounds(bucket);
  const Schema& rows = plan_->schemas.back();
  std::vector<stage::RowShape> shapes = stage::padded_rows("bucket", rows, bucket.padded);
  Schema after = stage::stacked_schema("bucket", stage::padded_schema(rows, shapes), Shape::kUnknown);
  StreamStage buckets;
  buckets.name = "bucket";
  buckets.text = text_of(bucket);
  buckets.size = [](const std::vector<std::optional<std::uint64_t>>&) { return std::optional<std::uint64_t>(); };
  buckets.make = [bucket = std::move(bucket), rows, shapes = std::move(shapes)](
                     engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<BucketOperator>(context, bucket, rows, shapes, std::move(inputs.front()));
  };
  buckets.keeps_elements = true;
  buckets.batch_depth = 1;
  return with(std::make_shared<const StreamStage>(std::move(buckets)), std::move(after));
}

}  // namespace penstock
