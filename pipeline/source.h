// Where samples come from. Users write their own sources against this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <system_error>

#include <penstock/pipeline/sample.h>

namespace penstock {

/// Reads files without blocking a worker: the runtime's I/O threads do it.
class FileReader {
 public:
  virtual ~FileReader() = default;
  /// Reads the whole file. `room(bytes)` is asked once, on an I/O thread, when the size is known, and gives the memory
  /// to read into, or null to give up. `done(error, bytes)` is called exactly once, on an I/O thread; `error` is
  /// std::errc::operation_canceled after a null `room`. Neither may block or throw. Does not block.
  using Room = std::function<std::byte*(std::size_t bytes)>;
  using Done = std::function<void(std::error_code error, std::size_t bytes)>;
  virtual void read_file(std::string path, Room room, Done done) = 0;
};

/// Takes one sample from a source. Exactly one of `done`, `fail` is called, once, on any thread; all calls for one
/// sample come from one thread at a time. The sink outlives that call.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Room for a field's value; says its bytes before they are there. Null: no room now; return without calling anything
  /// more (the engine asks again later). Throws never. Memory is valid until `done` or `fail`, 64-byte aligned.
  virtual std::byte* allocate(std::size_t field, const Shape& shape) = 0;
  /// A value that already lies in memory and outlives the loader (a memory-mapped or resident source): not copied.
  virtual void borrow(std::size_t field, const Shape& shape, const std::byte* data) = 0;
  /// The sample is complete.
  virtual void done() = 0;
  /// The sample cannot be had; `error` is usually a DataError.
  virtual void fail(std::exception_ptr error) = 0;
};

/// A set of samples that is read by index. Immutable once opened; safe for concurrent use.
class Source {
 public:
  virtual ~Source() = default;
  /// Names, types and shapes of a sample's fields.
  virtual const Schema& schema() const = 0;
  /// Number of samples; nothing when it is not known (a stream).
  virtual std::optional<std::uint64_t> size() const = 0;
  /// Path, or shard and record, of a sample, for people.
  virtual std::string describe(std::uint64_t index) const = 0;
  /// Begins to read sample `index` into `sink`; may complete at once or later, on any thread. Never throws.
  virtual void read(std::uint64_t index, Sink& sink, FileReader& files) const = 0;
  /// Where the value of `field` of sample 0 lies, when those of all samples lie one after the other, each in the known
  /// shape of the schema, in memory that outlives the loader; otherwise null. Samples of a source all of whose fields
  /// are columns may be taken from there without `read`, which then never fails.
  virtual const std::byte* column(std::size_t /*field*/) const { return nullptr; }
  /// What the sample's value depends on, for cache keys: path, size, mtime in ns; or a content hash.
  virtual std::string fingerprint(std::uint64_t index) const = 0;
};

}  // namespace penstock
