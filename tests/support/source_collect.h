// Reads samples from a source the way the engine does, and waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/source.h>

namespace penstock::test {

/// Keeps what a source gives for one sample. The room is exactly as large as asked for, so a sanitizer sees one byte
/// more.
class CollectingSink final : public Sink {
 public:
  struct Value {
    Shape shape;
    const std::byte* data = nullptr;
    bool borrowed = false;
  };

  explicit CollectingSink(const Schema& schema) : schema_(schema), values_(schema.size()) {}

  std::byte* allocate(std::size_t field, const Shape& shape) override {
    if (refuse_room_) {
      refused_.set_value();
      return nullptr;
    }
    const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * byte_size(schema_[field].type);
    rooms_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), &std::free);
    values_[field] = {shape, rooms_.back().get(), false};
    return rooms_.back().get();
  }
  void borrow(std::size_t field, const Shape& shape, const std::byte* data) override {
    values_[field] = {shape, data, true};
  }
  void done() override {
    ++ends_;
    end_.set_value();
  }
  void fail(std::exception_ptr error) override {
    ++ends_;
    error_ = std::move(error);
    end_.set_value();
  }

  /// From now on there is no room.
  void refuse_room() { refuse_room_ = true; }
  void wait_refused() { refused_.get_future().wait(); }
  /// Waits for the sample; rethrows what the source said instead.
  void wait() {
    end_.get_future().wait();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  int ends() const { return ends_; }
  const Value& value(std::size_t field) const { return values_[field]; }
  std::string bytes(std::size_t field) const {
    const std::size_t count =
        static_cast<std::size_t>(values_[field].shape.element_count()) * byte_size(schema_[field].type);
    return {reinterpret_cast<const char*>(values_[field].data), count};
  }
  std::int64_t label(std::size_t field) const {
    std::int64_t value = 0;
    std::memcpy(&value, values_[field].data, sizeof value);
    return value;
  }

 private:
  const Schema& schema_;
  std::vector<Value> values_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> rooms_;
  std::exception_ptr error_;  // moved, not shared: TSan cannot see libstdc++ count its references
  std::promise<void> end_;
  std::promise<void> refused_;
  bool refuse_room_ = false;
  int ends_ = 0;
};

/// For sources that need no files.
class NoFiles final : public FileReader {
 public:
  void read_file(std::string, Room, Done done) override { done(std::make_error_code(std::errc::not_supported), 0); }
};

/// The sample, or the error thrown.
inline std::unique_ptr<CollectingSink> collect(const Source& source, std::uint64_t index, FileReader& files) {
  auto sink = std::make_unique<CollectingSink>(source.schema());
  source.read(index, *sink, files);
  sink->wait();
  return sink;
}

/// Kind and text of the SourceError that `function` throws, as `kind: text`; empty when it throws nothing.
template <class F>
std::string source_error_of(F function) {
  try {
    function();
  } catch (const SourceError& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return {};
}

/// The same for a DataError.
template <class F>
std::string data_error_of(F function) {
  try {
    function();
  } catch (const DataError& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return {};
}

/// Text of the InvalidArgument that `function` throws; empty when it throws nothing.
template <class F>
std::string refusal_of(F function) {
  try {
    function();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

}  // namespace penstock::test
