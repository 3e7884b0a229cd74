// Turns the elements of a stream into what `next()` hands out: batches, errors in their places, the ends of epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/batch_form.h>
#include <penstock/pipeline/engine/batch_state.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error_policy.h>

namespace penstock::engine {

/// One thing to be handed out: a batch, an error, or neither at the end of an epoch.
struct StreamResult {
  std::shared_ptr<Batch::State> batch;
  std::exception_ptr error;
  bool ends_stream = false;         ///< the error is thrown for ever
  bool closes_batch = false;        ///< one full-size batch is done with
  std::vector<SampleFault> faults;  ///< that are known of once this is handed out
};

/// What a batcher needs from the stream.
class BatcherHost {
 public:
  virtual ~BatcherHost() = default;
  /// Memory for the next batch; nothing: not now, the stream asks again.
  virtual std::optional<BatchLease> acquire(const BatchLayout& layout) = 0;
  virtual void deliver(std::vector<StreamResult> results) = 0;
  /// Appends where the operators stand.
  virtual void save(Cursor& cursor) const = 0;
};

/// Where a stream begins within an epoch, read from the front of a Cursor.
struct BatchStart {
  bool fresh = true;        ///< the operators start the pass; else they are restored from the rest of the cursor
  std::uint64_t index = 0;  ///< of the batch
  std::uint64_t slot = 0;   ///< rows delivered before that batch
  std::uint64_t again = 0;  ///< elements of the batch that are pulled again and dropped: they have been delivered
  static BatchStart read(CursorReader& cursor);
  void write(Cursor& cursor) const;
};

/// Batches are cut at errors as in every loader: the rows before as a short batch, the error, the rows after up to the
/// boundary. What follows a full batch is not known before the next element: with it the batch is delivered, so that
/// the last one of an epoch says that the next epoch follows. Used by one thread at a time.
class StreamBatcher {
 public:
  StreamBatcher(BatcherHost& host, const BatchForm& form, const ErrorPolicy& policy, std::uint64_t most_batch_bytes,
                std::shared_ptr<const std::vector<std::shared_ptr<const Source>>> sources,
                std::shared_ptr<const void> count)
      : host_(host),
        form_(form),
        policy_(policy),
        most_batch_bytes_(most_batch_bytes),
        sources_(std::move(sources)),
        count_(std::move(count)) {}

  /// `cursor`: where `start` was read from; null when it is fresh.
  void begin_epoch(std::uint64_t epoch, const BatchStart& start, std::shared_ptr<const Cursor> cursor);
  /// Takes the element; false: there is no memory for its batch now, call again with the same one.
  bool place(Element& element);
  /// The pass has ended; false: as `place`. Delivers what is left, but not the end itself.
  bool finish();
  /// Delivers what is there, and then `error` for ever.
  void fail_stream(std::exception_ptr error);
  /// The faults that follow the last batch.
  std::vector<SampleFault> take_faults() { return std::exchange(faults_, {}); }
  /// Nothing of this epoch has been delivered, although something had been before it was begun here.
  bool only_end_was_left() const noexcept { return resumed_ && !delivered_; }
  /// A batch has memory, or waits to be delivered.
  bool has_open_batch() const noexcept { return filling_.has_value(); }
  /// An error that ends the stream has been delivered.
  bool ended() const noexcept { return ended_; }

 private:
  struct RowError {
    std::size_t row;
    std::exception_ptr error;
  };
  struct Filling {
    std::shared_ptr<LentBlock> lent;  // null of a failed whole batch
    std::size_t first_row = 0;
    std::size_t end_row = 0;  // one past the last so far
    std::vector<RowError> errors;
    std::vector<SampleFault> faults;
    bool complete = false;
    std::uint64_t index = 0;
    std::uint64_t slot = 0;
    std::shared_ptr<const Cursor> before;  // null at the start of an epoch
    std::shared_ptr<const Cursor> after;   // of a complete one
  };

  bool place_row(Element& element);
  bool place_whole(Element& element);
  std::exception_ptr write_row(const Element& element, std::size_t row) const;
  std::shared_ptr<const BatchLayout> whole_layout(const Element& element);
  void skip(const Element& element);
  bool begin_batch(const std::shared_ptr<const BatchLayout>& layout);
  Filling describe_batch();
  void complete();
  void deliver(bool last);
  void zero_rows(std::size_t first);
  void set_origins(std::size_t row, const std::vector<Origin>& origins);
  std::exception_ptr error_of(const Element& element) const;
  const Source* source(std::uint32_t number) const noexcept;

  BatcherHost& host_;
  const BatchForm& form_;
  const ErrorPolicy policy_;
  const std::uint64_t most_batch_bytes_;
  const std::shared_ptr<const std::vector<std::shared_ptr<const Source>>> sources_;
  const std::shared_ptr<const void> count_;

  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;               // of the next batch to be begun
  std::uint64_t slot_ = 0;                // before it
  std::uint64_t elements_ = 0;            // of the epoch, before it
  std::shared_ptr<const Cursor> before_;  // likewise
  std::uint64_t again_ = 0;               // elements to be dropped
  std::size_t first_row_ = 0;             // of the next batch
  bool resumed_ = false;
  bool delivered_ = false;
  bool ended_ = false;
  std::optional<Filling> filling_;
  std::vector<SampleFault> faults_;  // since the last complete batch
  std::uint64_t failures_ = 0;       // skipped so far in this run
  std::shared_ptr<const BatchLayout> last_layout_;
};

}  // namespace penstock::engine
