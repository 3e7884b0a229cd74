// Everything is resident and checked when the source is opened, so that a sample is two borrowed pointers.
#include <penstock/pipeline/source/idx.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/source/idx_file.h>

namespace penstock {
namespace {

constexpr std::size_t kImage = 0;
constexpr std::size_t kLabel = 1;

class IdxSource final : public Source {
 public:
  IdxSource(std::string path, source::IdxFile images, std::vector<std::int64_t> labels, std::string stamp)
      : path_(std::move(path)),
        images_(std::move(images.bytes)),
        labels_(std::move(labels)),
        image_shape_(shape_of(images.dims)),
        image_bytes_(static_cast<std::size_t>(image_shape_.element_count())),
        stamp_(std::move(stamp)),
        schema_({{"image", DataType::kU8, image_shape_}, {"label", DataType::kI64, Shape{}}}) {}

  const Schema& schema() const override { return schema_; }
  std::optional<std::uint64_t> size() const override { return labels_.size(); }
  std::string describe(std::uint64_t index) const override { return path_ + ", record " + std::to_string(index); }
  void read(std::uint64_t index, Sink& sink, FileReader&) const override {
    sink.borrow(kImage, image_shape_, images_.data() + index * image_bytes_);
    sink.borrow(kLabel, Shape{}, reinterpret_cast<const std::byte*>(&labels_[index]));
    sink.done();
  }
  const std::byte* column(std::size_t field) const override {
    return field == kImage ? images_.data() : reinterpret_cast<const std::byte*>(labels_.data());
  }
  std::string fingerprint(std::uint64_t index) const override { return stamp_ + std::to_string(index); }

 private:
  static Shape shape_of(const std::vector<std::int64_t>& dims) {
    if (dims.size() == 3) return {dims[1], dims[2], 1};
    return Shape(std::span(dims).subspan(1));
  }

  std::string path_;
  std::vector<std::byte> images_;
  std::vector<std::int64_t> labels_;
  Shape image_shape_;
  std::size_t image_bytes_;
  std::string stamp_;
  Schema schema_;
};

std::vector<std::int64_t> widen(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> labels(bytes.size());
  std::ranges::transform(bytes, labels.begin(), [](std::byte byte) { return std::to_integer<std::int64_t>(byte); });
  return labels;
}

}  // namespace

std::shared_ptr<const Source> idx_source(const std::string& images_path, const std::string& labels_path,
                                         const IdxOptions& options) {
  if (options.class_count && *options.class_count < 1) {
    throw InvalidArgument("idx: class_count is " + std::to_string(*options.class_count) + ", at least 1 is needed");
  }
  source::IdxFile images = source::read_idx_file(images_path, source::IdxContent::kImages);
  const source::IdxFile labels_file = source::read_idx_file(labels_path, source::IdxContent::kLabels);
  if (images.dims[0] != labels_file.dims[0]) {
    throw SourceError(ErrorKind::kCountMismatch, images_path,
                      std::to_string(images.dims[0]) + " images, " + std::to_string(labels_file.dims[0]) +
                          " labels in \"" + labels_path + "\"");
  }
  std::vector<std::int64_t> labels = widen(labels_file.bytes);
  if (options.class_count) {
    const auto bad = std::ranges::find_if(labels, [&](std::int64_t label) { return label >= *options.class_count; });
    if (bad != labels.end()) {
      throw SourceError(ErrorKind::kLabelOutOfRange, labels_path,
                        "record " + std::to_string(bad - labels.begin()) + ": label " + std::to_string(*bad) + ", " +
                            std::to_string(*options.class_count) + " classes");
    }
  }
  std::string stamp = "idx:" + images.stamp + ":" + labels_file.stamp + ":";
  return std::make_shared<IdxSource>(images_path, std::move(images), std::move(labels), std::move(stamp));
}

Pipeline idx(const std::string& images_path, const std::string& labels_path, const IdxOptions& options) {
  return Pipeline(idx_source(images_path, labels_path, options));
}

}  // namespace penstock
