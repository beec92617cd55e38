#include "cli/models/model_finder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "model/gguf/parts.h"
#include "model/synthetic.h"
#include "tests/tools/parts_writer.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

struct ModelFinderTest : ::testing::Test {
  ModelFinderTest() {
    std::string pattern = (fs::temp_directory_path() / "hearth-finder-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = fs::canonical(pattern);
  }
  ~ModelFinderTest() override { fs::remove_all(folder); }
  fs::path write(const std::string& name, std::size_t bytes) const {
    const fs::path path = folder / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
    return path;
  }
  fs::path folder;
};

TEST_F(ModelFinderTest, FindsFilesOfTheSizeOnce) {
  const fs::path blob = write("hub/models--a--b/blobs/0123", 10);
  fs::create_directories(folder / "hub/models--a--b/snapshots/c");
  fs::create_symlink("../../blobs/0123", folder / "hub/models--a--b/snapshots/c/m.gguf");
  const fs::path other = write("b/c/d/model", 10);
  write("b/longer", 11);
  write("b/empty", 0);
  fs::create_directory_symlink(folder, folder / "b/round");  // never followed
  fs::create_symlink("nowhere", folder / "b/dangling");
  std::vector<std::string> found =
      models_of_size({folder / "hub", folder / "b", folder / "missing", folder / "hub"}, 10);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{other.string(), blob.string()}));
  EXPECT_TRUE(models_of_size({folder}, 12).empty());
}

// They would be gone once the pull has verified them.
TEST_F(ModelFinderTest, FilesOfAPullThatHasNotEndedAreNoModels) {
  const std::uint64_t bytes = model::synthetic_model_bytes({}).value().size();
  write(".m.incomplete", bytes);
  const fs::path parts = folder / ".m.incomplete-parts";
  fs::create_directories(parts);
  ASSERT_TRUE(model::write_synthetic_parts((parts / "m.gguf").string(), {}, 2, false).ok());
  EXPECT_TRUE(models_of_size({folder}, bytes).empty());
  fs::rename(parts, folder / "m");
  EXPECT_EQ(models_of_size({folder}, bytes).size(), 1U);
}

TEST_F(ModelFinderTest, AModelInPartsHasTheSizeOfTheOneFile) {
  const std::uint64_t bytes = model::synthetic_model_bytes({}).value().size();
  fs::create_directories(folder / "a");
  const std::string first =
      model::write_synthetic_parts((folder / "a/m.gguf").string(), {}, 3, true).value();
  write("b/m-00001-of-00002.gguf", bytes / 2);  // no model
  write("b/m-00002-of-00002.gguf", bytes / 2);
  EXPECT_EQ(models_of_size({folder}, bytes), std::vector<std::string>{first});
  EXPECT_TRUE(models_of_size({folder}, bytes + 32).empty());
  // As the hub's cache has them: links with the names, to files without.
  fs::create_directories(folder / "hub/snapshots/c");
  fs::create_directories(folder / "hub/blobs");
  int number = 0;
  for (const std::string& part : model::all_parts(first)) {
    const fs::path blob = folder / "hub/blobs" / std::to_string(number++);
    fs::rename(part, blob);
    fs::create_symlink(blob, folder / "hub/snapshots/c" / fs::path(part).filename());
  }
  EXPECT_EQ(models_of_size({folder / "hub"}, bytes),
            std::vector<std::string>{(folder / "hub/snapshots/c/m-00001-of-00003.gguf").string()});
  fs::remove(folder / "hub/blobs/1");
  EXPECT_TRUE(models_of_size({folder}, bytes).empty());
}

TEST_F(ModelFinderTest, LooksWhereOtherProgramsKeepModels) {
  const auto has = [](const std::vector<std::string>& more, const fs::path& wanted) {
    const auto folders = model_folders(more);
    return std::find(folders.begin(), folders.end(), wanted) != folders.end();
  };
  for (const char* name : {"HF_HUB_CACHE", "OLLAMA_MODELS"}) {
    setenv(name, (folder / name).c_str(), 1);
    EXPECT_TRUE(has({}, folder / name));
    unsetenv(name);
  }
  setenv("HF_HOME", folder.c_str(), 1);
  EXPECT_TRUE(has({}, folder / "hub"));
  unsetenv("HF_HOME");
  EXPECT_TRUE(has({"/mnt/models"}, "/mnt/models"));
}

}  // namespace
}  // namespace hearth::cli
