// Files that lie. Every refusal must name what is wrong and where; none may crash or allocate by
// what the file claims.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <random>

#include "base/limits.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "tests/unit/model/raw_gguf.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kTypeF32 = 0;
constexpr std::uint32_t kQ8_0 = 8;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

void expect_says(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
}

TEST(GgufHostile, MagicAndVersion) {
  expect_says(RawGguf().put(std::uint32_t{0x47475546}).put(std::uint32_t{3}).refusal(),
              "does not begin with the letters GGUF");
  for (const std::uint32_t version : {0U, 1U, 4U, ~0U}) {
    const auto file = RawGguf().header(0, 0, version).parse();
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
    expect_says(file.error().message, "version " + std::to_string(version) + ";");
  }
  expect_says(RawGguf().header(0, 0, 0x03000000).refusal(), "version 3 in big-endian byte order");
  EXPECT_EQ(RawGguf().header(0, 0, 2).refusal(), "");
  EXPECT_EQ(RawGguf().header(0, 0, 3).refusal(), "");
}

TEST(GgufHostile, CountsBeyondTheFileAreRefusedBeforeAllocation) {
  expect_says(RawGguf().header(kMax, 0).refusal(),
              "18446744073709551615 tensors, more than the limit of 65536");
  expect_says(RawGguf().header(0, kMax).refusal(), "keys, more than the limit of 65536");
  expect_says(RawGguf().header(1000, 0).refusal(), "1000 tensors of at least");
  expect_says(RawGguf().header(0, 1000).refusal(), "1000 keys of at least");
}

TEST(GgufHostile, StringLengths) {
  for (const std::uint64_t length : {kMax, kMax - 1, std::uint64_t{1} << 30}) {
    expect_says(RawGguf().header(0, 1).put(length).data(100, 1).refusal(), "longer than the limit");
    expect_says(RawGguf().header(0, 1).key("k", 8).put(length).data(100, 1).refusal(),
                "key 'k' at byte 24: the string of " + std::to_string(length) + " bytes is longer");
  }
  expect_says(RawGguf().header(0, 1).key("k", 8).put(std::uint64_t{101}).data(100, 1).refusal(),
              "the string takes 101 bytes, but ");
}

TEST(GgufHostile, KeyNames) {
  using namespace std::string_literals;
  expect_says(RawGguf().header(0, 1).key("", 0).data(9, 1).refusal(), "the key's name is empty");
  expect_says(RawGguf().header(0, 1).key("a\0b"s, 0).data(9, 1).refusal(), "'a\\x00b' has a NUL");
  expect_says(RawGguf().header(0, 1).key("a\nb", 0).data(9, 1).refusal(), "control character");
  for (const std::string_view broken : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    expect_says(RawGguf().header(0, 1).key(broken, 0).data(9, 1).refusal(), "not valid UTF-8");
  }
  RawGguf twice;
  twice.header(0, 2).key("k", 0).put(std::uint8_t{1}).key("k", 0).put(std::uint8_t{1});
  expect_says(twice.refusal(), "key 'k' at byte 38: the key occurs twice");
}

TEST(GgufHostile, ValueTypes) {
  for (const std::uint32_t type : {13U, 0x80000000U, ~0U}) {
    expect_says(RawGguf().header(0, 1).key("k", type).data(64, 1).refusal(),
                "value type " + std::to_string(type) + " does not exist");
    RawGguf array;
    array.header(0, 1).key("k", 9).put(type).put(std::uint64_t{1}).data(64, 1);
    expect_says(array.refusal(), "item type " + std::to_string(type) + " does not exist");
  }
  expect_says(RawGguf().header(0, 1).key("k", 7).put(std::uint8_t{2}).refusal(), "a bool of 2");
  RawGguf flags;
  flags.header(0, 1).key("k", 9).put(std::uint32_t{7}).put(std::uint64_t{1}).put(std::uint8_t{9});
  expect_says(flags.refusal(), "item 0 is a bool of 9");
}

