#include "node/engine/answer_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/synthetic.h"
#include "model/text/tokenizer.h"
#include "node/engine/engine.h"

namespace hearth::node {
namespace {

using model::GrammarSource;

constexpr SequenceId kId{1};
constexpr std::string_view kSchema = R"({"type":"object","properties":{"name":{"type":"string",
    "maxLength":6},"on":{"type":"boolean"},"n":{"type":"array","items":{"type":"integer"},
    "maxItems":3}},"required":["name","on","n"],"additionalProperties":false})";

Bytes grammar_bytes(std::string_view schema) {
  return (*model::compile_grammar({GrammarSource::Kind::kJsonSchema, std::string(schema)}))
      ->bytes();
}

class AnswerGrammarTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { bytes_ = new Bytes(model::synthetic_model_bytes({}).value()); }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
    tokenizer_ = model::Tokenizer::load(*file_).value();
  }

  std::unique_ptr<Engine> load(VocabularyReader* vocabulary = nullptr, LayerRange layers = {}) {
    EngineOptions options;
    options.layers = layers.end > 0 ? layers : LayerRange{0, spec_.layers};
    options.vocabulary = vocabulary;
    options.kv_budget_bytes = 16 << 20;
    options.batch_rows = 64;
    return Engine::load(file_, spec_, options).value();
  }

  StepBatch prompt(Bytes grammar, float temperature = 1.0F) {
    StepBatch batch;
    batch.opens.push_back({kId, 4, false, {}});
    SamplingParams& sampling = batch.opens[0].sampling;
    sampling.seed = 11;
    sampling.temperature = temperature;
    sampling.max_tokens = 200;
    sampling.stop_tokens = tokenizer_->end_tokens();
    sampling.grammar = std::move(grammar);
    for (std::uint32_t i = 0; i < 4; ++i) {
      batch.rows.push_back(
          {kId, i, static_cast<TokenId>(3 + i), i == 3 ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  static StepResult run(Engine& engine, StepBatch batch) {
    StepResult result;
    const Status status = engine.step(batch, result);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return result;
  }

  // The answer, token by token.
  std::vector<TokenId> answer(Engine& engine, StepBatch first) {
    std::vector<TokenId> tokens;
    StepResult result = run(engine, std::move(first));
    for (Position at = 4;; ++at) {
      EXPECT_EQ(result.tokens.size(), 1U);
      EXPECT_NE(result.tokens.at(0).finish, FinishReason::kError);
      tokens.push_back(result.tokens.at(0).token);
      if (result.tokens[0].finish != FinishReason::kNone) return tokens;
      StepBatch next;
      next.rows.push_back({kId, at, tokens.back(), BatchRow::kSample});
      result = run(engine, std::move(next));
    }
  }

  std::string text_of(const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) text += tokenizer_->token_bytes(token, false);
    return text;
  }

  static Bytes* bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  std::shared_ptr<const model::Tokenizer> tokenizer_;
};
Bytes* AnswerGrammarTest::bytes_ = nullptr;

TEST_F(AnswerGrammarTest, AnAnswerIsATextOfTheGrammar) {
  const Bytes grammar = grammar_bytes(kSchema);
  const auto parsed = model::Grammar::parse(grammar).value();
  for (const float temperature : {0.0F, 1.0F, 5.0F}) {
    const auto engine = load();
    const std::vector<TokenId> tokens = answer(*engine, prompt(grammar, temperature));
    model::GrammarState state(*parsed);
    const std::string text = text_of(tokens);
    EXPECT_TRUE(state.accept(text)) << text;
    // A number may go on for as long as the answer may.
    EXPECT_TRUE(state.may_end() || tokens.size() == 200) << text;
  }
}

// The last stage says what the grammar forces next; a token of it may be cut otherwise by the
// sampler, and is never an end.
TEST_F(AnswerGrammarTest, ForcedTokensSpellWhatMustFollow) {
  const Bytes grammar = grammar_bytes(kSchema);
  const auto engine = load();
  std::string said;
  std::string forced;
  StepResult result = run(*engine, prompt(grammar));
  for (Position at = 4; result.tokens.at(0).finish == FinishReason::kNone; ++at) {
    const TokenId token = result.tokens[0].token;
    said += text_of({token});
    if (!result.drafts.empty()) {
      ASSERT_FALSE(result.drafts[0].forced.empty());
      forced = said + text_of(result.drafts[0].forced);
      for (const TokenId one : result.drafts[0].forced) {
        const auto ends = tokenizer_->end_tokens();
        EXPECT_EQ(std::ranges::count(ends, one), 0);
      }
    }
    const std::size_t both = std::min(said.size(), forced.size());
    EXPECT_EQ(said.substr(0, both), forced.substr(0, both));
    StepBatch next;
    next.rows.push_back({kId, at, token, BatchRow::kSample});
    result = run(*engine, std::move(next));
  }
  EXPECT_FALSE(forced.empty());
  StepBatch plain = prompt(grammar);
  plain.opens[0].sequence = plain.rows[0].sequence = SequenceId(2);
  for (BatchRow& row : plain.rows) row.sequence = SequenceId(2);
  plain.opens[0].drafts = false;
  EXPECT_TRUE(run(*engine, plain).drafts.empty());
}

// Drafts that are rejected leave no trace, also behind the states that are kept.
TEST_F(AnswerGrammarTest, DraftedRowsSayWhatSingleStepsSay) {
  const Bytes grammar = grammar_bytes(R"({"type":"string","minLength":80,"maxLength":100})");
  const auto alone = load();
  const std::vector<TokenId> tokens = answer(*alone, prompt(grammar));
  ASSERT_GT(tokens.size(), 20U);
  const auto engine = load();
  StepResult result = run(*engine, prompt(grammar));
  ASSERT_EQ(result.tokens.at(0).token, tokens[0]);
  std::size_t known = 1;
  while (known < tokens.size()) {
    StepBatch batch;
    // Two right drafts, then wrong ones.
    for (std::size_t i = 0; i < 6; ++i) {
      const bool right = i < 3 && known - 1 + i < tokens.size();
      const TokenId token = right ? tokens[known - 1 + i] : TokenId{3};
      batch.rows.push_back(
          {kId, static_cast<Position>(4 + known - 1 + i), token, BatchRow::kSample});
    }
    result = run(*engine, std::move(batch));
    ASSERT_EQ(result.tokens.size(), 6U);
    std::size_t i = 0;
    for (; i < 3 && known < tokens.size(); ++i) ASSERT_EQ(result.tokens[i].token, tokens[known++]);
    StepBatch back;
    back.truncates.push_back({kId, static_cast<Position>(4 + known - 1)});
    run(*engine, std::move(back));
  }
}

// The prompt with the answer so far, as another pipeline is told after a failure.
TEST_F(AnswerGrammarTest, TheStateIsThatOfTheTokens) {
  const Bytes grammar = grammar_bytes(kSchema);
  const auto first = load();
  const std::vector<TokenId> tokens = answer(*first, prompt(grammar));
  const auto second = load();
  StepBatch again = prompt(grammar);
  again.rows.back().flags = 0;
  const std::size_t half = std::min<std::size_t>(tokens.size() / 2, 32);  // rows of a step
  for (std::size_t i = 0; i < half; ++i) {
    again.rows.push_back({kId, static_cast<Position>(4 + i), tokens[i],
                          i + 1 == half ? BatchRow::kSample : std::uint8_t{0}});
  }
  const StepResult result = run(*second, std::move(again));
  EXPECT_EQ(result.tokens.at(0).token, tokens[half]);
}

TEST_F(AnswerGrammarTest, BytesThatAreNoGrammarFailTheSequenceAlone) {
  const auto engine = load();
  StepBatch batch = prompt({std::byte{1}, std::byte{9}});
  const StepResult result = run(*engine, std::move(batch));
  ASSERT_EQ(result.tokens.size(), 1U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(result.tokens[0].error, ErrorCode::kInvalidInput);
}

// What a test sees of it: who asked, and how often.
struct CountingReader final : VocabularyReader {
  void begin(std::shared_ptr<const model::GgufFile> of) override {
    ++begun;
    file = std::move(of);
  }
  Result<std::shared_ptr<const model::GrammarVocabulary>> get() override {
    ++asked;
    return read_vocabulary(*file);
  }
  std::shared_ptr<const model::GgufFile> file;
  int begun = 0;
  int asked = 0;
};

TEST_F(AnswerGrammarTest, TheLastStageBeginsToReadTheVocabularyWhenItIsLoaded) {
  CountingReader reader;
  ASSERT_GT(spec_.layers, 1U);
  const auto first = load(&reader, {0, 1});
  EXPECT_EQ(reader.begun, 0) << "a stage that draws no token needs none";
  const auto engine = load(&reader);
  EXPECT_EQ(reader.begun, 1);
  EXPECT_EQ(reader.asked, 0);
  const auto alone = load();
  const Bytes grammar = grammar_bytes(kSchema);
  EXPECT_EQ(answer(*engine, prompt(grammar)), answer(*alone, prompt(grammar)));
  EXPECT_EQ(reader.asked, 1);
}

TEST_F(AnswerGrammarTest, KeepGoesBackToAnyLength) {
  GrammarStore store(*file_);
  const Bytes grammar = grammar_bytes(R"({"type":"string"})");
  AnswerGrammar whole(store.masks_of(grammar).value());
  std::vector<TokenId> letters;
  for (std::uint32_t i = 0; i < tokenizer_->vocabulary() && letters.size() < 20; ++i) {
    const std::string text = tokenizer_->token_bytes(static_cast<TokenId>(i), false);
    if (!text.empty() && text.find_first_not_of("abcdefghij") == std::string::npos) {
      letters.push_back(static_cast<TokenId>(i));
    }
  }
  ASSERT_FALSE(letters.empty());
  TokenId quote = -1;
  for (std::uint32_t i = 0; i < tokenizer_->vocabulary(); ++i) {
    if (tokenizer_->token_bytes(static_cast<TokenId>(i), false) == "\"")
      quote = static_cast<TokenId>(i);
  }
  ASSERT_GE(quote, 0);
  std::vector<TokenId> tokens{quote};
  for (int i = 0; i < 299; ++i)
    tokens.push_back(letters[static_cast<std::size_t>(i) % letters.size()]);
  for (const TokenId token : tokens) whole.add(token);
  for (const std::size_t count : {299U, 255U, 130U, 129U, 64U, 63U, 1U, 0U}) {
    whole.keep(count);
    AnswerGrammar fresh(store.masks_of(grammar).value());
    for (std::size_t i = 0; i < count; ++i) fresh.add(tokens[i]);
    EXPECT_EQ(*whole.mask(), *fresh.mask()) << count;
  }
}

}  // namespace
}  // namespace hearth::node
