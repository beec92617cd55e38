#include "node/layers/model_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/gguf/parts.h"
#include "model/synthetic.h"
#include "node/layers/shared_file.h"
#include "tests/tools/parts_writer.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;

struct ModelBytesTest : ::testing::Test {
  ModelBytesTest() {
    std::string name = (fs::temp_directory_path() / "hearth-bytes-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  ~ModelBytesTest() override { fs::remove_all(folder); }
  std::string write_parts(std::uint32_t parts, bool bare_first) const {
    return model::write_synthetic_parts((folder / "m.gguf").string(), {}, parts, bare_first)
        .value();
  }

  const Bytes whole = model::synthetic_model_bytes({}).value();
  fs::path folder;
};

TEST_F(ModelBytesTest, PartsAreReadAsTheOneFile) {
  ASSERT_TRUE(model::write_synthetic_model((folder / "whole.gguf").string(), {}).ok());
  for (const bool bare_first : {false, true}) {
    const std::string first = write_parts(3, bare_first);
    for (const std::string& path : {first, (folder / "whole.gguf").string()}) {
      const auto bytes = ModelBytes::open(path);
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      ASSERT_EQ(bytes->size(), whole.size());
      // Pieces of any length cross header, padding and parts.
      for (const std::size_t step : {std::size_t{1'009}, std::size_t{70'001}, whole.size()}) {
        Bytes read(whole.size());
        for (std::size_t at = 0; at < read.size(); at += step) {
          const std::size_t count = std::min(step, read.size() - at);
          ASSERT_TRUE(bytes->read(at, MutableByteSpan(read).subspan(at, count)).ok());
        }
        EXPECT_EQ(read, whole) << path << " in steps of " << step;
      }
      Bytes beyond(2);
      EXPECT_EQ(bytes->read(whole.size() - 1, beyond).error().code, ErrorCode::kIo);
      EXPECT_EQ(bytes->read(~std::uint64_t{0}, beyond).error().code, ErrorCode::kIo);
    }
  }
}

TEST_F(ModelBytesTest, APartThatWasCutShortIsAnErrorThatNamesIt) {
  const std::string first = write_parts(3, false);
  const std::string second = model::all_parts(first)[1];
  const auto bytes = ModelBytes::open(first).value();
  const Bytes before = bytes.identity().value();
  fs::resize_file(second, fs::file_size(second) - 1000);
  EXPECT_NE(bytes.identity().value(), before);
  Bytes read(whole.size());
  const Status refused = bytes.read(0, read);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("m-00002-of-00003.gguf"), std::string::npos);
  EXPECT_EQ(ModelBytes::open(first).error().code, ErrorCode::kInvalidInput);
  fs::remove(second);
  EXPECT_EQ(ModelBytes::open(first).error().code, ErrorCode::kNotFound);
}

TEST_F(ModelBytesTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(ModelBytes::open((folder / "none").string()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ModelBytes::open(folder.string()).error().code, ErrorCode::kInvalidInput);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(ModelBytes::open((folder / "pipe").string()).error().code, ErrorCode::kInvalidInput);
}

// A name like a part's is not enough: the keys decide.
TEST_F(ModelBytesTest, AWholeModelMayHaveTheNameOfAPart) {
  const std::string path = (folder / "w-00001-of-00002.gguf").string();
  ASSERT_TRUE(model::write_synthetic_model(path, {}).ok());
  const auto bytes = ModelBytes::open(path);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  EXPECT_EQ(bytes->size(), whole.size());
}

TEST_F(ModelBytesTest, PeersGetTheBytesOfTheOneFile) {
  const Hash256 id = blake2b(as_bytes("id"));
  SharedFile shared;
  RangeSet ranges;
  ranges.add(0, whole.size());
  shared.share(id,
               std::make_shared<const ModelBytes>(ModelBytes::open(write_parts(5, true)).value()),
               ranges);
  for (std::size_t at = 0; at + 4096 <= whole.size(); at += 4096) {
    const auto piece = shared.read(id, at, 4096);
    ASSERT_TRUE(piece.ok()) << piece.error().message;
    EXPECT_TRUE(std::ranges::equal(*piece, ByteSpan(whole).subspan(at, 4096))) << at;
  }
  EXPECT_FALSE(shared.read(id, whole.size() - 10, 11).ok());
}

}  // namespace
}  // namespace hearth::node
