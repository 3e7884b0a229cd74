// The sink keeps the bytes; a source that completes on a thread of its own is waited for.
#include <penstock/pipeline/report/read_sample.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/engine/aligned_memory.h>
#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/whole_file.h>

namespace penstock::report {
namespace {

class FilesHere final : public FileReader {
 public:
  void read_file(std::string path, Room room, Done done) override {
    const std::atomic<bool> cancelled{false};
    const io::ReadResult result = io::read_whole_file(path, room, cancelled);
    done(result.error, result.bytes);
  }
};

class OneSample final : public Sink {
 public:
  explicit OneSample(const Schema& schema) : schema_(schema), tensors_(schema.size()) {}

  std::byte* allocate(std::size_t field, const Shape& shape) override {
    if (field >= tensors_.size() || !shape.known()) {
      fail(std::make_exception_ptr(DataError(
          ErrorKind::kOther, "the source gave field " + std::to_string(field) + " the shape " + shape.to_string())));
      return nullptr;
    }
    const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * byte_size(schema_[field].type);
    std::shared_ptr<std::byte> memory = engine::make_aligned(bytes);
    std::byte* const data = memory.get();
    tensors_[field] = Tensor(schema_[field].type, shape, std::move(memory), data);
    return data;
  }
  void borrow(std::size_t field, const Shape& shape, const std::byte* data) override {
    const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * byte_size(schema_[field].type);
    tensors_[field] = Tensor::copy_of_bytes(schema_[field].type, shape, {data, bytes});
  }
  // The waiting thread may end this object as soon as it knows: what is told outlives it.
  void done() override { std::shared_ptr(ended_)->set_value(); }
  void fail(std::exception_ptr error) override { std::shared_ptr(ended_)->set_exception(std::move(error)); }

  Sample wait(Origin origin) {
    ended_->get_future().get();
    std::vector<std::string> names;
    for (const Field& field : schema_.fields()) names.push_back(field.name);
    return Sample(std::move(names), std::move(tensors_), origin);
  }

 private:
  const Schema& schema_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<std::promise<void>> ended_ = std::make_shared<std::promise<void>>();
};

}  // namespace

Sample read_sample_here(const Source& source, std::uint64_t index) {
  FilesHere files;
  OneSample sink(source.schema());
  source.read(index, sink, files);
  return sink.wait({0, index});
}

}  // namespace penstock::report
