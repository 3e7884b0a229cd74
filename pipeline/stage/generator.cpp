// Samples that a user's function makes out of nothing.
#include <penstock/pipeline/pipeline.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/draw.h>
#include <penstock/pipeline/engine/failure_text.h>
#include <penstock/pipeline/engine/operator.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/stage/output_fields.h>
#include <penstock/pipeline/stage/stack.h>
#include <penstock/pipeline/stage/user_call.h>

namespace penstock {
namespace {

using engine::Element;
using engine::Pull;

/// Stands for the function where samples are told by source and index: sample i is the i-th of an epoch.
class GeneratedSource final : public Source {
 public:
  GeneratedSource(std::string name, Schema schema) : name_(std::move(name)), schema_(std::move(schema)) {}
  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  std::string describe(std::uint64_t index) const override { return name_ + "[" + std::to_string(index) + "]"; }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    sink.fail(std::make_exception_ptr(DataError(ErrorKind::kOther, describe(index) + " cannot be read by its index")));
  }
  std::string fingerprint(std::uint64_t index) const override { return describe(index); }

 private:
  const std::string name_;
  const Schema schema_;
};

struct Generated {
  Schema schema;
  std::function<SampleRange(std::uint64_t epoch)> make;
  GeneratorOptions options;
};

/// Saved as [samples returned, how it stands, samples to pass over], and the range's text while it runs. The text is
/// that of the present, or, while a sample waits for memory, one from up to kTextEvery samples before.
class GeneratorOperator final : public engine::Operator {
 public:
  GeneratorOperator(engine::StreamContext& context, Generated generated)
      : context_(context),
        generated_(std::move(generated)),
        ordinal_(context.source_count++),
        counter_(context.counter(generated_.options.name)),
        producing_(context, generated_.options.name) {
    context.sources.push_back(std::make_shared<GeneratedSource>(generated_.options.name, generated_.schema));
  }

  void start(const engine::Pass& pass) override { begin(pass, Stand::kFresh, 0); }

  Pull next(Element& out) override {
    out = {};  // its bytes may be those that are needed here
    if (stand_ == Stand::kFresh) open([this] { return generated_.make(pass_.epoch); });
    if (!sample_ && !error_) {
      if (stand_ == Stand::kOver) return Pull::kEnd;
      if (!make()) return Pull::kEnd;
    }
    out = numbered();
    if (sample_) {
      const std::uint64_t bytes = sample_->size_bytes();
      try {
        out.charge = producing_.charge(bytes);
        if (!out.charge) return Pull::kPending;
        out.sample = std::move(*sample_);
        counter_.add(1, {}, bytes);
      } catch (...) {
        error_ = std::current_exception();
      }
      sample_.reset();
    }
    if (error_) {
      out = stage::failed_or_skipped(context_, std::move(out), generated_.options.name, std::exchange(error_, nullptr));
    }
    ++returned_;
    ++since_text_;
    return Pull::kElement;
  }

  void save(Cursor& cursor) const override {
    cursor.numbers.insert(cursor.numbers.end(),
                          {returned_, static_cast<std::uint64_t>(stand_), sample_ ? since_text_ : std::uint64_t{0}});
    if (stand_ != Stand::kRunning) return;
    std::string failure;
    const std::optional<std::string> text = sample_ ? text_ : range_text(failure);
    if (text) {
      cursor.texts.push_back(*text);
    } else {
      cursor.unsaved_stage = generated_.options.name + failure;
    }
  }

  void restore(const engine::Pass& pass, engine::CursorReader& cursor) override {
    const std::uint64_t returned = cursor.number();
    const std::uint64_t stand = cursor.number();
    std::uint64_t pass_over = cursor.number();
    if (stand > static_cast<std::uint64_t>(Stand::kOver)) {
      throw InvalidArgument(generated_.options.name + ": the state is that of another plan");
    }
    begin(pass, static_cast<Stand>(stand), returned);
    if (stand_ != Stand::kRunning) return;
    const std::string text = cursor.text();
    if (!generated_.options.restore) {
      throw InvalidArgument(generated_.options.name +
                            ": its state cannot be restored without GeneratorOptions::restore");
    }
    range_ = generated_.options.restore(pass.epoch, text);
    for (; pass_over > 0; --pass_over) {
      static_cast<void>(make());
      sample_.reset();
      error_ = nullptr;
    }
    text_.reset();
  }

