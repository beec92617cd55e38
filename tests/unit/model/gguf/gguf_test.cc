#include "model/gguf/gguf.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model/spec.h"
#include "tests/unit/model/raw_gguf.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kF32 = 0;

TEST(Gguf, EveryScalarTypeIsReadAndWidened) {
  RawGguf raw;
  raw.header(0, 12);
  raw.key("u8", 0).put(std::uint8_t{200}).key("i8", 1).put(std::int8_t{-100});
  raw.key("u16", 2).put(std::uint16_t{60000}).key("i16", 3).put(std::int16_t{-30000});
  raw.key("u32", 4).put(std::uint32_t{4000000000U}).key("i32", 5).put(std::int32_t{-2000000000});
  raw.key("f32", 6).put(1.5F).key("bool", 7).put(std::uint8_t{1}).key("text", 8).text("h\xC3\xA9");
  raw.key("u64", 10).put(~std::uint64_t{0}).key("i64", 11).put(std::int64_t{7});
  raw.key("f64", 12).put(0.1);
  const auto file = raw.parse();
  ASSERT_TRUE(file.ok()) << file.error().message;
  const GgufFile& gguf = **file;
  EXPECT_EQ(*gguf.get_uint("u8"), 200U);
  EXPECT_EQ(std::get<std::int64_t>(*gguf.find("i8")), -100);
  EXPECT_EQ(*gguf.get_uint("u16"), 60000U);
  EXPECT_EQ(std::get<std::int64_t>(*gguf.find("i16")), -30000);
  EXPECT_EQ(*gguf.get_uint("u32"), 4000000000U);
  EXPECT_EQ(std::get<std::int64_t>(*gguf.find("i32")), -2000000000);
  EXPECT_EQ(*gguf.get_float("f32"), 1.5);
  EXPECT_TRUE(*gguf.get_bool("bool"));
  EXPECT_EQ(*gguf.get_string("text"), "h\xC3\xA9");
  EXPECT_EQ(*gguf.get_uint("u64"), ~std::uint64_t{0});
  EXPECT_EQ(*gguf.get_uint("i64"), 7U);
  EXPECT_EQ(*gguf.get_float("f64"), 0.1);
  EXPECT_EQ(gguf.keys().size(), 12U);
}

