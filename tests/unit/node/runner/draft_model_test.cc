// A draft model answers with the tokens that a run of its own gives after the same text, in any
// pieces and after any earlier sequence.
#include "node/runner/draft_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "model/synthetic.h"
#include "node/engine/kv_cache.h"
#include "node/runner/local_runner.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kDraftVocabulary = 400;

class DraftModelTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const model::GgufFile> file_of(Bytes& bytes, std::uint64_t seed,
                                                        std::uint32_t vocabulary) {
    model::SyntheticOptions options;
    options.seed = seed;
    options.layers = 2;
    options.hidden = 64;
    options.feed_forward = 96;
    options.head_dim = 32;
    options.vocabulary = vocabulary;
    options.context = 400;
    bytes = model::synthetic_model_bytes(options).value();
    return model::GgufFile::parse(bytes, "synthetic").value();
  }

  void SetUp() override {
    file = file_of(bytes, 1, kDraftVocabulary);
    SeededRandom random(3);
    for (int i = 0; i < 300; ++i) {
      prompt.push_back(static_cast<TokenId>(random.next() % kDraftVocabulary));
    }
    draft = DraftModel::load(open(*file).value()).value();
  }

  Result<DraftFile> open(const model::GgufFile& target) const {
    EngineOptions stage;
    stage.kv_budget_bytes = 64 << 20;
    return DraftModel::open(file, target, stage);
  }

  SequenceOpen open_of(SequenceId id, float temperature, std::uint32_t prompt_tokens) const {
    SequenceOpen open;
    open.sequence = id;
    open.prompt_tokens = prompt_tokens;
    open.sampling.max_tokens = 40;
    open.sampling.temperature = temperature;
    open.sampling.seed = 17;
    open.sampling.repetition_penalty = 1.2F;
    return open;
  }

  // Prompt and answer of the model alone.
  std::vector<TokenId> whole(const SequenceOpen& open) const {
    std::vector<TokenId> tokens = first(prompt, open.prompt_tokens);
    LocalOptions options;
    options.kv_budget_bytes = 8 << 20;
    auto runner = LocalRunner::load(file, options).value();
    LocalRunner::Events events;
    std::vector<TokenId> answer;
    events.on_token = [&](const SampledToken& token) { answer.push_back(token.token); };
    EXPECT_TRUE(runner->submit(open, tokens, events).ok());
    while (*runner->step()) {
    }
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    return tokens;
  }

  static DraftAsk ask_of(const SequenceOpen& open, std::vector<TokenId> tokens,
                         std::uint32_t count) {
    return {open, std::move(tokens), count};
  }

  static std::vector<TokenId> part(const std::vector<TokenId>& tokens, std::size_t from,
                                   std::size_t count) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(from);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  static std::vector<TokenId> first(const std::vector<TokenId>& tokens, std::size_t count) {
    return part(tokens, 0, count);
  }

  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
  std::vector<TokenId> prompt;
  std::unique_ptr<DraftModel> draft;
};

TEST_F(DraftModelTest, DrawsWhatARunOfItsOwnDraws) {
  std::uint64_t id = 0;
  for (const float temperature : {0.0F, 0.8F}) {
    const SequenceOpen open = open_of(SequenceId(++id), temperature, 20);
    const std::vector<TokenId> all = whole(open);
    for (const std::size_t known : {21U, 22U, 30U}) {
      const DraftAnswer answer = draft->draft(ask_of(open, first(all, known), 8));
      EXPECT_FALSE(answer.failed);
      EXPECT_EQ(answer.sequence, open.sequence);
      EXPECT_EQ(answer.read, known);
      EXPECT_EQ(answer.drafts, part(all, known, 8));
    }
    EXPECT_TRUE(draft->draft(ask_of(open, first(all, 60), 8)).drafts.empty()) << "the answer ends";
  }
}

// After a rejected draft it drafts for the text that was sampled instead.
TEST_F(DraftModelTest, DraftsForTheSampledText) {
  const SequenceOpen open = open_of(SequenceId(1), 0.8F, 20);
  std::vector<TokenId> tokens = first(whole(open), 24);
  EXPECT_EQ(draft->draft(ask_of(open, first(tokens, 21), 8)).drafts.size(), 8U);
  tokens[22] = (tokens[22] + 1) % static_cast<TokenId>(kDraftVocabulary);
  const DraftAnswer again = draft->draft(ask_of(open, tokens, 6));
  const auto fresh = DraftModel::load(this->open(*file).value()).value();
  EXPECT_EQ(again.drafts, fresh->draft(ask_of(open, tokens, 6)).drafts);
  EXPECT_EQ(again.drafts.size(), 6U);
}

TEST_F(DraftModelTest, ALongTextIsReadPieceByPiece) {
  const SequenceOpen open = open_of(SequenceId(1), 0.0F, 290);
  const std::vector<TokenId> all = whole(open);
  std::uint32_t before = 0;
  std::uint32_t asks = 0;
  for (;; ++asks) {
    const DraftAnswer answer = draft->draft(ask_of(open, first(all, 291), 4));
    ASSERT_FALSE(answer.failed);
    ASSERT_GT(answer.read, before);
    ASSERT_LE(answer.read - before, DraftModel::kRows);
    before = answer.read;
    if (before < 291) {
      EXPECT_TRUE(answer.drafts.empty());
      continue;
    }
    EXPECT_EQ(answer.drafts, part(all, 291, 4));
    break;
  }
  EXPECT_GE(asks, 2U);
}

