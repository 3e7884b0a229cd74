#include <penstock/pipeline/source/idx.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/pipeline/error.h>
#include <support/source_collect.h>
#include <support/source_idx_bytes.h>
#include <support/source_temp_folder.h>

namespace penstock {
namespace {

using test::collect;
using test::gzip_bytes;
using test::idx_bytes;
using test::pattern_bytes;
using test::source_error_of;
using test::TempFolder;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Ten pictures of 8 x 8 with labels 0 to 9.
class IdxTest : public testing::Test {
 protected:
  std::string write_images(const std::string& bytes) const { return folder_.write("images", bytes); }
  std::string write_labels(const std::string& bytes) const { return folder_.write("labels", bytes); }
  std::string error_of(const std::string& images, const std::string& labels, const IdxOptions& options = {}) const {
    return source_error_of([&] { idx_source(write_images(images), write_labels(labels), options); });
  }
  void expect_all_records(const Source& source) {
    ASSERT_EQ(source.size(), 10u);
    for (std::uint64_t i = 0; i < 10; ++i) {
      const auto sample = collect(source, i, files_);
      EXPECT_EQ(sample->bytes(0), pixels_.substr(i * 64, 64));
      EXPECT_EQ(sample->label(1), static_cast<std::int64_t>(i));
    }
  }

  TempFolder folder_;
  test::NoFiles files_;
  std::string pixels_ = pattern_bytes(640);
  std::string images_ = idx_bytes({10, 8, 8}, pixels_);
  std::string labels_ = idx_bytes({10}, std::string_view("\0\1\2\3\4\5\6\7\10\11", 10));
};

TEST_F(IdxTest, ReadsPlainFiles) {
  const auto source = idx_source(write_images(images_), write_labels(labels_), {.class_count = 10});
  EXPECT_EQ(source->schema().to_string(), "image: u8 [8, 8, 1], label: i64 []");
  expect_all_records(*source);
  EXPECT_EQ(source->describe(3), folder_.path("images") + ", record 3");
}

TEST_F(IdxTest, LendsItsMemoryAndCopiesNothing) {
  const auto source = idx_source(write_images(images_), write_labels(labels_));
  const auto first = collect(*source, 4, files_);
  const auto again = collect(*source, 4, files_);
  EXPECT_TRUE(first->value(0).borrowed);
  EXPECT_TRUE(first->value(1).borrowed);
  EXPECT_EQ(first->value(0).data, again->value(0).data);
}

TEST_F(IdxTest, ReadsGzipWhateverTheName) {
  expect_all_records(*idx_source(write_images(gzip_bytes(images_)), write_labels(gzip_bytes(labels_))));
}

TEST_F(IdxTest, ReadsSeveralGzipMembersAndPadding) {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{3}, std::size_t{16}, std::size_t{300}, images_.size()}) {
    const std::string_view whole = images_;
    const std::string packed = gzip_bytes(whole.substr(0, cut)) + gzip_bytes(whole.substr(cut));
    expect_all_records(*idx_source(write_images(packed + std::string(512, '\0')), write_labels(labels_)));
  }
}

TEST_F(IdxTest, ZeroRecordsAreADataSet) {
  const auto source = idx_source(write_images(idx_bytes({0, 8, 8}, "")), write_labels(idx_bytes({0}, "")));
  EXPECT_EQ(source->size(), 0u);
}

TEST_F(IdxTest, OneRecord) {
  const auto source = idx_source(write_images(idx_bytes({1, 1, 2}, "ab")), write_labels(idx_bytes({1}, "\7")));
  const auto sample = collect(*source, 0, files_);
  EXPECT_EQ(sample->value(0).shape, (Shape{1, 2, 1}));
  EXPECT_EQ(sample->bytes(0), "ab");
  EXPECT_EQ(sample->label(1), 7);
}

TEST_F(IdxTest, OtherRanksKeepTheirDimensions) {
  const std::string two = idx_bytes({2}, std::string_view("\1\0", 2));
  EXPECT_EQ(idx_source(write_images(idx_bytes({2, 3}, "abcdef")), write_labels(two))->schema()[0].shape, (Shape{3}));
  EXPECT_EQ(idx_source(write_images(idx_bytes({2, 1, 1, 3}, "abcdef")), write_labels(two))->schema()[0].shape,
            (Shape{1, 1, 3}));
}

