#include "tests/tools/hashes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/terminal/exit_codes.h"
#include "model/synthetic.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

class HashesCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model(1);
    options_.model = path_.string();
    options_.tokens = 40;
    options_.generate = 4;
    options_.json = true;
  }
  void TearDown() override { fs::remove(path_); }

  void write_model(std::uint64_t seed) {
    model::SyntheticOptions synthetic;
    synthetic.seed = seed;
    ASSERT_TRUE(model::write_synthetic_model(path_.string(), synthetic).ok());
  }
  std::string output() {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_hashes(options_), kExitDone);
    return ::testing::internal::GetCapturedStdout();
  }
  nlohmann::json json() { return nlohmann::json::parse(output(), nullptr, false); }

  const fs::path path_ =
      fs::temp_directory_path() / ("hearth-hashes-" + std::to_string(getpid()) + ".gguf");
  HashesOptions options_;
};

TEST_F(HashesCommand, AreTheSameOnAnyNumberOfThreads) {
  options_.threads = 1;
  const std::string one = output();
  options_.threads = 3;
  EXPECT_EQ(output(), one);
}

TEST_F(HashesCommand, ABoundaryHasOneDigestOnEverySplit) {
  const nlohmann::json all = json();
  ASSERT_EQ(all["boundaries"].size(), 5U);  // four layers
  EXPECT_EQ(all["generated"].size(), 4U);
  options_.stages = 2;
  const nlohmann::json split = json();
  ASSERT_EQ(split["boundaries"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(split["boundaries"][i], all["boundaries"][2 * i]);
  }
  EXPECT_NE(split["digest"], all["digest"]);
}

TEST_F(HashesCommand, DifferWhereTheModelOrThePromptDoes) {
  const nlohmann::json one = json();
  options_.tokens = 41;
  EXPECT_NE(json()["digest"], one["digest"]);
  options_.prompt = "a text";
  EXPECT_NE(json()["digest"], one["digest"]);
  options_.prompt.clear();
  options_.tokens = 40;
  EXPECT_EQ(json(), one);
  write_model(2);
  const nlohmann::json other = json();
  EXPECT_NE(other["boundaries"][1], one["boundaries"][1]);
}

TEST_F(HashesCommand, EachHashAndTheLastLine) {
  options_.each = true;
  const nlohmann::json every = json();
  EXPECT_EQ(every["boundaries"][1]["hashes"].size(), 43U);  // the last token is not read
  options_.json = false;
  const std::string text = output();
  EXPECT_NE(text.find("layer 4 position 42 "), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 72), "digest " + every["digest"].get<std::string>() + "\n");
}

TEST_F(HashesCommand, RefuseWhatDoesNotFit) {
  options_.stages = 9;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_hashes(options_), kExitFailed);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("9 stages for 4 layers"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth::cli