TEST(Gguf, AccessorsNameKeyAndKind) {
  RawGguf raw;
  raw.header(0, 2).key("minus", 5).put(std::int32_t{-1}).key("text", 8).text("x");
  const auto file = raw.parse();
  ASSERT_TRUE(file.ok());
  const GgufFile& gguf = **file;
  EXPECT_EQ(gguf.get_uint("absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(gguf.get_uint("absent").error().message, "'raw': key 'absent' is missing");
  EXPECT_EQ(gguf.get_uint("minus").error().message,
            "'raw': key 'minus' must be 0 or more, it is -1");
  EXPECT_EQ(gguf.get_float("minus").error().message,
            "'raw': key 'minus' must be a floating-point number");
  EXPECT_EQ(gguf.get_bool("text").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(gguf.get_uint("text").error().message, "'raw': key 'text' must be an integer");
  EXPECT_EQ(gguf.get_string("minus").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(gguf.find("absent"), nullptr);
}

TEST(Gguf, ArraysAreFlatAndStringsAreViews) {
  RawGguf raw;
  raw.header(0, 3);
  raw.key("texts", 9).put(std::uint32_t{8}).put(std::uint64_t{2}).text("one").text("");
  raw.key("ints", 9).put(std::uint32_t{1}).put(std::uint64_t{2});
  raw.put(std::int8_t{-1}).put(std::int8_t{5});
  raw.key("flags", 9).put(std::uint32_t{7}).put(std::uint64_t{2});
  raw.put(std::uint8_t{1}).put(std::uint8_t{0});
  const auto file = raw.parse();
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto& texts = std::get<GgufArray>(*(*file)->find("texts"));
  const auto& views = std::get<std::vector<std::string_view>>(texts.items);
  EXPECT_EQ(texts.size(), 2U);
  EXPECT_EQ(views[0], "one");
  EXPECT_GE(static_cast<const void*>(views[0].data()), raw.bytes().data());
  EXPECT_LT(static_cast<const void*>(views[0].data()), raw.bytes().data() + raw.bytes().size());
  const auto& ints = std::get<GgufArray>(*(*file)->find("ints"));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(ints.items), (std::vector<std::int64_t>{-1, 5}));
  const auto& flags = std::get<GgufArray>(*(*file)->find("flags"));
  EXPECT_EQ(std::get<std::vector<bool>>(flags.items), (std::vector<bool>{true, false}));
}

TEST(Gguf, TensorsArePlacedAtTheAlignment) {
  RawGguf raw;
  raw.header(2, 1).key("general.alignment", 4).put(std::uint32_t{64});
  raw.tensor("a", {3, 2}, kF32, 0).tensor("b", {64}, 8, 64).data(64 + 68, 64);
  const auto file = raw.parse();
  ASSERT_TRUE(file.ok()) << file.error().message;
  const TensorInfo* a = (*file)->find_tensor("a");
  const TensorInfo* b = (*file)->find_tensor("b");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(a->bytes, 24U);
  EXPECT_EQ(a->elements(), 6U);
  EXPECT_EQ(a->offset % 64, 0U);
  EXPECT_EQ(b->bytes, 68U);
  EXPECT_EQ(b->offset, a->offset + 64);
  EXPECT_EQ((*file)->tensor_bytes(*b).data(), raw.bytes().data() + b->offset);
  EXPECT_EQ((*file)->find_tensor("c"), nullptr);
}

TEST(Gguf, FingerprintSeesHeaderAndLengthAndNotTheWeights) {
  const auto build = [](std::string_view key, std::size_t count, std::byte last) {
    RawGguf raw;
    raw.header(1, 1).key(key, 0).put(std::uint8_t{1}).tensor("a", {4}, kF32, 0).data(count);
    Bytes bytes = raw.bytes();
    bytes[bytes.size() - count] = last;
    return GgufFile::parse(bytes, "x").value()->fingerprint();
  };
  const Hash256 base = build("k", 16, std::byte{0});
  EXPECT_EQ(base, build("k", 16, std::byte{9}));
  EXPECT_NE(base, build("l", 16, std::byte{0}));
  EXPECT_NE(base, build("k", 20, std::byte{0}));
}

class GgufOpen : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("hearth-gguf-" + std::to_string(::getpid()) + "-" +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(std::string_view name) const { return directory_ / name; }

  std::filesystem::path directory_;
};

TEST_F(GgufOpen, MapsAFile) {
  RawGguf raw;
  raw.header(1, 0).tensor("a", {2}, kF32, 0).data(8);
  std::ofstream(path("a.gguf"), std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.bytes().data()),
             static_cast<std::streamsize>(raw.bytes().size()));
  const auto file = GgufFile::open(path("a.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->file_bytes(), raw.bytes().size());
  EXPECT_EQ((*file)->fingerprint(), raw.parse().value()->fingerprint());
  EXPECT_EQ((*file)->path(), path("a.gguf"));
}

TEST_F(GgufOpen, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(GgufFile::open(path("absent")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(GgufFile::open(directory_).error().code, ErrorCode::kInvalidInput);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(GgufFile::open(path("pipe")).error().code, ErrorCode::kInvalidInput);
  std::ofstream(path("empty")).flush();
  EXPECT_NE(GgufFile::open(path("empty")).error().message.find("4 bytes, but 0 are left"),
            std::string::npos);
}

TEST(GgufDemoModel, HasThePublishedFacts) {
  const char* path = std::getenv("HEARTH_DEMO_MODEL");
  if (path == nullptr) {
    std::puts("HEARTH_DEMO_MODEL is not set: the demo model is not looked at");
    return;
  }
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->tensors().size(), 272U);
  EXPECT_EQ((*file)->keys().size(), 33U);
  const auto spec = ModelSpec::read(**file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->layers, 30U);
  EXPECT_EQ(spec->hidden, 576U);
  EXPECT_EQ(spec->feed_forward, 1536U);
  EXPECT_EQ(spec->heads, 9U);
  EXPECT_EQ(spec->kv_heads, 3U);
  EXPECT_EQ(spec->head_dim, 64U);
  EXPECT_EQ(spec->vocabulary, 49152U);
  EXPECT_EQ(spec->context, 8192U);
  EXPECT_EQ(spec->rope_base, 100000.0);
  EXPECT_EQ(spec->rms_epsilon, 1e-5F);
  EXPECT_TRUE(spec->tied_embeddings);
  EXPECT_EQ(spec->parameters, 134515008U);
}

}  // namespace
}  // namespace hearth::model
