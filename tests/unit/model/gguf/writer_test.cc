#include "model/gguf/writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>

namespace hearth::model {
namespace {

// Row r of a tensor of F32 holds r, r + 1, ...
Status count_up(std::uint64_t row, MutableByteSpan out) {
  std::vector<float> values(out.size() / sizeof(float));
  std::iota(values.begin(), values.end(), static_cast<float>(row));
  std::memcpy(out.data(), values.data(), out.size());
  return ok_status();
}

template <typename T>
std::vector<T> items(const GgufFile& file, std::string_view key) {
  return std::get<std::vector<T>>(std::get<GgufArray>(*file.find(key)).items);
}

TEST(GgufWriter, WhatIsWrittenIsRead) {
  GgufWriter writer;
  writer.add("u8", std::uint8_t{1});
  writer.add("i8", std::int8_t{-1});
  writer.add("u16", std::uint16_t{2});
  writer.add("i16", std::int16_t{-2});
  writer.add("u32", std::uint32_t{3});
  writer.add("i32", std::int32_t{-3});
  writer.add("u64", std::uint64_t{4});
  writer.add("i64", std::int64_t{-4});
  writer.add("f32", 0.5F);
  writer.add("f64", 0.1);
  writer.add("yes", true);
  writer.add("text", "words");
  writer.add_array("words", std::vector<std::string>{"a", "", "c"});
  writer.add_array("halves", std::vector<float>{0.5F, 1.5F});
  writer.add_array("flags", std::vector<bool>{true, false, true});
  writer.add_array("signed", std::vector<std::int32_t>{-7, 7});
  writer.add_array("none", std::vector<std::uint16_t>{});
  const auto bytes = writer.bytes();
  ASSERT_TRUE(bytes.ok());
  const auto opened = GgufFile::parse(*bytes, "written");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const GgufFile& file = **opened;
  EXPECT_EQ(*file.get_uint("u8"), 1U);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i8")), -1);
  EXPECT_EQ(*file.get_uint("u16"), 2U);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i16")), -2);
  EXPECT_EQ(*file.get_uint("u32"), 3U);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i32")), -3);
  EXPECT_EQ(*file.get_uint("u64"), 4U);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i64")), -4);
  EXPECT_EQ(*file.get_float("f32"), 0.5);
  EXPECT_EQ(*file.get_float("f64"), 0.1);
  EXPECT_TRUE(*file.get_bool("yes"));
  EXPECT_EQ(*file.get_string("text"), "words");
  EXPECT_EQ(items<std::string_view>(file, "words"), (std::vector<std::string_view>{"a", "", "c"}));
  EXPECT_EQ(items<double>(file, "halves"), (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(items<bool>(file, "flags"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(items<std::int64_t>(file, "signed"), (std::vector<std::int64_t>{-7, 7}));
  EXPECT_TRUE(items<std::uint64_t>(file, "none").empty());
  EXPECT_EQ(file.keys().size(), 17U);
}

TEST(GgufWriter, TensorsKeepShapeRowsAndAlignment) {
  for (const std::uint32_t alignment : {8U, 32U, 4096U}) {
    GgufWriter writer(alignment);
    writer.add_tensor("odd", TensorType::kF32, {3}, count_up);
    writer.add_tensor("block", TensorType::kF32, {5, 7, 2}, count_up);
    const auto bytes = writer.bytes();
    ASSERT_TRUE(bytes.ok());
    const auto file = GgufFile::parse(*bytes, "written");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const TensorInfo* block = (*file)->find_tensor("block");
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->dims, (std::vector<std::uint64_t>{5, 7, 2}));
    EXPECT_EQ(block->offset % alignment, 0U);
    float value = 0.0F;
    const ByteSpan data = (*file)->tensor_bytes(*block);
    std::memcpy(&value, data.data() + (13 * 5 + 4) * sizeof(float), sizeof(value));
    EXPECT_EQ(value, 17.0F);  // row 13, column 4
  }
}

TEST(GgufWriter, AFileHoldsTheSameBytesAndAFailedOneIsNotLeftBehind) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("hearth-writer-" + std::to_string(::getpid()) + ".gguf");
  GgufWriter writer;
  writer.add_tensor("a", TensorType::kF32, {1024, 4096}, count_up);  // more than one chunk
  ASSERT_TRUE(writer.write(path).ok());
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto bytes = writer.bytes();
  ASSERT_TRUE(bytes.ok());
  ASSERT_EQ((*file)->file_bytes(), bytes->size());
  const ByteSpan data = (*file)->tensor_bytes((*file)->tensors()[0]);
  EXPECT_EQ(std::memcmp(data.data(), bytes->data() + bytes->size() - data.size(), data.size()), 0);
  std::filesystem::remove(path);

  GgufWriter failing;
  failing.add_tensor("a", TensorType::kF32, {4}, [](std::uint64_t, MutableByteSpan) -> Status {
    return Error::invalid("no data today");
  });
  EXPECT_EQ(failing.write(path).error().message, "no data today");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_EQ(writer.write("/nonexistent/a.gguf").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace hearth::model
