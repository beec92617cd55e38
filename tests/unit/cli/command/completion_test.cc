#include "cli/command/completion.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct CompletionTest : ::testing::Test {
  CLI::App app{"hearth", "hearth"};
  bool flag = false;
  std::string text;
  fs::path folder = fs::temp_directory_path() / ("hearth-completion-" + std::to_string(getpid()));

  void SetUp() override {
    fs::create_directories(folder);
    for (const char* name : {"alpha.gguf", "albert.gguf", "beta.gguf"}) {
      std::ofstream(folder / name) << "x";
    }
    setenv("HEARTH_MODELS", folder.c_str(), 1);
    app.add_flag("--version", flag);
    auto* run = app.add_subcommand("run");
    run->add_option("model", text);
    run->add_option("-t,--temperature", text);
    run->add_flag("--top,--topmost", flag);
    auto* serve = app.add_subcommand("serve");
    serve->add_option("-m,--model", text);
    app.add_subcommand("worker")->add_option("-m,--model", text);
    app.add_subcommand("completion")->add_option("shell", text);
    auto* model = app.add_subcommand("model");
    model->add_subcommand("rm")->add_flag("--all", flag);
    app.add_subcommand("__complete")->group("");
    app.add_subcommand("ps");
    app.add_subcommand("logs")->add_option("node", text);
  }
  void TearDown() override {
    unsetenv("HEARTH_MODELS");
    fs::remove_all(folder);
  }
  Words sorted(const Words& words) {
    Words found = complete(app, words);
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_F(CompletionTest, OffersVerbsThatBeginWithTheWordAndHidesItsOwn) {
  EXPECT_EQ(sorted({""}), (Words{"completion", "logs", "model", "ps", "run", "serve", "worker"}));
  EXPECT_EQ(sorted({}), (Words{"completion", "logs", "model", "ps", "run", "serve", "worker"}));
  EXPECT_EQ(sorted({"r"}), Words{"run"});
  EXPECT_EQ(sorted({"run"}), Words{"run"});
  EXPECT_EQ(sorted({"x"}), Words{});
  EXPECT_EQ(sorted({"__"}), Words{});
  EXPECT_EQ(sorted({"ps", ""}), Words{});
}

TEST_F(CompletionTest, OffersTheFlagsOfTheVerb) {
  EXPECT_EQ(sorted({"--v"}), Words{"--version"});
  EXPECT_EQ(sorted({"run", "--t"}), (Words{"--temperature", "--top", "--topmost"}));
  EXPECT_EQ(sorted({"run", "--tem"}), Words{"--temperature"});
  EXPECT_EQ(sorted({"run", "alpha", "--top"}), (Words{"--top", "--topmost"}));
  EXPECT_EQ(sorted({"model", "rm", "--a"}), Words{"--all"});
  EXPECT_EQ(sorted({"serve", "--temperature"}), Words{});
}

TEST_F(CompletionTest, OffersModelsWhereOneIsExpected) {
  EXPECT_EQ(sorted({"run", ""}), (Words{"albert", "alpha", "beta"}));
  EXPECT_EQ(sorted({"run", "al"}), (Words{"albert", "alpha"}));
  EXPECT_EQ(sorted({"model", "b"}), Words{"beta"});
  EXPECT_EQ(sorted({"model", "r"}), Words{"rm"});
  EXPECT_EQ(sorted({"serve", ""}), Words{});
  for (const char* before : {"--model", "-m"}) {
    EXPECT_EQ(sorted({"serve", before, "al"}), (Words{"albert", "alpha"}));
  }
  EXPECT_EQ(sorted({"ps", "al"}), Words{});
}

TEST_F(CompletionTest, OffersTheWordsThatAFlagOrVerbTakes) {
  EXPECT_EQ(sorted({"serve", "--log-level", ""}),
            (Words{"debug", "error", "info", "off", "trace", "warn"}));
  EXPECT_EQ(sorted({"serve", "--log-level", "w"}), Words{"warn"});
  EXPECT_EQ(sorted({"completion", ""}), (Words{"bash", "fish", "zsh"}));
  EXPECT_EQ(sorted({"completion", "f"}), Words{"fish"});
  EXPECT_EQ(sorted({"worker", "-m", "b"}), Words{"beta"});
}

TEST_F(CompletionTest, OffersNodesThatHaveLogged) {
  fs::create_directories(folder / "logs");
  std::ofstream(folder / "logs/serve.log") << "2026 x\n[local-1] y\n";
  setenv("HEARTH_DATA_DIR", folder.c_str(), 1);
  EXPECT_EQ(sorted({"logs", ""}), (Words{"coordinator", "local-1"}));
  EXPECT_EQ(sorted({"logs", "l"}), Words{"local-1"});
  unsetenv("HEARTH_DATA_DIR");
}

TEST_F(CompletionTest, EveryShellAsksTheProgramItself) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_NE(completion_script(shell).find("hearth __complete --"), std::string::npos) << shell;
  }
  EXPECT_EQ(completion_script("csh"), "");
  EXPECT_EQ(completion_script(""), "");
}

}  // namespace
}  // namespace hearth::cli
