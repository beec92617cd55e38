#include "node/proof/choice_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "proto/committed_sampling.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kLayers = 5;
const Hash256 kSalt = blake2b(as_bytes("salt"));

struct ChoiceCheckTest : ::testing::Test {
  static void SetUpTestSuite() {
    model::SyntheticOptions options;
    options.layers = kLayers;
    bytes = new Bytes(model::synthetic_model_bytes(options).value());
  }

  ChoiceCheckTest() {
    file = model::GgufFile::parse(*bytes, "tiny").value();
    LocalOptions local;
    local.stages = kStages;
    local.layers = {{0, 1}, {1, 4}, {4, kLayers}};
    runner = LocalRunner::load(file, local).value();
    claim.choice = 1;
    for (TokenId i = 0; i < 20; ++i) claim.prompt.push_back(30 + i * 7);
    claim.sampling.temperature = 0.9F;
    claim.sampling.seed = 11;
    claim.sampling.max_tokens = 12;
    claim.salt = kSalt;
  }

  SequenceOpen open(bool hashes) {
    SequenceOpen out;
    out.sequence = SequenceId(1'000'000 + next++);
    out.prompt_tokens = static_cast<std::uint32_t>(claim.prompt.size());
    out.report_hashes = hashes;
    out.sampling = claim.sampling;
    return out;
  }
  void drain() {
    for (bool more = true; more;) more = runner->step().value();
  }
  // The model's own answer.
  std::vector<TokenId> answer() {
    std::vector<TokenId> out;
    const auto on_token = [&out](const SampledToken& token) { out.push_back(token.token); };
    EXPECT_TRUE(runner->submit(open(false), claim.prompt, {on_token, {}}).ok());
    drain();
    return out;
  }
  // What stages sign that were fed these tokens.
  void sign(const std::vector<TokenId>& answer) {
    std::vector<TokenId> fed = claim.prompt;
    fed.insert(fed.end(), answer.begin(), answer.end() - 1);
    rows.assign(kStages, std::vector<Hash256>(fed.size()));
    LocalRunner::Events events;
    events.on_hash = [this](const RowHash& hash) {
      if (hash.position < rows[0].size()) rows[hash.stage][hash.position] = hash.out;
    };
    SequenceOpen forced = open(true);
    forced.sampling.max_tokens = 400;
    forced.sampling.stop_tokens.clear();
    ASSERT_TRUE(runner->submit(forced, fed, events).ok());
    for (std::size_t i = 0; i * 128 <= fed.size(); ++i) ASSERT_TRUE(runner->step().ok());
    runner->cancel(forced.sequence);
    drain();
    claim.receipts.clear();
    const std::vector<std::uint32_t> tokens(fed.begin(), fed.end());
    for (std::uint16_t i = 0; i < kStages; ++i) {
      ledger::Receipt receipt;
      receipt.slot.stage = i;
      receipt.stages = kStages;
      receipt.layer_begin = i == 0 ? 0 : (i == 1 ? 1 : 4);
      receipt.layer_end = i == 0 ? 1 : (i == 1 ? 4 : kLayers);
      receipt.positions = static_cast<std::uint32_t>(fed.size());
      receipt.prompt_positions = static_cast<std::uint32_t>(claim.prompt.size());
      receipt.tokens = ledger::commit_tokens(kSalt, 0, tokens, encode_committed(claim.sampling));
      claim.receipts.push_back(receipt);
    }
    root_all();
    claim.answer = answer;
  }
  void root_all() {
    for (std::uint32_t i = 0; i < kStages; ++i) {
      ledger::Receipt& receipt = claim.receipts[i];
      const bool last = i + 1 == kStages;
      receipt.in_root = i == 0 ? receipt.tokens : claim.receipts[i - 1].out_root;
      receipt.out_root = last ? receipt.tokens : ledger::boundary_root(kSalt, 0, rows[i]);
    }
  }

  ChoiceChecked check() {
    RecomputeEvents events;
    events.progress = [this](std::uint64_t done, std::uint64_t of) {
      EXPECT_LE(done, of);
      heard = done;
    };
    auto found = check_choice(*runner, claim, events);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? *found : ChoiceChecked();
  }
  void expect(Differs what, std::optional<std::uint32_t> stage = {},
              std::optional<Position> position = {}) {
    const ChoiceChecked found = check();
    ASSERT_TRUE(found.difference);
    EXPECT_EQ(differs_name(found.difference->what), differs_name(what)) << found.difference->text;
    EXPECT_EQ(found.difference->stage, stage) << found.difference->text;
    EXPECT_EQ(found.difference->position, position) << found.difference->text;
    EXPECT_EQ(found.difference->choice, 1U);
    EXPECT_TRUE(found.tokens.empty());
  }

  static Bytes* bytes;
  std::shared_ptr<const model::GgufFile> file;
  std::unique_ptr<LocalRunner> runner;
  ChoiceClaim claim;
  std::vector<std::vector<Hash256>> rows;  // that went out, by stage and position
  std::uint64_t next = 0;
  std::uint64_t heard = 0;
};
Bytes* ChoiceCheckTest::bytes = nullptr;

