// The verb over a small random model, against an independent way to the same figure: the log
// probability of the next token as the sampler reports it, one position at a time.
#include "tests/tools/perplexity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/terminal/exit_codes.h"
#include "model/synthetic.h"
#include "model/text/tokenizer.h"
#include "node/runner/local_runner.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

class PerplexityCommand : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    model::SyntheticOptions synthetic;
    synthetic.family = GetParam();
    ASSERT_TRUE(model::write_synthetic_model(file("model.gguf"), synthetic).ok());
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the " + std::to_string(i * i) + " small birds sing, ";
    write("text", text + "\n");
    options_.model = file("model.gguf");
    options_.text = file("text");
    options_.context = 24;
    options_.chunks = 3;
    options_.threads = 2;
    options_.json = true;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(file(name), std::ios::binary) << text;
  }

  nlohmann::json figures() {
    ::testing::internal::CaptureStdout();
    const int code = run_perplexity(options_);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, kExitDone);
    return nlohmann::json::parse(out, nullptr, false);
  }
  std::string refusal() {
    ::testing::internal::CaptureStderr();
    const int code = run_perplexity(options_);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, kExitFailed) << text;
    return text;
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("hearth-perplexity-" + std::to_string(getpid()));
  PerplexityOptions options_;
};

// Minus the mean log probability, by as many runs as there are scored positions.
double surprise_one_by_one(const std::string& path, const std::string& text, std::uint32_t context,
                           std::uint32_t chunks) {
  const auto file = model::GgufFile::open(path).value();
  const auto tokenizer = model::Tokenizer::load(*file).value();
  const auto tokens = tokenizer->encode(text, model::SpecialTokens::kText, true).value();
  const auto runner = node::LocalRunner::load(file, {}).value();
  std::uint64_t next_id = 1;
  double sum = 0.0;
  std::uint32_t count = 0;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::uint32_t place = context / 2; place + 1 < context; ++place) {
      const auto begin = tokens.begin() + chunk * context;
      std::vector<TokenId> prompt(begin, begin + place + 1);
      if (tokenizer->adds_bos()) prompt.front() = tokenizer->bos();
      SequenceOpen open;
      open.sequence = SequenceId(next_id++);
      open.prompt_tokens = place + 1;
      open.sampling.max_tokens = 1;
      open.sampling.temperature = 0.0F;
      open.sampling.logprobs = true;
      // The largest bias makes the next token of the text the sampled one; log probabilities are
      // of the logits as they came.
      open.sampling.logit_bias = {{*(begin + place + 1), 100.0F}};
      node::LocalRunner::Events events;
      events.on_token = [&](const SampledToken& token) {
        EXPECT_EQ(token.token, *(begin + place + 1));
        sum -= token.logprob;
        ++count;
      };
      EXPECT_TRUE(runner->submit(open, prompt, events).ok());
      while (runner->step().value()) {
      }
    }
  }
  return sum / count;
}

TEST_P(PerplexityCommand, IsThePerplexityOfTheSecondHalves) {
  const nlohmann::json json = figures();
  EXPECT_EQ(json["chunks"], 3);
  EXPECT_EQ(json["context"], 24);
  EXPECT_EQ(json["tokens"], 3 * 11);
  EXPECT_GT(json["perplexity_error"], 0.0);
  std::ifstream stream(options_.text);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  text.pop_back();
  const double wanted = surprise_one_by_one(options_.model, text, 24, 3);
  EXPECT_NEAR(std::log(json["perplexity"].get<double>()), wanted, 1e-4);
}

TEST_P(PerplexityCommand, DoesNotDependOnThreads) {
  const nlohmann::json two = figures();
  options_.threads = 1;
  EXPECT_EQ(figures(), two);
}

TEST_P(PerplexityCommand, ComparesWithABaseOfItsOwn) {
  options_.save_base = file("base");
  const nlohmann::json alone = figures();
  options_.save_base.clear();
  options_.kl_base = file("base");
  options_.context = 0;  // that of the base
  const nlohmann::json same = figures();
  EXPECT_EQ(same["perplexity"], alone["perplexity"]);
  EXPECT_EQ(same["context"], 24);
  EXPECT_NEAR(same["mean_kl"], 0.0, 1e-5);
  EXPECT_GT(same["log_ratio"], -1e-4);  // the base's surprise is cut off where it is largest
  EXPECT_NEAR(same["mean_p_delta"], 0.0, 1e-4);

  model::SyntheticOptions other;
  other.family = GetParam();
  other.seed = 2;
  ASSERT_TRUE(model::write_synthetic_model(options_.model, other).ok());
  const nlohmann::json different = figures();
  EXPECT_GT(different["mean_kl"], 0.01);
  EXPECT_LT(different["same_top"], 0.9);
  EXPECT_EQ(different["base_perplexity"], same["base_perplexity"]);
}

TEST_P(PerplexityCommand, RefusesABaseOfAnotherTextOrWindow) {
  options_.save_base = file("base");
  figures();
  options_.save_base.clear();
  options_.kl_base = file("base");
  options_.context = 32;
  EXPECT_NE(refusal().find("-c is 32, the base was written with 24"), std::string::npos);
  options_.context = 0;
  write("text", "the 0 small birds sing, the 1 small fish sing, " + std::string(400, 'x'));
  EXPECT_NE(refusal().find("of the text is"), std::string::npos);
  write("text", "short");
  EXPECT_NE(refusal().find("the base 72"), std::string::npos);
}

TEST_P(PerplexityCommand, RefusesATextWithoutAWindow) {
  write("text", "short");
  EXPECT_NE(refusal().find("a window has 24"), std::string::npos);
  options_.text = file("none");
  EXPECT_NE(refusal().find("cannot open the text"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, PerplexityCommand, ::testing::Values("llama", "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hearth::cli
