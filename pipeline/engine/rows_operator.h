// Maps, filters and the cache run in parallel, over a source or over the operator below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>

#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/engine/rows_block.h>
#include <penstock/pipeline/engine/rows_program.h>

namespace penstock::engine {

/// Keeps a window of blocks in flight and gives their rows on in order. Dropped rows vanish. Saved is, of a leaf, the
/// slot of the next row; over an input, the input's cursor from before the oldest block, and how many of the elements
/// since have been given on.
class RowsOperator final : public Operator {
 public:
  /// Throws InvalidArgument when the budget cannot hold its guaranteed shares.
  RowsOperator(StreamContext& context, RowsProgram program, RowsSource source);
  RowsOperator(StreamContext& context, RowsProgram program, std::unique_ptr<Operator> input);
  ~RowsOperator() override;
  RowsOperator(const RowsOperator&) = delete;
  RowsOperator& operator=(const RowsOperator&) = delete;

  void start(const Pass& pass) override;
  Pull next(Element& out) override;
  void save(Cursor& cursor) const override;
  void restore(const Pass& pass, CursorReader& cursor) override;

 private:
  void begin(const Pass& pass);
  void drop_blocks();
  void fill();
  bool add_leaf_block(std::size_t most_rows);
  bool add_input_block(std::size_t most_rows);
  bool skip_again();
  bool take_from_front(Element& out);
  void pop_front();
  void send_front();
  void send_refused();
  bool launch(RowsBlock& block, bool single);
  void add(std::shared_ptr<RowsBlock> block);
  std::size_t rows_in_block();
  std::size_t most_rows() const;

  StreamContext& context_;
  std::unique_ptr<Operator> input_;
  std::shared_ptr<RowsWork> work_;

  Pass pass_;
  std::deque<std::shared_ptr<RowsBlock>> blocks_;  // oldest first
  std::size_t rows_ = 0;                           // of them
  std::size_t returned_ = 0;                       // of the oldest's
  std::size_t block_rows_ = 1;
  std::size_t rows_ahead_ = 0;  // what the budget has had room for lately
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_slot_ = 0;  // of a leaf's next block
  // Over an input.
  bool input_ended_ = false;
  std::exception_ptr input_error_;  // thrown once all before it has been given on
  Cursor restored_;                 // where it went on, while what had been given on is pulled again
  std::uint64_t skip_ = 0;
  std::uint64_t skip_left_ = 0;
};

}  // namespace penstock::engine