TEST_F(ChoiceCheckTest, WhatWasComputedIsProved) {
  const std::vector<TokenId> own = answer();
  sign(own);
  for (const bool known : {true, false}) {
    if (!known) claim.answer.reset();
    const ChoiceChecked found = check();
    EXPECT_FALSE(found.difference) << found.difference->text;
    EXPECT_EQ(found.positions, claim.prompt.size() + own.size() - 1);
    EXPECT_EQ(heard, found.positions);
    std::vector<TokenId> tokens;
    for (const SampledToken& token : found.tokens) tokens.push_back(token.token);
    EXPECT_EQ(tokens, own);
    EXPECT_EQ(found.tokens.back().finish, FinishReason::kLength);
  }
}

TEST_F(ChoiceCheckTest, AnAnswerThatEndedByItselfIsProved) {
  const std::vector<TokenId> all = answer();
  // The sixth token ends it; what the same token did before it is another matter.
  claim.sampling.stop_tokens = {all[5]};
  const std::vector<TokenId> own = answer();
  sign(own);
  const ChoiceChecked found = check();
  EXPECT_FALSE(found.difference) << found.difference->text;
  ASSERT_EQ(found.tokens.size(), own.size());
  EXPECT_EQ(found.tokens.back().finish, FinishReason::kStop);
}

TEST_F(ChoiceCheckTest, AFalseStageIsNamed) {
  sign(answer());
  rows[1][17].bytes[0] ^= std::byte{1};
  root_all();
  expect(Differs::kStage, 1);
  // With the hashes that it gave the client, the position as well.
  for (Position p = 0; p < rows[1].size(); ++p) claim.hashes[1][p] = rows[1][p];
  expect(Differs::kStage, 1, 17);
  // They must be those that it has signed.
  claim.hashes[1][3].bytes[0] ^= std::byte{1};
  expect(Differs::kStage, 1);
  // The first stage that lies, not those that compute with it.
  rows[0][16].bytes[0] ^= std::byte{1};
  root_all();
  expect(Differs::kStage, 0);
}

TEST_F(ChoiceCheckTest, ATokenThatWasNotSampledIsTheLastStages) {
  std::vector<TokenId> own = answer();
  own[4] = own[4] == 50 ? 51 : 50;
  sign(own);  // and all that follows from it is right
  expect(Differs::kStage, kStages - 1, static_cast<Position>(claim.prompt.size() + 4));
}

// The grammar is among the parameters that receipts commit to, and decides what is sampled.
TEST_F(ChoiceCheckTest, AnAnswerUnderAGrammarIsProvedAndUnderNoOther) {
  const auto grammar = [](const char* schema) {
    return (*model::compile_grammar({model::GrammarSource::Kind::kJsonSchema, schema}))->bytes();
  };
  claim.sampling.grammar = grammar(R"({"enum":["red","green","blue","a longer colour"]})");
  const std::vector<TokenId> own = answer();
  sign(own);
  const ChoiceChecked found = check();
  EXPECT_FALSE(found.difference) << found.difference->text;
  ASSERT_EQ(found.tokens.size(), own.size());
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(found.tokens[i].token, own[i]);
  const Bytes right = claim.sampling.grammar;
  claim.sampling.grammar = grammar(R"({"enum":["red","green","blue","a longer colours"]})");
  EXPECT_TRUE(check().difference);
  claim.sampling.grammar.clear();
  EXPECT_TRUE(check().difference);
  // A last stage that does without masks, and signs that it has them.
  const std::vector<TokenId> free = answer();
  ASSERT_NE(free, own);
  claim.sampling.grammar = right;
  sign(free);
  const ChoiceChecked lied = check();
  ASSERT_TRUE(lied.difference);
  EXPECT_EQ(lied.difference->what, Differs::kStage) << lied.difference->text;
  EXPECT_EQ(lied.difference->stage, kStages - 1);
}

TEST_F(ChoiceCheckTest, WhatTheClientHasChangedIsToldFromThat) {
  const std::vector<TokenId> own = answer();
  sign(own);
  const auto first = static_cast<Position>(claim.prompt.size());
  for (const Position at : {0U, 4U, 11U}) {
    claim.answer = own;
    TokenId& token = (*claim.answer)[at];
    token = token == 50 ? 51 : 50;
    const ChoiceChecked found = check();
    ASSERT_TRUE(found.difference);
    EXPECT_EQ(found.difference->what, Differs::kAnswer) << found.difference->text;
    EXPECT_EQ(found.difference->position, first + at);
  }
  claim.answer = own;
  claim.salt.bytes[0] ^= std::byte{1};
  expect(Differs::kSalt);
  claim.salt = kSalt;
  claim.prompt[3] += 1;
  expect(Differs::kSalt);
  claim.prompt[3] -= 1;
  claim.sampling.seed += 1;
  expect(Differs::kSampling);
  claim.sampling.seed -= 1;
  claim.sampling.top_k = 3;
  expect(Differs::kSampling);
}

TEST_F(ChoiceCheckTest, ReceiptsOfAnotherSizeAreOfAnotherRequest) {
  const std::vector<TokenId> own = answer();
  sign(own);
  claim.prompt.push_back(5);
  expect(Differs::kRequest);
  claim.prompt.pop_back();
  claim.sampling.max_tokens = 10;
  expect(Differs::kRequest);
  claim.sampling.max_tokens = 20;
  claim.answer->insert(claim.answer->end(), 3, 40);
  expect(Differs::kRequest, {}, static_cast<Position>(claim.prompt.size() + own.size() - 1));
}

}  // namespace
}  // namespace hearth::node
