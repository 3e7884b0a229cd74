// Samples of the order, several at a time, each in as many windows as it falls into.
#include <penstock/pipeline/pipeline.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/repeatable_input.h>
#include <penstock/pipeline/stage/stack.h>

namespace penstock {
namespace {

using engine::Charge;
using engine::Element;
using engine::Pass;
using engine::Pull;

constexpr std::uint64_t kKind = 0x5749;

/// A window as numbers of elements; `span` is from its first to one past its last.
struct Extent {
  std::uint64_t size;
  std::uint64_t shift;
  std::uint64_t stride;
  std::uint64_t span;
  bool keep_last;
};

/// Keeps the elements from the present window's first on that belong to any window. Saved are the number of the window
/// and the input's cursor at its first element.
class WindowOperator final : public engine::Operator {
 public:
  WindowOperator(engine::StreamContext& context, const Extent& extent, std::unique_ptr<engine::Operator> input)
      : context_(context), extent_(extent), stacker_(context, "window", kKind), input_(std::move(input)) {}
  ~WindowOperator() override { drop_all(); }

  void start(const Pass& pass) override {
    drop_all();
    window_ = 0;
    ended_ = false;
    input_.start(pass);
    base_ = marked_ = 0;
  }

  Pull next(Element& out) override {
    out = {};
    const std::uint64_t first = window_ * extent_.shift;
    while (!ended_ && input_.number() < first + extent_.span) {
      Element element;
      const Pull pull = input_.next(element);
      if (pull == Pull::kPending) return pull;
      if (pull == Pull::kEnd) {
        ended_ = true;
      } else if (element.kind == Element::Kind::kSkipped) {
        out = std::move(element);
        return pull;
      } else {
        take_in(std::move(element), input_.number() - 1);
      }
    }
    const std::uint64_t end = std::min(input_.number(), first + extent_.span);
    if (first >= end || (end < first + extent_.span && !extent_.keep_last)) return Pull::kEnd;
    if (!give(first, end, out)) return Pull::kPending;
    ++window_;
    drop_before(window_ * extent_.shift);
    return Pull::kElement;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.push_back(window_);
    input_.save(cursor, std::min(window_ * extent_.shift, input_.number()));
  }

  void restore(const Pass& pass, engine::CursorReader& cursor) override {
    drop_all();
    window_ = cursor.number();
    ended_ = false;
    input_.restore(pass, cursor);
    base_ = marked_ = input_.number();
  }

 private:
  // `held_[i]` is element `base_ + i`; one that belongs to no window leaves an empty place.
  void take_in(Element element, std::uint64_t number) {
    if (!in_a_window(number)) {
      element = {};
      element.kind = Element::Kind::kSkipped;
    }
    if (element.is_value()) context_.kept->keep(element, "window");
    held_.push_back(std::move(element));
    drop_before(window_ * extent_.shift);
    if (input_.number() % extent_.shift != 0 || input_.number() - marked_ < extent_.span) return;
    input_.mark();
    marked_ = input_.number();
  }

  bool in_a_window(std::uint64_t number) const {
    const std::uint64_t last = number / extent_.shift;
    const std::uint64_t lowest = number < extent_.span ? 0 : (number - extent_.span) / extent_.shift + 1;
    for (std::uint64_t window = std::max(lowest, window_); window <= last; ++window) {
      if ((number - window * extent_.shift) % extent_.stride == 0) return true;
    }
    return false;
  }

  bool give(std::uint64_t first, std::uint64_t end, Element& out) {
    std::vector<const Element*> members;
    for (std::uint64_t number = first; number < end; number += extent_.stride) {
      members.push_back(&held_[static_cast<std::size_t>(number - base_)]);
    }
    const auto failed = std::find_if(members.begin(), members.end(), [](const Element* e) { return !e->is_value(); });
    if (failed != members.end()) {
      out = stage::joined(kKind, members);
      out.kind = Element::Kind::kError;
      out.failure = (*failed)->failure;
      return true;
    }
    try {
      std::optional<Element> made = stacker_.stack(members, members.size());
      if (!made) return false;
      out = std::move(*made);
    } catch (...) {
      out = stage::failed_or_skipped(context_, stage::joined(kKind, members), "window", std::current_exception());
    }
    return true;
  }

  void drop_before(std::uint64_t number) {
    for (; base_ < number && !held_.empty(); ++base_) drop_first();
    if (held_.empty()) base_ = input_.number();
    input_.forget_before(number);
  }
  void drop_first() {
    if (held_.front().is_value()) context_.kept->give_on(held_.front(), Charge{});
    held_.pop_front();
  }
  void drop_all() {
    while (!held_.empty()) drop_first();
  }

  engine::StreamContext& context_;
  const Extent extent_;
  stage::Stacker stacker_;
  stage::RepeatableInput input_;
  std::deque<Element> held_;
  std::uint64_t base_ = 0;    // number of the first that is held
  std::uint64_t window_ = 0;  // the next to be given
  std::uint64_t marked_ = 0;
  bool ended_ = false;
};

Extent extent_of(const Window& window) {
  if (window.size == 0) throw InvalidArgument("window: a size of 0; at least 1 is needed");
  if (window.stride == 0) throw InvalidArgument("window: a stride of 0; at least 1 is needed");
  if (window.last != LastBatch::kKeep && window.last != LastBatch::kDrop) {
    throw InvalidArgument("window: windows that are not full are kept or dropped (LastBatch::kKeep, LastBatch::kDrop)");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  Extent extent{window.size, window.shift == 0 ? window.size : window.shift, window.stride, 0,
                window.last == LastBatch::kKeep};
  if (__builtin_mul_overflow(extent.size - 1, extent.stride, &extent.span) || extent.span >= kMost ||
      extent.shift > kMost) {
    throw InvalidArgument("window: it reaches over more than 4294967296 samples");
  }
  ++extent.span;
  return extent;
}

std::string text_of(const Extent& extent) {
  std::string text = "window(" + std::to_string(extent.size);
  if (extent.shift != extent.size) text += ", shift " + std::to_string(extent.shift);
  if (extent.stride != 1) text += ", stride " + std::to_string(extent.stride);
  return text + (extent.keep_last ? ", keep)" : ")");
}

}  // namespace

Pipeline Pipeline::window(Window window) const {
  const Extent extent = extent_of(window);
  Schema after =
      stage::stacked_schema("window", plan_->schemas.back(), stage::leading_dimension(window.size, window.last));
  StreamStage windows;
  windows.name = "window";
  windows.text = text_of(extent);
  windows.size = [extent](const std::vector<std::optional<std::uint64_t>>& inputs) -> std::optional<std::uint64_t> {
    if (!inputs[0]) return std::nullopt;
    if (extent.keep_last) return *inputs[0] / extent.shift + (*inputs[0] % extent.shift == 0 ? 0 : 1);
    return *inputs[0] < extent.span ? 0 : (*inputs[0] - extent.span) / extent.shift + 1;
  };
  windows.make = [extent](engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>> inputs) {
    return std::make_unique<WindowOperator>(context, extent, std::move(inputs.front()));
  };
  windows.keeps_elements = true;
  return with(std::make_shared<const StreamStage>(std::move(windows)), std::move(after));
}

}  // namespace penstock