 private:
  enum class Stand : std::uint8_t { kFresh, kRunning, kOver };
  static constexpr std::uint64_t kTextEvery = 32;

  void begin(const engine::Pass& pass, Stand stand, std::uint64_t returned) {
    pass_ = pass;
    stand_ = stand;
    returned_ = returned;
    range_ = SampleRange();
    sample_.reset();
    error_ = nullptr;
    text_.reset();
    since_text_ = 0;
  }

  std::optional<std::string> range_text(std::string& failure) const {
    if (!generated_.options.restore || !range_.can_save()) return std::nullopt;
    try {
      return range_.save();
    } catch (...) {
      failure = " (its save failed: " + engine::failure_text(std::current_exception()).detail + ")";
      return std::nullopt;
    }
  }

  void close() {
    stand_ = Stand::kOver;
    range_ = SampleRange();
  }

  template <class F>
  void open(const F& make_range) {
    const stage::UserCall call(counter_);
    try {
      range_ = make_range();
      stand_ = Stand::kRunning;
    } catch (...) {
      error_ = std::current_exception();
      close();
    }
  }

  // The next sample or error; false at the end.
  bool make() {
    const stage::UserCall call(counter_);
    if (!text_ || since_text_ == kTextEvery) {
      std::string failure;
      text_ = range_text(failure);
      since_text_ = 0;
    }
    try {
      sample_ = range_.next();
    } catch (...) {
      error_ = std::current_exception();
    }
    if (!sample_) {
      close();
      return error_ != nullptr;
    }
    try {
      sample_ = stage::conforming(*sample_, generated_.schema, Origin{ordinal_, returned_});
    } catch (...) {
      sample_.reset();
      error_ = std::current_exception();
    }
    return true;
  }

  // Lineage and origin of the next element.
  Element numbered() const {
    Element element;
    element.lineage = mix_lineage(mix_lineage(ordinal_, 0x5352), returned_);
    if (pass_.repeated) element.lineage = mix_lineage(element.lineage, pass_.passes);
    element.origins = {{ordinal_, returned_}};
    return element;
  }

  engine::StreamContext& context_;
  const Generated generated_;
  const std::uint32_t ordinal_;
  engine::StageCounter& counter_;
  engine::Producing producing_;
  engine::Pass pass_;
  Stand stand_ = Stand::kOver;
  std::uint64_t returned_ = 0;
  SampleRange range_;
  // The next element, from when it is made until it is returned: one of the two.
  std::optional<Sample> sample_;
  std::exception_ptr error_;
  std::optional<std::string> text_;  // of the range ...
  std::uint64_t since_text_ = 0;     // so many elements ago
};

}  // namespace

Pipeline generator(const Schema& schema, std::function<SampleRange(std::uint64_t epoch)> make,
                   GeneratorOptions options) {
  if (options.name.empty()) throw InvalidArgument("generator: a stage without a name");
  if (!make) throw InvalidArgument(options.name + ": a stage without a function");
  if (schema.size() == 0) throw InvalidArgument(options.name + ": a schema without fields");
  StreamStage stage;
  stage.name = options.name;
  stage.text = options.name;
  stage.size = [size = options.size](const auto&) { return size; };
  stage.make = [generated = Generated{schema, std::move(make), std::move(options)}](
                   engine::StreamContext& context, std::vector<std::unique_ptr<engine::Operator>>) {
    return std::make_unique<GeneratorOperator>(context, generated);
  };
  stage.random = true;
  return Pipeline::beginning(std::move(stage), {}, schema);
}

}  // namespace penstock
