#include "model/gguf/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hearth::model {
namespace {

namespace fs = std::filesystem;

struct MappedFileTest : ::testing::Test {
  const fs::path path = fs::temp_directory_path() / ("hearth-mapped-" + std::to_string(getpid()));
  void write(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  void TearDown() override { fs::remove(path); }
};

TEST_F(MappedFileTest, HasTheBytesAndKeepsThemWhenMoved) {
  write("seven b");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  MappedFile moved;
  moved = std::move(*file);
  EXPECT_EQ(as_text(moved.bytes()), "seven b");
  EXPECT_TRUE(moved.check_unchanged().ok());
  std::ofstream(path, std::ios::app) << "more";
  const auto changed = moved.check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, ErrorCode::kIo);
  EXPECT_NE(changed.error().message.find("from 7 to 11 bytes"), std::string::npos);
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  write("");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, RefusesWhatIsMissingOrNoFile) {
  EXPECT_EQ(MappedFile::open(path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open("/").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace hearth::model