TEST(GgufHostile, NestedArraysEndAtTheFirstLevel) {
  RawGguf raw;
  raw.header(0, 1).key("k", 9);
  for (int depth = 0; depth < 10'000; ++depth) raw.put(std::uint32_t{9}).put(std::uint64_t{1});
  expect_says(raw.refusal(), "key 'k' at byte 24: an array of arrays");
}

TEST(GgufHostile, ArrayCounts) {
  // 2^62 items of 4 bytes are 0 bytes in 64-bit arithmetic.
  for (const std::uint64_t count : {kMax, std::uint64_t{1} << 62, std::uint64_t{1} << 61}) {
    for (const std::uint32_t type : {4U, 8U, 10U}) {
      RawGguf raw;
      raw.header(0, 1).key("k", 9).put(type).put(count).data(64, 1);
      expect_says(raw.refusal(), "an array of " + std::to_string(count) + " items");
    }
  }
  RawGguf few;
  few.header(0, 1).key("k", 9).put(std::uint32_t{4}).put(std::uint64_t{17}).data(64, 1);
  expect_says(few.refusal(), "an array of 17 items of at least 4 bytes each, but ");
}

TEST(GgufHostile, ArrayItemsAreLimitedOverTheWholeFile) {
  const std::uint64_t part = limits::kGgufArrayItems / 2 + 1;
  RawGguf raw;
  raw.header(0, 2);
  raw.key("a", 9).put(std::uint32_t{0}).put(part).data(part, 1);
  raw.key("b", 9).put(std::uint32_t{0}).put(part).data(part, 1);
  expect_says(raw.refusal(), "the limit is " + std::to_string(limits::kGgufArrayItems));
}

TEST(GgufHostile, Alignment) {
  for (const std::uint32_t alignment : {0U, 1U, 3U, 4U, 13U, 1U << 17, 1U << 31}) {
    RawGguf raw;
    raw.header(0, 1).key("general.alignment", 4).put(alignment);
    expect_says(raw.refusal(), "an alignment of " + std::to_string(alignment));
  }
  RawGguf typed;
  typed.header(0, 1).key("general.alignment", 5).put(std::int32_t{32});
  expect_says(typed.refusal(),
              "key 'general.alignment' at byte 24: the alignment has value type 5");
}

TEST(GgufHostile, TensorNames) {
  const auto named = [](std::string_view name) {
    return RawGguf().header(1, 0).tensor(name, {4}, kTypeF32, 0).data(16).refusal();
  };
  EXPECT_EQ(named(std::string(63, 'n')), "");
  expect_says(named(std::string(64, 'n')), "of 64 bytes is longer than the limit of 63");
  expect_says(named(""), "the tensor's name is empty");
  expect_says(named("../../etc/passwd"), "path separator");
  expect_says(named("a\\b"), "path separator");
  expect_says(named("\xFF"), "not valid UTF-8");
  RawGguf huge;
  huge.header(1, 0).put(std::uint64_t{1} << 32).data(64, 1);
  expect_says(huge.refusal(), "longer than the limit");
  RawGguf twice;
  twice.header(2, 0).tensor("a", {8}, kTypeF32, 0).tensor("a", {8}, kTypeF32, 32).data(64);
  expect_says(twice.refusal(), "tensor 'a' at byte 57: the name occurs twice");
}

TEST(GgufHostile, Dimensions) {
  for (const std::uint32_t count : {0U, 5U, ~0U}) {
    RawGguf raw;
    raw.header(1, 0).text("a").put(count).data(256, 1);
    expect_says(raw.refusal(), std::to_string(count) + " dimensions; there must be 1 to 4");
  }
  expect_says(RawGguf().header(1, 0).tensor("a", {0}, kTypeF32, 0).data(8).refusal(),
              "dimension 0 is 0");
  expect_says(RawGguf().header(1, 0).tensor("a", {4, 0, 4}, kTypeF32, 0).data(8).refusal(),
              "dimension 1 is 0");
}

TEST(GgufHostile, ProductsThatWrap) {
  const std::uint64_t half = std::uint64_t{1} << 32;
  const std::uint64_t wide = 4ULL * std::numeric_limits<std::int32_t>::max();
  const auto shaped = [](std::initializer_list<std::uint64_t> dims, std::uint32_t type) {
    return RawGguf().header(1, 0).tensor("a", dims, type, 0).data(64).refusal();
  };
  expect_says(shaped({half, half}, kTypeF32), "leaves 64 bits");     // wraps to 0
  expect_says(shaped({half, half, 2, 3}, kQ8_0), "leaves 64 bits");  // elements wrap
  expect_says(shaped({wide, wide}, kTypeF32), "leaves 64 bits");
  expect_says(shaped({kMax}, kTypeF32), "leaves 64 bits");                          // dimension -1
  expect_says(shaped({kMax / 2 + 9, 2}, kTypeF32), "leaves 64 bits");               // wraps to 16
  expect_says(shaped({std::uint64_t{1} << 62, 1, 1}, kTypeF32), "leaves 64 bits");  // bytes alone
  expect_says(shaped({1ULL << 59, 31}, kQ8_0), "leaves 64 bits");
  // One factor less, and only the end of the file refuses.
  expect_says(shaped({std::uint64_t{1} << 59, 4}, kTypeF32), "reach past the end of the file");
  expect_says(shaped({(kMax - 3) / 4}, kTypeF32), "reach past the end of the file");  // pads to 0
}

// The verdict on a lone tensor equals exact arithmetic's on the same numbers.
TEST(GgufHostile, SizesAgreeWithExactArithmetic) {
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint32_t type = round % 2 == 0 ? kTypeF32 : kQ8_0;
    const std::uint32_t block = type == kTypeF32 ? 1 : 32;
    const unsigned least = round % 4 < 2 ? 0 : 56;  // half of the rounds draw small numbers
    std::uint64_t dims[3];
    for (std::uint64_t& dim : dims)
      dim = (random() >> (least + random() % (64 - least))) % kMax + 1;
    dims[0] -= dims[0] % block;
    if (dims[0] == 0) dims[0] = block;
    constexpr auto kCap = static_cast<unsigned __int128>(1) << 100;
    unsigned __int128 bytes = dims[0] / block * static_cast<unsigned __int128>(block == 1 ? 4 : 34);
    for (int i = 1; i < 3; ++i) bytes = bytes > kCap / dims[i] ? kCap : bytes * dims[i];
    const bool fits = bytes <= 4096;
    const auto count = static_cast<std::size_t>(fits ? bytes : 4096);
    const RawGguf raw =
        RawGguf().header(1, 0).tensor("a", {dims[0], dims[1], dims[2]}, type, 0).data(count);
    EXPECT_EQ(raw.parse().ok(), fits) << dims[0] << " " << dims[1] << " " << dims[2];
    accepted += fits ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
}

TEST(GgufHostile, TypesAndBlocks) {
  const auto typed = [](std::uint32_t type, std::uint64_t width) {
    return RawGguf().header(1, 0).tensor("a", {width}, type, 0).data(4096).parse();
  };
  for (const std::uint32_t type : {4U, 5U, 31U, 36U, 43U, 0x80000000U, ~0U}) {
    const auto file = typed(type, 256);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
    expect_says(file.error().message, "type " + std::to_string(type));
  }
  expect_says(typed(15, 256).error().message, "tensors of Q8_K (type 15) are not read");
  expect_says(typed(kQ8_0, 33).error().message,
              "rows of 33 elements must be a multiple of the 32 that a block of Q8_0 has");
  expect_says(typed(14, 128).error().message, "the 256 that a block of Q6_K has");
}

TEST(GgufHostile, Offsets) {
  const auto second_at = [](std::uint64_t offset) {
    RawGguf raw;
    raw.header(2, 0).tensor("a", {8}, kTypeF32, 0).tensor("b", {8}, kTypeF32, offset).data(64);
    return raw.refusal();
  };
  EXPECT_EQ(second_at(32), "");
  expect_says(second_at(0), "tensor 'b' at byte 57: offset 0 must be 32");  // overlap
  expect_says(second_at(64), "offset 64 must be 32");                       // gap
  expect_says(second_at(33), "must be a multiple of the alignment 32");
  expect_says(second_at(kMax), "must be a multiple of the alignment 32");
  expect_says(second_at(kMax - 31), "must be 32");
  RawGguf order;
  order.header(2, 0).tensor("a", {8}, kTypeF32, 32).tensor("b", {8}, kTypeF32, 0).data(64);
  expect_says(order.refusal(), "offset 32 must be 0");
}

TEST(GgufHostile, DataShortOrFollowedByMore) {
  const auto with_data = [](std::size_t count) {
    return RawGguf().header(1, 0).tensor("a", {5}, kTypeF32, 0).data(count).refusal();
  };
  expect_says(with_data(19), "its 20 bytes at offset 0 reach past the end of the file");
  EXPECT_EQ(with_data(20), "");
  EXPECT_EQ(with_data(32), "");  // padded to the alignment, as writers do
  expect_says(with_data(20 + 32), "32 bytes follow the last tensor");
  expect_says(RawGguf().header(0, 0).data(4096).refusal(), "follow the last tensor");
}

TEST(GgufHostile, OnlyZerosToTheAlignmentMayFollowTheLastTensor) {
  const auto file = [](std::uint64_t elements, std::size_t count, std::size_t stray) {
    RawGguf raw;
    raw.header(1, 0).tensor("a", {elements}, kTypeF32, 0).data(count);
    Bytes bytes = raw.bytes();
    if (stray > 0) bytes[bytes.size() - stray] = std::byte{7};
    const auto parsed = GgufFile::parse(bytes, "raw");
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  // Without padding, cut inside it, whole. (llama.cpp and Python's gguf write the last.)
  for (std::size_t count = 20; count <= 32; ++count) EXPECT_EQ(file(5, count, 0), "") << count;
  expect_says(file(5, 33, 0), "13 bytes follow the last tensor, more than the 12 that pad it");
  expect_says(file(5, 20 + 31, 0), "31 bytes follow the last tensor");
  for (std::size_t count = 33; count < 64; ++count) {  // the tensor ends at the alignment: nothing
    expect_says(file(8, count, 0), "bytes follow the last tensor, more than the 0 that pad it");
  }
  for (std::size_t stray = 1; stray <= 12; ++stray) {
    expect_says(file(5, 32, stray), "behind the last tensor is 7; padding is zeros");
  }
  EXPECT_EQ(file(5, 32, 13), "");  // the tensor's own last byte
}

TEST(GgufHostile, AHeaderAloneMayBePaddedToo) {
  Bytes bytes = RawGguf().header(0, 0).bytes();
  EXPECT_TRUE(GgufFile::parse(bytes, "raw").ok());
  for (std::size_t count = 1; count <= 8; ++count) {  // the 24 bytes end 8 before the alignment
    bytes.resize(24 + count);
    EXPECT_TRUE(GgufFile::parse(bytes, "raw").ok()) << count;
    bytes.back() = std::byte{1};
    EXPECT_FALSE(GgufFile::parse(bytes, "raw").ok()) << count;
    bytes.back() = std::byte{0};
  }
  expect_says(RawGguf().header(0, 0).data(1).refusal(), "9 bytes follow the last tensor");
}

TEST(GgufHostile, SumOfSizesThatWraps) {
  const std::uint64_t large = std::uint64_t{1} << 61;  // F32 elements: 2^63 bytes each
  RawGguf raw;
  raw.header(2, 0).tensor("a", {large}, kTypeF32, 0);
  raw.tensor("b", {large}, kTypeF32, std::uint64_t{1} << 63).data(64);
  expect_says(raw.refusal(), "tensor 'a' at byte 24: its 9223372036854775808 bytes");
}

// Parses, reads the shape and touches every byte that the file claims.
std::size_t walk(ByteSpan bytes) {
  const auto file = GgufFile::parse(bytes, "walked");
  if (!file.ok()) {
    EXPECT_FALSE(file.error().message.empty());
    return 0;
  }
  std::size_t sum = 1;
  for (const TensorInfo& tensor : (*file)->tensors()) {
    for (const std::byte byte : (*file)->tensor_bytes(tensor)) sum += std::to_integer<int>(byte);
  }
  const auto spec = ModelSpec::read(**file);
  return spec.ok() ? sum + spec->layers : sum;
}

SyntheticOptions smallest() {
  SyntheticOptions options;
  options.layers = 1;
  options.hidden = 32;
  options.feed_forward = 32;
  options.heads = 1;
  options.kv_heads = 1;
  options.vocabulary = 259;
  return options;
}

TEST(GgufHostile, EveryTruncationIsRefused) {
  const auto model = synthetic_model_bytes(smallest());
  ASSERT_TRUE(model.ok());
  const auto whole = GgufFile::parse(*model, "whole");
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const TensorInfo& last = (*whole)->tensors().back();
  const std::size_t needed = last.offset + last.bytes;
  for (std::size_t length = 0; length < needed; ++length) {
    // A copy of exactly this length: a read past it is seen by the address sanitizer.
    const Bytes cut(model->begin(), model->begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(walk(cut), 0U) << "length " << length;
  }
}

TEST(GgufHostile, NoBitFlipOfAHeaderCrashes) {
  auto model = synthetic_model_bytes(smallest());
  ASSERT_TRUE(model.ok());
  const std::size_t header = GgufFile::parse(*model, "whole").value()->tensors().front().offset;
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < header * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    (*model)[bit / 8] ^= mask;
    refused += walk(*model) == 0 ? 1 : 0;
    (*model)[bit / 8] ^= mask;
  }
  EXPECT_GT(refused, header);  // every length, count, type and offset is among them
  EXPECT_GT(walk(*model), 0U);
}

TEST(GgufHostile, MemoryStaysBounded) {
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 1000; ++i) {
    RawGguf raw;
    raw.header(0, 1).key("k", 9).put(std::uint32_t{8}).put(std::uint64_t{4'000'000}).data(64, 1);
    EXPECT_NE(raw.refusal(), "");
    EXPECT_NE(RawGguf().header(65'536, 65'536).data(1024, 1).refusal(), "");
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 * 1024);  // KiB
}

}  // namespace
}  // namespace hearth::model
