#include "node/proof/local_referee.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "node/proof/recompute.h"

namespace hearth::node {
namespace {

using ledger::RefereeCase;
using ledger::RefereeFinding;

constexpr std::uint32_t kModelLayers = 5;
constexpr std::uint32_t kAnswer = 12;

struct LocalRefereeTest : ::testing::Test {
  LocalRefereeTest() {
    model::SyntheticOptions options;
    options.layers = kModelLayers;
    const Bytes bytes = model::synthetic_model_bytes(options).value();
    path = std::filesystem::temp_directory_path() /
           ("hearth-referee-" + std::to_string(getpid()) + ".gguf");
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    request.salt = blake2b(as_bytes("salt"));
    request.split = {{0, 1}, {1, 4}, {4, kModelLayers}};
    for (TokenId i = 0; i < 20; ++i) request.prompt.push_back(30 + i * 7);
    request.sampling.temperature = 0.9F;
    request.sampling.seed = 11;
    request.sampling.max_tokens = kAnswer;
    request.sampling.grammar =
        (*model::compile_grammar({model::GrammarSource::Kind::kRegex, "[^a-m]*"}))->bytes();
  }
  ~LocalRefereeTest() override { std::filesystem::remove(path); }

  Result<RefereeFinding> compute() const { return compute_case(path, request, {}, {}); }
  // The model's own answer, of which nothing is known before.
  std::vector<TokenId> own() {
    request.answer = {-1};
    request.positions = static_cast<std::uint32_t>(request.prompt.size());
    return compute().value().tokens;
  }
  void claim(std::vector<TokenId> answer) {
    request.answer = std::move(answer);
    request.positions =
        static_cast<std::uint32_t>(request.prompt.size() + request.answer.size() - 1);
  }

  std::filesystem::path path;
  RefereeCase request;
};

TEST_F(LocalRefereeTest, TheGrammarIsAPartOfWhatIsJudged) {
  const std::vector<TokenId> answer = own();
  const Bytes grammar = std::exchange(request.sampling.grammar, {});
  const std::vector<TokenId> free = own();
  ASSERT_NE(free, answer) << "the grammar excludes something that is sampled without it";
  request.sampling.grammar = grammar;
  claim(free);
  const auto found = compute();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->tokens, answer);
}

TEST_F(LocalRefereeTest, WhatIsTrueIsFoundWhole) {
  const std::vector<TokenId> answer = own();
  ASSERT_EQ(answer.size(), kAnswer);
  claim(answer);
  const RefereeFinding found = compute().value();
  EXPECT_EQ(found.sampled, answer);
  EXPECT_EQ(found.tokens, answer);
  ASSERT_EQ(found.windows.size(), 1u);
  const auto& stages = found.windows.at(0);
  ASSERT_EQ(stages.size(), 3u);
  // A boundary is what it is, however the rest is cut.
  request.split = {{0, 4}, {4, kModelLayers}};
  const RefereeFinding other = compute().value();
  EXPECT_EQ(other.windows.at(0)[0], stages[1]);
  EXPECT_NE(stages[0], stages[1]);
  request.salt = blake2b(as_bytes("another"));
  EXPECT_NE(compute().value().windows.at(0)[0], stages[1]);
}

TEST_F(LocalRefereeTest, AFalseTokenIsFoundAndTheTrueAnswerGoesOnFromThere) {
  const std::vector<TokenId> answer = own();
  std::vector<TokenId> claimed = answer;
  claimed[5] = claimed[5] == 40 ? 41 : 40;
  claim(claimed);
  const RefereeFinding found = compute().value();
  ASSERT_EQ(found.sampled.size(), kAnswer);
  EXPECT_TRUE(std::equal(answer.begin(), answer.begin() + 6, found.sampled.begin()));
  EXPECT_NE(found.sampled[5], claimed[5]);
  EXPECT_EQ(found.tokens, answer);
}

TEST_F(LocalRefereeTest, WithoutTheTrueAnswerTheFirstFalseTokenIsFound) {
  const std::vector<TokenId> answer = own();
  std::vector<TokenId> claimed = answer;
  claimed[5] = claimed[5] == 40 ? 41 : 40;
  claim(claimed);
  RefereeOptions options;
  options.with_true_answer = false;
  const RefereeFinding found = compute_case(path, request, options, {}).value();
  EXPECT_TRUE(found.is_cut);
  EXPECT_EQ(found.tokens, std::vector<TokenId>(answer.begin(), answer.begin() + 6));
  EXPECT_EQ(found.windows, compute().value().windows);
  EXPECT_FALSE(compute().value().is_cut);
}

TEST_F(LocalRefereeTest, WhatCannotBeComputedHereIsNoFinding) {
  claim({1, 2, 3});
  request.split = {{0, 2}, {2, 4}};
  const auto other = compute();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kUnavailable);
  request.split = {{0, kModelLayers}};
  request.positions = 0;
  EXPECT_FALSE(compute());
  request.positions = 1'000;
  EXPECT_FALSE(compute());
  claim({1, 2, 3});
  const auto stopped = compute_case(path, request, {}, {[] { return true; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST_F(LocalRefereeTest, ACasePastItsDeadlineIsGivenUp) {
  claim(own());
  request.until = 1;  // long ago
  LocalReferee referee(path);
  std::promise<Result<RefereeFinding>> answered;
  referee.judge(request,
                [&](Result<RefereeFinding> found) { answered.set_value(std::move(found)); });
  const auto found = answered.get_future().get();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kTimeout);
}

TEST_F(LocalRefereeTest, ItAnswersFromAThreadOfItsOwn) {
  claim(own());
  LocalReferee referee(path);
  std::promise<Result<RefereeFinding>> answered;
  referee.judge(request,
                [&](Result<RefereeFinding> found) { answered.set_value(std::move(found)); });
  const auto found = answered.get_future().get();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->tokens, request.answer);
}

TEST_F(LocalRefereeTest, ItComputesWithTheModelThatTheCaseNames) {
  claim(own());
  request.model = blake2b(as_bytes("a model"));
  LocalReferee referee(LocalReferee::FileOf([this](const Hash256& model) -> Result<std::string> {
    if (model == request.model) return path.string();
    return Error{ErrorCode::kUnavailable, "no such model"};
  }));
  const auto judge = [&referee](const RefereeCase& one) {
    std::promise<Result<RefereeFinding>> answered;
    referee.judge(one, [&](Result<RefereeFinding> found) { answered.set_value(std::move(found)); });
    return answered.get_future().get();
  };
  const auto found = judge(request);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->tokens, request.answer);
  RefereeCase other = request;
  other.model = Hash256();
  EXPECT_EQ(judge(other).error().message, "no such model");
}

}  // namespace
}  // namespace hearth::node
