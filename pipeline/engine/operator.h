// How plans that are not flat run: a tree of operators, pulled from the root by one worker at a time. Maps run in
// parallel inside a RowsOperator; everything else is serial, so the order needs no thought.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline/batch.h>
#include <penstock/pipeline/engine/budget.h>
#include <penstock/pipeline/engine/stage_counter.h>
#include <penstock/pipeline/engine/work_queue.h>
#include <penstock/pipeline/sample.h>
#include <penstock/pipeline/source.h>

namespace penstock::engine {

class RuntimeState;
struct StreamContext;

/// What became of a sample that failed.
struct Failure {
  std::string stage;  ///< "read", or the name of the stage
  Origin origin;
  std::exception_ptr error;
};

/// What flows between operators. Moves only.
struct Element {
  enum class Kind : std::uint8_t {
    kValue,
    kError,    ///< takes the element's place: counted, numbered and batched like one, and passed on unchanged
    kSkipped,  ///< left out by the policy: every operator passes it on at once and counts it nowhere
  };
  Kind kind = Kind::kValue;
  /// Fields as the schema has them, in its order; of a batch: with the leading dimension. Empty unless kValue.
  Sample sample;
  /// Names the element among all of an epoch; `Draw` is keyed by it.
  std::uint64_t lineage = 0;
  /// The samples it was made from.
  std::vector<Origin> origins;
  /// Of a batch: the same for each row; else empty.
  std::vector<std::vector<Origin>> row_origins;
  std::shared_ptr<const Failure> failure;  ///< unless kValue
  Charge charge;                           ///< the sample's bytes, charged to the runtime's budget

  bool is_value() const noexcept { return kind == Kind::kValue; }
};

/// The epoch, and the passes of the repeats around an operator.
struct Pass {
  std::uint64_t epoch = 0;
  /// As order::Order mixes it: starts at 0; a repeat makes it mix_lineage(passes, number of the pass).
  std::uint64_t passes = 0;
  bool repeated = false;
};

/// Reads a Cursor from its beginning. Throws InvalidArgument when it is too short: a state of another plan.
class CursorReader {
 public:
  explicit CursorReader(const Cursor& cursor) : cursor_(cursor) {}
  std::uint64_t number();
  std::string text();
  bool at_end() const noexcept { return number_ == cursor_.numbers.size() && text_ == cursor_.texts.size(); }

 private:
  const Cursor& cursor_;
  std::size_t number_ = 0;
  std::size_t text_ = 0;
};

/// What `Operator::next` found.
enum class Pull : std::uint8_t {
  kElement,
  kEnd,      ///< the pass is over: it stays over until `start` or `restore`
  kPending,  ///< not yet: StreamContext::wake has been or will be called; ask again. Nothing is lost meanwhile
};

/// One stage at run time. Used by one thread at a time. It owns its inputs. `next` must be cheap but for the user's own
/// functions, and must never wait: an operator whose input is pending keeps what it has and returns kPending.
class Operator {
 public:
  virtual ~Operator() = default;
  /// Begins a pass; whatever was going on is dropped.
  virtual void start(const Pass& pass) = 0;
  /// The next element in order. What it throws ends the stream: `next()` of the loader throws it in its place, for
  /// ever. A fault of one sample is an Element of kError instead (`failed`).
  virtual Pull next(Element& out) = 0;
  /// Appends where it stands after the last element that `next` returned: its own numbers, then those of its inputs.
  virtual void save(Cursor& cursor) const = 0;
  /// Goes on with a pass from there: reads what `save` has appended.
  virtual void restore(const Pass& pass, CursorReader& cursor) = 0;
};

/// The one account of what stages keep, LoaderOptions::kept_bytes. How much is kept at each element depends on the
/// elements alone, so whether it is too much does not depend on timing. Used by the pulling thread.
class KeptBytes {
 public:
  /// `share` guarantees `limit` bytes.
  KeptBytes(std::shared_ptr<BudgetShare> share, std::uint64_t limit) : share_(std::move(share)), limit_(limit) {}
  /// Moves the element's charge here. Throws Error, naming `stage` and the sums, when all stages together would keep
  /// more than the limit.
  void keep(Element& element, const std::string& stage);
  /// The element is no longer kept; its charge becomes `charge`.
  void give_on(Element& element, Charge charge);
  std::uint64_t used() const noexcept { return used_; }

 private:
  std::shared_ptr<BudgetShare> share_;
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
};

/// Bytes for elements that an operator makes: a guaranteed share of one largest sample, and what is over. So the
/// operator that is needed next can always make one element, whatever all others hold.
class Producing {
 public:
  /// Throws InvalidArgument when the runtime's budget has no such share left.
  Producing(StreamContext& context, const std::string& stage);
  /// A charge of `bytes`; empty: no room now, the context wakes the stream when some comes back, return kPending.
  /// Throws DataError(kTooLarge) above LoaderOptions::max_sample_bytes.
  Charge charge(std::uint64_t bytes);
  /// Only what is over the guaranteed shares: for work ahead of what is needed next.
  Charge charge_ahead(std::uint64_t bytes);

 private:
  StreamContext& context_;
  std::shared_ptr<BudgetShare> share_;
};

/// What operators get from the stream they are part of. Outlives them.
struct StreamContext {
  RuntimeState& runtime;
  WorkLane& lane;
  std::uint64_t seed = 0;
  std::uint64_t max_sample_bytes = 0;
  bool skip_errors = false;  ///< the policy: RowsOperator turns kError into kSkipped
  /// Asks for another turn of the stream; from any thread, cheap, never runs anything itself.
  std::function<void()> wake = {};
  /// A charge was refused: `wake` when bytes come back.
  std::function<void()> wake_when_room = {};
  /// Makes `item` due on the lane and counts it until `finished`; false, and nothing happens, once the loader ends.
  /// What is due when it ends is run once more, maybe on the thread that ends it, with `stopped` set. From any thread.
  std::function<bool(WorkItem& item)> submit = {};
  /// The last thing that an item so submitted does: nothing of the stream may be touched after it. Copies of this
  /// function, of `wake` and of `submit` may be called even when the stream has gone.
  std::function<void()> finished = {};
  /// The loader ends: user functions are not begun any more.
  std::atomic<bool> stopped{false};
  /// Knobs, 0 for the engine's choice, and the most reads that were out at once.
  std::atomic<std::size_t> block_size{0};
  std::atomic<std::size_t> reads_in_flight{0};
  std::atomic<std::size_t> reads_most{0};
  /// Number of the next `Draw` stage, and of the next source, in the order in which operators are made.
  std::uint32_t draw_count = 0;
  std::uint32_t source_count = 0;
  std::uint32_t shuffle_count = 0;  ///< number of the next shuffle of a stream, likewise
  std::vector<std::shared_ptr<const Source>> sources = {};
  /// Null when no stage of the plan keeps elements.
  std::shared_ptr<KeptBytes> kept = {};
  /// The counter of a stage of the report, in the order of asking. Lives as long as the stream.
  std::function<StageCounter&(const std::string& stage)> counter = {};
};

/// The error element that takes the place of `of` when `stage` failed on it: lineage and origins stay.
Element failed(Element of, const std::string& stage, std::exception_ptr error);
/// Lineage of an element made from several: their lineages mixed in order, after `kind` (a constant of the stage).
std::uint64_t joined_lineage(std::uint64_t kind, const std::vector<std::uint64_t>& lineages) noexcept;

}  // namespace penstock::engine
