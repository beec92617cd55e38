// Loading a mapped file gives the weights of the same bytes in memory, on any number of threads,
// and leaves none of the file's pages behind.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "kernels/thread_pool.h"
#include "model/gguf/file_pages.h"
#include "model/gguf/parts.h"
#include "model/synthetic.h"
#include "node/engine/weights.h"
#include "tests/tools/parts_writer.h"

namespace hearth::node {
namespace {

struct FilePagesTest : ::testing::Test {
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pages-XXXXXX").string();
    const int made = mkstemp(name.data());
    ASSERT_GE(made, 0);
    close(made);
    path = name;
    model::SyntheticOptions options;
    options.hidden = 512;
    options.feed_forward = 1'504;
    options.vocabulary = 5'000;
    ASSERT_TRUE(model::write_synthetic_model(path, options).ok());
    file = model::GgufFile::open(path).value();
  }
  void TearDown() override { std::filesystem::remove(path); }

  // Pages of this process that `range` fills.
  static std::size_t mapped_pages(ByteSpan range) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t found = 0;
    FILE* map = std::fopen("/proc/self/pagemap", "rb");
    for (std::size_t at = 0; map != nullptr && at + page <= range.size(); at += page) {
      const auto address = reinterpret_cast<std::uintptr_t>(range.data() + at);
      std::uint64_t entry = 0;
      std::fseek(map, static_cast<long>(address / page * sizeof entry), SEEK_SET);
      if (std::fread(&entry, sizeof entry, 1, map) == 1 && entry >> 63 != 0) ++found;
    }
    if (map != nullptr) std::fclose(map);
    return found;
  }

  std::string path;
  std::shared_ptr<const model::GgufFile> file;
};

TEST_F(FilePagesTest, BringsAndDropsPagesOfAMappedFileOnly) {
  const model::FilePages pages(*file);
  const ByteSpan range = file->tensor_bytes(*file->find_tensor("token_embd.weight"));
  ASSERT_TRUE(pages.bring(range).ok());
  EXPECT_GT(mapped_pages(range), range.size() / 4096 / 2);
  pages.drop(range, true);
  EXPECT_EQ(mapped_pages(range), 0U);
  const ByteSpan bytes = file->mapped().front();
  Bytes copy(bytes.begin(), bytes.end());
  const auto parsed = model::GgufFile::parse(copy, "copy").value();
  EXPECT_TRUE(parsed->mapped().empty());
  model::FilePages(*parsed).drop(copy, true);
  model::FilePages(*parsed).drop_all();
  EXPECT_EQ(std::memcmp(copy.data(), bytes.data(), copy.size()), 0)
      << "memory that is no file must keep its bytes";
}

TEST_F(FilePagesTest, ThreadsPackTheSameBytesAndLeaveNoPageBehind) {
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  const LayerRange all{0, spec.layers};
  const StageWeights alone = StageWeights::load(*file, spec, all).value();
  for (const unsigned threads : {1U, 2U, 4U}) {
    const auto pool = kernels::ThreadPool::create(threads).value();
    const StageWeights shared = StageWeights::load(*file, spec, all, pool.get()).value();
    ASSERT_EQ(shared.bytes(), alone.bytes());
    const auto same = [](const kernels::PackedMatrix& a, const kernels::PackedMatrix& b) {
      return a.bytes() == b.bytes() && std::memcmp(a.group(0), b.group(0), a.bytes()) == 0 &&
             std::memcmp(a.row_exponents(), b.row_exponents(), a.rows() * 4) == 0;
    };
    EXPECT_TRUE(same(alone.embedding, shared.embedding));
    for (std::size_t i = 0; i < alone.layers.size(); ++i) {
      EXPECT_TRUE(same(alone.layers[i].down, shared.layers[i].down));
      EXPECT_TRUE(same(alone.layers[i].query, shared.layers[i].query));
    }
    // Its first pages come back with the header beside them, which names the tensors.
    const ByteSpan table = file->tensor_bytes(*file->find_tensor("token_embd.weight"));
    EXPECT_EQ(mapped_pages(table.subspan(table.size() / 2)), 0U);
  }
}

TEST_F(FilePagesTest, PagesOfAllPartsComeAndGo) {
  model::SyntheticOptions options;
  options.hidden = 512;
  options.feed_forward = 1'504;
  options.vocabulary = 5'000;
  const std::string name = path + ".gguf";
  const std::string first = model::write_synthetic_parts(name, options, 3, true).value();
  const auto parts = model::GgufFile::open(first).value();
  const model::FilePages pages(*parts);
  for (const model::TensorInfo& tensor : parts->tensors()) {
    const ByteSpan range = parts->tensor_bytes(tensor);
    ASSERT_TRUE(pages.bring(range).ok()) << tensor.name;
    if (range.size() > 65'536) {
      EXPECT_GT(mapped_pages(range), 0U) << tensor.name;
    }
  }
  pages.drop_all();
  const model::ModelSpec spec = model::ModelSpec::read(*parts).value();
  const auto pool = kernels::ThreadPool::create(2).value();
  const StageWeights loaded =
      StageWeights::load(*parts, spec, {0, spec.layers}, pool.get()).value();
  EXPECT_EQ(loaded.bytes(), StageWeights::load(*file, spec, {0, spec.layers}).value().bytes());
  const std::string last = model::all_parts(first).back();
  std::filesystem::resize_file(last, parts->parts().back()->header().size());
  const auto cut = StageWeights::load(*parts, spec, {0, spec.layers}, pool.get());
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, ErrorCode::kIo);
  for (const std::string& part : model::all_parts(first)) std::filesystem::remove(part);
}

TEST_F(FilePagesTest, AFileThatWasCutShortIsAnErrorAndNoSignal) {
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  std::filesystem::resize_file(path, file->tensors().front().offset);
  const auto pool = kernels::ThreadPool::create(2).value();
  const auto refused = StageWeights::load(*file, spec, {0, spec.layers}, pool.get());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace hearth::node