// A restarted coordinator may give the same id to another sequence.
TEST_F(DraftModelTest, TheSameIdMayBeAnotherSequence) {
  const SequenceOpen open = open_of(SequenceId(1), 0.8F, 20);
  EXPECT_EQ(draft->draft(ask_of(open, first(whole(open), 25), 8)).drafts.size(), 8U);
  std::reverse(prompt.begin(), prompt.end());
  for (const std::uint32_t prompt_tokens : {20U, 40U}) {
    const SequenceOpen other = open_of(SequenceId(1), 0.8F, prompt_tokens);
    const std::vector<TokenId> all = whole(other);
    const DraftAnswer answer = draft->draft(ask_of(other, first(all, prompt_tokens + 2), 8));
    EXPECT_EQ(answer.drafts, part(all, prompt_tokens + 2, 8));
  }
}

TEST_F(DraftModelTest, FailsWithoutRoomAndDraftsForTheNextSequence) {
  const SequenceOpen open = open_of(SequenceId(1), 0.0F, 20);
  EXPECT_TRUE(draft->draft(ask_of(open, std::vector<TokenId>(400, 1), 4)).failed)
      << "its context ends";
  EngineOptions stage;
  const auto spec = model::ModelSpec::read(*file).value();
  stage.kv_budget_bytes =  // of four pages
      4 * DraftModel::kKvPart * KvCache::page_bytes(spec.kv_layouts({0, spec.layers}));
  auto narrow = DraftModel::open(file, *file, stage);
  ASSERT_TRUE(narrow.ok()) << narrow.error().message;
  const auto small = DraftModel::load(*narrow).value();
  DraftAsk longer = ask_of(open_of(SequenceId(2), 0.0F, 20), first(whole(open), 24), 4);
  for (int i = 0; i < 300; ++i) longer.tokens.push_back(5);
  longer.open.sampling.max_tokens = 370;
  EXPECT_TRUE(small->draft(longer).failed) << "it reads nothing of a text that its KV cannot hold";
  EXPECT_EQ(small->draft(ask_of(open, first(whole(open), 24), 4)).drafts.size(), 4U);
  stage.kv_budget_bytes = 1;
  const auto none = DraftModel::open(file, *file, stage);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message.find("the draft model synthetic, whose KV gets 1/4 of --kv-bu"),
            0U)
      << none.error().message;
}

TEST_F(DraftModelTest, ACancelledModelDraftsNoMore) {
  DraftFile opened = open(*file).value();
  int steps = 3;
  opened.engine.cancelled = [&] { return steps-- == 0; };
  EXPECT_EQ(DraftModel::load(opened).error().code, ErrorCode::kCancelled);
  bool over = false;
  opened.engine.cancelled = [&] { return over || (steps > 0 && --steps == 0); };
  steps = 0;
  const auto model = DraftModel::load(opened).value();
  const SequenceOpen sequence = open_of(SequenceId(1), 0.0F, 20);
  const std::vector<TokenId> all = whole(sequence);
  EXPECT_EQ(model->draft(ask_of(sequence, first(all, 21), 8)).drafts.size(), 8U);
  steps = 4;
  EXPECT_TRUE(model->draft(ask_of(sequence, first(all, 22), 8)).failed) << "between two steps";
  EXPECT_EQ(steps, 0);
  over = true;
  EXPECT_TRUE(model->draft(ask_of(sequence, first(all, 22), 8)).failed);
}

TEST_F(DraftModelTest, AnotherVocabularyIsRefusedByToken) {
  Bytes other_bytes;
  const auto other = file_of(other_bytes, 1, 399);
  const auto refused = open(*other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message.find("token 399 is '"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(DraftModel::check_target(*file, *other).error().message, refused.error().message);
  EXPECT_TRUE(DraftModel::check_target(*file, *file).ok());
  Bytes same_bytes;
  EXPECT_TRUE(open(*file_of(same_bytes, 9, kDraftVocabulary)).ok()) << "other weights";
}

TEST_F(DraftModelTest, ModelsThatKeepAStateAreRefused) {
  model::SyntheticOptions made;
  made.family = "qwen35";
  made.layers = 2;
  made.head_dim = 64;
  made.vocabulary = kDraftVocabulary;
  const Bytes hybrid_bytes = model::synthetic_model_bytes(made).value();
  const auto hybrid = model::GgufFile::parse(hybrid_bytes, "hybrid").value();
  const auto for_target = open(*hybrid);
  ASSERT_FALSE(for_target.ok());
  EXPECT_EQ(for_target.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(for_target.error().message.find("the model hybrid keeps a state"), 0U);
  EXPECT_EQ(DraftModel::check_target(*file, *hybrid).error().message, for_target.error().message);
  const auto as_draft = DraftModel::open(hybrid, *file, {});
  ASSERT_FALSE(as_draft.ok());
  EXPECT_EQ(as_draft.error().message.find("the draft model hybrid keeps a state"), 0U);
}

TEST_F(DraftModelTest, TheStagesGetTheMemoryThatIsLeft) {
  const DraftFile opened = open(*file).value();
  EXPECT_GT(opened.memory_bytes, std::uint64_t{16} << 20) << "its KV budget is counted";
  EXPECT_EQ(opened.left_of(opened.memory_bytes + 5).value(), 5U);
  EXPECT_EQ(opened.left_of(opened.memory_bytes).error().code, ErrorCode::kNoCapacity);
}

}  // namespace
}  // namespace hearth::node