TEST_F(IdxTest, LabelsAbove127StayPositive) {
  const auto source = idx_source(write_images(idx_bytes({1, 1, 1}, "x")), write_labels(idx_bytes({1}, "\xff")));
  EXPECT_EQ(collect(*source, 0, files_)->label(1), 255);
}

TEST_F(IdxTest, RefusesCutFile) {
  EXPECT_EQ(error_of(images_.substr(0, 496), labels_),
            "truncated: " + folder_.path("images") + ": expected 656 bytes, found 496");
}

TEST_F(IdxTest, RefusesEveryCutOfAPlainFile) {
  for (std::size_t length = 1; length < images_.size(); ++length) {
    const std::string error = error_of(images_.substr(0, length), labels_);
    ASSERT_THAT(error, StartsWith("truncated: ")) << length;
    ASSERT_THAT(error, EndsWith(" found " + std::to_string(length)));
  }
}

TEST_F(IdxTest, RefusesEveryCutOfAGzipFile) {
  const std::string packed = gzip_bytes(images_.substr(0, 100)) + gzip_bytes(images_.substr(100));
  for (std::size_t length = 1; length < packed.size(); ++length) {
    const std::string error = error_of(packed.substr(0, length), labels_);
    ASSERT_THAT(error, StartsWith("truncated: " + folder_.path("images"))) << length;
  }
  const std::size_t first_member = gzip_bytes(images_.substr(0, 100)).size();
  EXPECT_EQ(error_of(packed.substr(0, first_member), labels_),
            "truncated: " + folder_.path("images") + ": gzip data cut short: expected 656 bytes, found 100");
  EXPECT_EQ(error_of(packed.substr(0, packed.size() - 1), labels_),
            "truncated: " + folder_.path("images") + ": gzip data cut short: the checksum after 656 bytes is missing");
}

TEST_F(IdxTest, RefusesDamagedGzip) {
  std::string packed = gzip_bytes(images_);
  packed[packed.size() - 8] = static_cast<char>(packed[packed.size() - 8] ^ 1);
  EXPECT_EQ(error_of(packed, labels_), "corrupt: " + folder_.path("images") + ": gzip: incorrect data check");
  EXPECT_THAT(error_of(gzip_bytes(images_) + "rubbish", labels_), HasSubstr("gzip: incorrect header check"));
  EXPECT_THAT(error_of(gzip_bytes(images_) + std::string("\0x", 2), labels_),
              HasSubstr("gzip: bytes after the padding of the last member"));
}

TEST_F(IdxTest, RefusesTooLongFile) {
  EXPECT_EQ(error_of(images_ + "xyz", labels_),
            "corrupt: " + folder_.path("images") + ": expected 656 bytes, found 659");
  EXPECT_EQ(error_of(gzip_bytes(images_ + "x"), labels_),
            "corrupt: " + folder_.path("images") + ": expected 656 bytes, found more");
}

TEST_F(IdxTest, RefusesOtherMagic) {
  EXPECT_EQ(error_of(labels_ + std::string(700, '\0'), labels_),
            "bad_magic: " + folder_.path("images") + ": 0x00000801 where 0x00000803 is due");
  EXPECT_EQ(error_of(images_, images_),
            "bad_magic: " + folder_.path("labels") + ": 0x00000803 where 0x00000801 is due");
  std::string floats = images_;
  floats[2] = '\x0d';
  EXPECT_EQ(error_of(floats, labels_), "bad_magic: " + folder_.path("images") + ": 0x00000d03 where 0x00000803 is due");
  EXPECT_THAT(error_of("PK\3\4 and so on", labels_), HasSubstr("0x504b0304 where 0x00000803 is due"));
}

TEST_F(IdxTest, RefusesEmptyAndMissingFiles) {
  EXPECT_EQ(error_of("", labels_), "empty_file: " + folder_.path("images") + ": the file is empty");
  EXPECT_EQ(error_of(images_, ""), "empty_file: " + folder_.path("labels") + ": the file is empty");
  const std::string nothing = folder_.path("nothing");
  EXPECT_EQ(source_error_of([&] { idx_source(write_images(images_), nothing); }),
            "open_failed: " + nothing + ": ENOENT: No such file or directory");
  EXPECT_EQ(source_error_of([&] { idx_source(folder_.path(), nothing); }),
            "open_failed: " + folder_.path() + ": EISDIR: Is a directory");
}

