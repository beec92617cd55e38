#include "model/gguf/parts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "model/gguf/manifest.h"
#include "model/gguf/writer.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "tests/tools/parts_writer.h"
#include "tests/unit/model/raw_gguf.h"

namespace hearth::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kU16 = 2;
constexpr std::uint32_t kI32 = 5;
constexpr std::uint32_t kFloat = 0;  // ggml_type

using File = std::shared_ptr<const GgufFile>;

std::string refusal(const Result<File>& file) {
  return file.ok() ? std::string() : file.error().message;
}

void expect_refused(const Result<File>& file, std::string_view says) {
  EXPECT_FALSE(file.ok()) << says;
  EXPECT_NE(refusal(file).find(says), std::string::npos) << refusal(file);
}

TEST(PartName, IsTheEndOfAPathWithFiveDigits) {
  const auto name = part_name("dir/My-Model-Q4_K_M-00002-of-00011.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "dir/My-Model-Q4_K_M");
  EXPECT_EQ(name->place, (PartPlace{2, 11}));
  EXPECT_EQ(name->of(1), "dir/My-Model-Q4_K_M-00001-of-00011.gguf");
  for (const char* other :
       {"m.gguf", "m-0001-of-00002.gguf", "m-00001-of-00002.bin", "m-00003-of-00002.gguf",
        "m-00000-of-00002.gguf", "m-00001-of-00257.gguf", "m-0000x-of-00002.gguf",
        "m-00001-of--0002.gguf", "-00001-of-00002.gguf", "m-00001_of-00002.gguf", ""}) {
    EXPECT_FALSE(part_name(other)) << other;
    EXPECT_EQ(all_parts(other), std::vector<std::string>{other});
  }
  EXPECT_EQ(all_parts("m-00001-of-00002.gguf"),
            (std::vector<std::string>{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}));
  EXPECT_EQ(all_parts("m-00002-of-00002.gguf"), std::vector<std::string>{"m-00002-of-00002.gguf"})
      << "only the first names all";
}

struct PartsTest : ::testing::Test {
  PartsTest() {
    std::string name = (fs::temp_directory_path() / "hearth-parts-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  ~PartsTest() override { fs::remove_all(folder); }

  std::string path(std::uint32_t number, std::uint32_t count = 3) const {
    return PartName{(folder / "m").string(), {number, count}}.of(number);
  }
  static File parsed(ByteSpan bytes, std::string name = "part") {
    return GgufFile::parse_part(bytes, bytes.size(), std::move(name)).value();
  }
  static std::vector<File> parsed(const std::vector<Bytes>& parts) {
    std::vector<File> files;
    for (const Bytes& part : parts) files.push_back(parsed(part));
    return files;
  }
  // A part without anything but what says which it is, and tensors of 32 bytes.
  static Bytes raw(std::uint32_t number, std::uint32_t count, std::int32_t all,
                   const std::vector<std::string>& tensors) {
    RawGguf raw;
    raw.header(tensors.size(), 3);
    raw.key("split.no", kU16).put(static_cast<std::uint16_t>(number - 1));
    raw.key("split.count", kU16).put(static_cast<std::uint16_t>(count));
    raw.key("split.tensors.count", kI32).put(all);
    for (std::size_t i = 0; i < tensors.size(); ++i) raw.tensor(tensors[i], {8}, kFloat, 32 * i);
    return raw.data(32 * tensors.size()).bytes();
  }
  static Result<File> joined(const std::vector<Bytes>& parts) { return join_parts(parsed(parts)); }
  void write(const std::string& to, const Bytes& bytes) const {
    std::ofstream out(to, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }

  SyntheticOptions options;
  fs::path folder;
};

// The model in parts is the one file: by header, fingerprint, offsets, bytes and manifest.
TEST_F(PartsTest, PartsAreTheFileThatTheyWereMadeFrom) {
  const Bytes whole = synthetic_model_bytes(options).value();
  const File file = GgufFile::parse(whole, "whole").value();
  const Manifest manifest = make_manifest(*file, {}).value();
  for (const bool bare_first : {false, true}) {
    for (const std::uint32_t count : {2U, 3U, 7U}) {
      fs::remove_all(folder);
      fs::create_directories(folder);
      const auto first =
          write_synthetic_parts((folder / "m.gguf").string(), options, count, bare_first);
      ASSERT_TRUE(first.ok()) << first.error().message;
      EXPECT_EQ(*first, path(1, count));
      EXPECT_EQ(all_parts(*first).size(), count);
      const auto opened = GgufFile::open(*first);
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      const GgufFile& parts = **opened;
      EXPECT_EQ(parts.path(), *first);
      EXPECT_EQ(parts.parts().size(), count);
      EXPECT_EQ(parts.parts().front()->tensors().empty(), bare_first);
      EXPECT_EQ(parts.mapped().size(), count);
      EXPECT_EQ(parts.file_bytes(), whole.size());
      EXPECT_TRUE(std::ranges::equal(parts.header(), file->header()));
      EXPECT_EQ(parts.fingerprint(), file->fingerprint());
      EXPECT_EQ(parts.keys(), file->keys());
      EXPECT_EQ(parts.find("split.count"), nullptr);
      ASSERT_EQ(parts.tensors().size(), file->tensors().size());
      for (std::size_t i = 0; i < parts.tensors().size(); ++i) {
        const TensorInfo& tensor = parts.tensors()[i];
        EXPECT_EQ(tensor.name, file->tensors()[i].name);
        EXPECT_EQ(tensor.offset, file->tensors()[i].offset);
        EXPECT_TRUE(
            std::ranges::equal(parts.tensor_bytes(tensor), file->tensor_bytes(file->tensors()[i])));
      }
      EXPECT_EQ(make_manifest(parts, {}).value(), manifest);
      EXPECT_TRUE(ModelSpec::read(parts).ok());
    }
  }
}

// gguf's Python writer puts the keys elsewhere, and a file's own alignment holds for all parts.
TEST_F(PartsTest, TheKeysMayStandAnywhereAndTheAlignmentIsThatOfTheFile) {
  const auto source = [](std::uint64_t row, MutableByteSpan out) -> Status {
    std::ranges::fill(out, static_cast<std::byte>(row + 1));
    return ok_status();
  };
  const auto fill = [&](GgufWriter& writer) {
    writer.add("b", std::uint32_t{2});
    for (const char* name : {"x", "y", "z"}) {
      writer.add_tensor(name, TensorType::kF32, {3, 5}, source);
    }
  };
  GgufWriter plain(128);
  fill(plain);
  const Bytes whole = plain.bytes().value();
  const std::vector<GgufWriter> writers = PartsWriter(plain).split(3, false).value();
  std::vector<Bytes> parts;
  for (const GgufWriter& part : writers) {
    parts.push_back(part.bytes().value());
  }
  // The first part again, with the keys in front of all others.
  GgufWriter first(128);
  first.add("split.count", std::uint16_t{3});
  first.add("split.tensors.count", std::int32_t{3});
  first.add("split.no", std::uint16_t{0});
  first.add("b", std::uint32_t{2});
  first.add_tensor("x", TensorType::kF32, {3, 5}, source);
  const auto appended = joined(parts);
  parts.front() = first.bytes().value();
  const auto in_front = joined(parts);
  const File file = GgufFile::parse(whole, "whole").value();
  for (const auto* each : {&appended, &in_front}) {
    ASSERT_TRUE(each->ok()) << (*each).error().message;
    EXPECT_EQ((**each)->fingerprint(), file->fingerprint());
    EXPECT_EQ((**each)->file_bytes(), whole.size());
  }
}

TEST_F(PartsTest, AHeaderAloneIsEnoughToKnowWhereTensorsLie) {
  const auto parts = synthetic_part_bytes(options, 3, true).value();
  std::vector<File> headers;
  for (const Bytes& part : parts) {
    const std::size_t bytes = parsed(part)->header().size();
    EXPECT_FALSE(GgufFile::parse_part(ByteSpan(part).first(bytes - 1), part.size(), "cut").ok());
    const auto header = GgufFile::parse_part(ByteSpan(part).first(bytes), part.size(), "header");
    ASSERT_TRUE(header.ok()) << header.error().message;
    headers.push_back(*header);
  }
  const auto known = join_parts(headers);
  ASSERT_TRUE(known.ok()) << known.error().message;
  EXPECT_EQ((*known)->fingerprint(), joined(parts).value()->fingerprint());
}

TEST_F(PartsTest, AnotherPartThanTheFirstIsRefusedWithItsName) {
  ASSERT_TRUE(write_synthetic_parts((folder / "m.gguf").string(), options, 3, false).ok());
  for (const std::uint32_t number : {2U, 3U}) {
    expect_refused(GgufFile::open(path(number)), "name the first part, '" + path(1) + "'");
  }
  fs::rename(path(1), folder / "first.gguf");
  expect_refused(GgufFile::open((folder / "first.gguf").string()),
                 "its name must end with -00001-of-00003.gguf");
  fs::rename(folder / "first.gguf", path(1, 4));
  expect_refused(GgufFile::open(path(1, 4)), "its name must end with -00001-of-00003.gguf");
  const auto parts = synthetic_part_bytes(options, 2, false).value();
  expect_refused(GgufFile::parse(parts[0], "alone"), "'alone' is part 1 of 2 of a model");
}

TEST_F(PartsTest, AMissingPartIsNamed) {
  ASSERT_TRUE(write_synthetic_parts((folder / "m.gguf").string(), options, 3, false).ok());
  fs::remove(path(2));
  const auto refused = GgufFile::open(path(1));
  expect_refused(refused, "part 2 of 3 is missing: there is no '" + path(2) + "'");
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
}

TEST_F(PartsTest, SwappedRepeatedAndForeignPartsAreNamed) {
  ASSERT_TRUE(write_synthetic_parts((folder / "m.gguf").string(), options, 3, false).ok());
  fs::rename(path(2), folder / "kept");
  fs::copy_file(path(3), path(2));
  expect_refused(GgufFile::open(path(1)),
                 "'" + path(2) +
                     "': key 'split.no' is 2, so it is part 3, but it is used as part "
                     "2 of 3; the parts are swapped or one is there twice");
  fs::remove(path(3));
  fs::rename(folder / "kept", path(3));
  expect_refused(GgufFile::open(path(1)), "the parts are swapped");
  // Of the same model in another number of parts, and of one with more tensors.
  const auto five = synthetic_part_bytes(options, 5, false).value();
  write(path(2), five[1]);
  expect_refused(GgufFile::open(path(1)), "key 'split.count' is 5, but it is used as part 2 of 3");
  options.layers = 5;
  const auto larger = synthetic_part_bytes(options, 3, false).value();
  write(path(2), larger[1]);
  expect_refused(GgufFile::open(path(1)), "key 'split.tensors.count' is");
}

TEST_F(PartsTest, CountsAndNumbersOutOfRangeAreRefusedByKey) {
  const Bytes one = raw(1, 2, 2, {"a"});
  const Bytes two = raw(2, 2, 2, {"b"});
  EXPECT_EQ(refusal(joined({one, two})), "");
  expect_refused(joined({one, raw(2, 2, 2, {"a"})}), "tensor 'a' is in part 1 and in part 2");
  expect_refused(joined({raw(1, 2, 3, {"a"}), raw(2, 2, 3, {"b"})}),
                 "key 'split.tensors.count' is 3, but the 2 parts have 2 tensors");
  expect_refused(joined({raw(1, 2, -1, {"a"}), raw(2, 2, -1, {"b"})}), "split.tensors.count");
  expect_refused(joined({one}), "key 'split.count' is 2");
  expect_refused(joined({one, two, two}), "key 'split.count' is 2");
  expect_refused(joined({two, one}), "the parts are swapped");
  expect_refused(joined({}), "1 to 256 parts");
  expect_refused(joined({raw(1, 1, 1, {"a"}), two}), "key 'split.count' is 1");

  write(path(1), raw(4, 3, 2, {"a"}));
  expect_refused(GgufFile::open(path(1)),
                 "key 'split.no' is 3; it must be less than 'split.count', which is 3");
  write(path(1), raw(1, 257, 2, {"a"}));
  expect_refused(GgufFile::open(path(1)), "key 'split.count' is 257; a model has at most 256");
  write(path(1), RawGguf().header(0, 1).key("split.count", kU16).put(std::uint16_t{3}).bytes());
  expect_refused(GgufFile::open(path(1)), "key 'split.no' is missing");
  write(path(1), RawGguf().header(0, 1).key("split.count", 8).text("three").bytes());
  expect_refused(GgufFile::open(path(1)), "key 'split.count' must be an integer");
}

// What merged the parts again says so with a count of 0; such a file is one of its own.
TEST_F(PartsTest, ACountOfNoneOrOneIsAWholeModel) {
  for (const std::uint32_t count : {0U, 1U}) {
    const Bytes bytes = raw(1, count, 1, {"a"});
    const auto file = GgufFile::parse(bytes, "merged");
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_NE((*file)->find("split.count"), nullptr);
  }
}

TEST_F(PartsTest, ManyPartsTakeNoMoreThanOneFileMay) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < 22'000; ++i) names.push_back(std::to_string(i));
  PartBudget budget;
  Status added = ok_status();
  for (std::uint32_t part = 1; part <= 3; ++part) {
    ASSERT_TRUE(added.ok()) << added.error().message;
    added = budget.add(*parsed(raw(part, 3, 66'000, names)));
  }
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message.find("66000 tensors, more than the limit of 65536"),
            std::string::npos)
      << added.error().message;
  EXPECT_LT(budget.header_room(), limits::kGgufHeaderBytes);
}

// An item of one byte takes eight once it is read, and so do many small keys.
TEST_F(PartsTest, KeysAndItemsOfAllPartsAreCountedTogether) {
  constexpr std::uint32_t kU8 = 0;
  constexpr std::uint32_t kArray = 9;
  const auto after_two = [](const Bytes& part) {
    PartBudget budget;
    EXPECT_TRUE(budget.add(*parsed(part)).ok());
    const Status second = budget.add(*parsed(part));
    return second.ok() ? std::string() : second.error().message;
  };
  const std::uint64_t items = limits::kGgufArrayItems / 2 + 1;
  RawGguf array;
  array.header(0, 1).key("a", kArray).put(kU8).put(items).data(items, 1);
  EXPECT_NE(after_two(array.bytes())
                .find("the arrays of all have 8000002 items, more than the "
                      "limit of 8000000"),
            std::string::npos);
  RawGguf keys;
  keys.header(0, 33'000);
  for (std::uint32_t i = 0; i < 33'000; ++i) keys.key(std::to_string(i), kU8).put(std::uint8_t{1});
  EXPECT_NE(after_two(keys.bytes()).find("66000 keys, more than the limit of 65536"),
            std::string::npos);
}

// Sizes that only a server claims: nothing of that size is made.
TEST_F(PartsTest, SizesThatLeaveSixtyFourBitsAreRefused) {
  const auto huge = [](std::uint32_t number, const char* name) {
    RawGguf raw;
    raw.header(1, 3);
    raw.key("split.no", kU16).put(static_cast<std::uint16_t>(number - 1));
    raw.key("split.count", kU16).put(std::uint16_t{2});
    raw.key("split.tensors.count", kI32).put(std::int32_t{2});
    raw.tensor(name, {std::uint64_t{1} << 60}, kFloat, 0);
    return raw.data(0).bytes();
  };
  const Bytes one = huge(1, "a");
  const Bytes two = huge(2, "b");
  const std::uint64_t bytes = (std::uint64_t{1} << 62) + one.size();
  std::vector<File> files = {GgufFile::parse_part(one, bytes, "one").value(),
                             GgufFile::parse_part(two, bytes, "two").value()};
  const auto fits = join_parts(files);
  ASSERT_TRUE(fits.ok()) << fits.error().message;
  EXPECT_FALSE(make_manifest(**fits, {}).ok()) << "larger than a model may be";
}

TEST_F(PartsTest, TheWriterRefusesWhatIsNoSplit) {
  for (const std::uint32_t count : {0U, 1U, 257U}) {
    EXPECT_FALSE(synthetic_part_bytes(options, count, false).ok()) << count;
  }
  EXPECT_FALSE(synthetic_part_bytes(options, 200, false).ok()) << "more parts than tensors";
  EXPECT_FALSE(write_synthetic_parts((folder / "m").string(), options, 2, false).ok());
}

}  // namespace
}  // namespace hearth::model