TEST_F(IdxTest, RefusesOtherCounts) {
  EXPECT_EQ(
      error_of(images_, idx_bytes({9}, pattern_bytes(9))),
      "count_mismatch: " + folder_.path("images") + ": 10 images, 9 labels in \"" + folder_.path("labels") + "\"");
}

TEST_F(IdxTest, RefusesLabelOutOfRange) {
  EXPECT_EQ(error_of(images_, labels_, {.class_count = 8}),
            "label_out_of_range: " + folder_.path("labels") + ": record 8: label 8, 8 classes");
  EXPECT_EQ(error_of(images_, labels_, {.class_count = 9}),
            "label_out_of_range: " + folder_.path("labels") + ": record 9: label 9, 9 classes");
  EXPECT_EQ(error_of(images_, labels_, {.class_count = 10}), "");
  EXPECT_EQ(test::refusal_of([&] { idx_source("", "", {.class_count = 0}); }),
            "idx: class_count is 0, at least 1 is needed");
}

TEST_F(IdxTest, RefusesHeadersThatClaimTooMuch) {
  EXPECT_THAT(error_of(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "abc"), labels_),
              HasSubstr("corrupt: " + folder_.path("images") + ": the header claims more than 2^63 bytes"));
  EXPECT_THAT(error_of(idx_bytes({10, 0, 8}, ""), labels_), HasSubstr(": dimension 1 is 0"));
  // 4 TiB are claimed, neither plain nor gzip data may ask for them.
  const std::string lie = idx_bytes({1u << 20, 2048, 2048}, "abc");
  EXPECT_THAT(error_of(lie, labels_), EndsWith("expected 4398046511120 bytes, found 19"));
  EXPECT_THAT(error_of(gzip_bytes(lie), labels_), EndsWith("expected 4398046511120 bytes, found 19"));
}

TEST_F(IdxTest, MemoryGrowsWithDataThatShrankFarMoreThanUsual) {
  const std::string zeros(3'000'000, '\0');
  const auto source =
      idx_source(write_images(gzip_bytes(idx_bytes({3, 1000, 1000}, zeros))), write_labels(idx_bytes({3}, "\1\2\3")));
  EXPECT_EQ(collect(*source, 2, files_)->bytes(0), zeros.substr(0, 1'000'000));
}

TEST_F(IdxTest, FingerprintChangesWithRecordAndFile) {
  const auto source = idx_source(write_images(images_), write_labels(labels_));
  EXPECT_EQ(source->fingerprint(1), idx_source(folder_.path("images"), folder_.path("labels"))->fingerprint(1));
  EXPECT_NE(source->fingerprint(1), source->fingerprint(2));
  std::filesystem::last_write_time(folder_.path("images"),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_NE(source->fingerprint(1), idx_source(folder_.path("images"), folder_.path("labels"))->fingerprint(1));
}

TEST_F(IdxTest, MakesAPipeline) {
  const Pipeline pipeline = idx(write_images(images_), write_labels(labels_));
  EXPECT_EQ(pipeline.size(), 10u);
  EXPECT_EQ(pipeline.schema().to_string(), "image: u8 [8, 8, 1], label: i64 []");
}

// The Debian package dataset-fashion-mnist.
TEST(FashionMnistTest, OpensTheWholeDataSet) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  test::NoFiles files;
  for (const auto& [name, count] : {std::pair{"train", 60000u}, std::pair{"t10k", 10000u}}) {
    const auto source = idx_source(folder + name + "-images-idx3-ubyte.gz", folder + name + "-labels-idx1-ubyte.gz",
                                   {.class_count = 10});
    ASSERT_EQ(source->size(), count);
    std::array<unsigned, 10> counts{};
    for (std::uint64_t i = 0; i < count; ++i) ++counts[static_cast<std::size_t>(collect(*source, i, files)->label(1))];
    for (const unsigned of_class : counts) EXPECT_EQ(of_class, count / 10);
    EXPECT_EQ(collect(*source, count - 1, files)->bytes(0).size(), 784u);
  }
  EXPECT_EQ(collect(*idx_source(folder + "train-images-idx3-ubyte.gz", folder + "train-labels-idx1-ubyte.gz"), 0, files)
                ->label(1),
            9);
}

}  // namespace
}  // namespace penstock
