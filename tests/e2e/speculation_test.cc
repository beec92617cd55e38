// Speculative decoding leaves what a plain run leaves: tokens, log probabilities, ends and the hash
// at every boundary. Drafts come from an oracle that is right as often as a test wants, from the
// lookup, from grammars, and from a draft model; sequences share steps, prompts come in pieces,
// stages are split differently, and answers end by length, by a stop token inside the drafts, or
// are cancelled.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "base/random.h"
#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "node/runner/draft_model.h"
#include "node/runner/local_runner.h"
#include "tests/unit/model/family_name.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kLayers = 4;
constexpr std::uint32_t kVocabulary = 400;

struct Asked {
  SequenceOpen open;
  std::vector<TokenId> prompt;
  std::size_t cancel_after = 0;  // tokens; 0: it runs to its end
};

struct Said {
  std::vector<SampledToken> tokens;
  std::map<std::pair<Position, std::uint32_t>, RowHash> hashes;
  DraftCounts drafts{};
};
using AllSaid = std::map<std::uint64_t, Said>;

std::shared_ptr<const model::GgufFile> model_of(std::string_view family, Bytes& bytes,
                                                std::uint64_t seed = 1) {
  model::SyntheticOptions options;
  options.family = family;
  options.seed = seed;
  options.layers = kLayers;
  options.hidden = 64;
  options.feed_forward = 96;
  options.head_dim = 32;
  options.vocabulary = kVocabulary;
  options.sliding_window = 40;
  bytes = model::synthetic_model_bytes(options).value();
  return model::GgufFile::parse(bytes, "synthetic").value();
}

const Bytes& schema() {
  static const Bytes bytes =
      model::compile_grammar({model::GrammarSource::Kind::kJsonSchema,
                              R"({"type":"object","properties":{"temperature":{"type":"integer"},
          "description":{"type":"string","maxLength":12}},
          "required":["temperature","description"],"additionalProperties":false})"})
          .value()
          ->bytes();
  return bytes;
}

// `said` gets whole hashes once the sequence is over.
AllSaid run(const std::shared_ptr<const model::GgufFile>& file, const LocalOptions& options,
            const std::vector<Asked>& all) {
  AllSaid said;
  auto runner = LocalRunner::load(file, options).value();
  for (const Asked& asked : all) {
    Said& one = said[asked.open.sequence.value];
    LocalRunner::Events events;
    events.on_token = [&one, &asked, &runner](const SampledToken& token) {
      const bool over = asked.cancel_after > 0 && one.tokens.size() >= asked.cancel_after;
      if (over) return;
      one.tokens.push_back(token);
      if (one.tokens.size() == asked.cancel_after) runner->cancel(token.sequence);
    };
    events.on_hash = [&one](const RowHash& hash) {
      EXPECT_TRUE(one.hashes.emplace(std::pair(hash.position, hash.stage), hash).second)
          << "position " << hash.position << " is reported twice";
    };
    events.on_drafts = [&one](const DraftCounts& counts) {
      for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
        one.drafts[kind].drafted += counts[kind].drafted;
        one.drafts[kind].accepted += counts[kind].accepted;
      }
    };
    const Status status = runner->submit(asked.open, asked.prompt, events);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  for (bool more = true; more;) {
    const auto stepped = runner->step();
    EXPECT_TRUE(stepped.ok()) << (stepped.ok() ? "" : stepped.error().message);
    more = stepped.ok() && *stepped;
  }
  return said;
}

void expect_same(const AllSaid& said, const AllSaid& plain, const std::vector<Asked>& all) {
  for (const Asked& asked : all) {
    SCOPED_TRACE("sequence " + std::to_string(asked.open.sequence.value));
    const Said& one = said.at(asked.open.sequence.value);
    const Said& wanted = plain.at(asked.open.sequence.value);
    EXPECT_EQ(one.tokens, wanted.tokens);
    if (asked.cancel_after > 0) continue;  // it may have come further
    EXPECT_EQ(one.hashes.size(), wanted.hashes.size());
    EXPECT_EQ(one.hashes, wanted.hashes);
  }
}

// Greedy ones of a small random model repeat themselves; so do prompts that repeat.
std::vector<Asked> requests(SeededRandom& random, bool grammars) {
  std::vector<Asked> all;
  const std::uint64_t count = 1 + random.next() % 5;
  for (std::uint64_t i = 0; i < count; ++i) {
    Asked asked;
    asked.open.sequence = SequenceId(1 + i);
    const std::uint64_t length = 2 + random.next() % 60;
    const std::uint64_t period = 3 + random.next() % 12;
    for (std::uint64_t t = 0; t < length; ++t) {
      asked.prompt.push_back(static_cast<TokenId>(t < period ? random.next() % kVocabulary
                                                             : asked.prompt[t - period]));
    }
    asked.open.prompt_tokens = static_cast<std::uint32_t>(length);
    asked.open.report_hashes = i % 2 == 0;
    SamplingParams& sampling = asked.open.sampling;
    sampling.max_tokens = static_cast<std::uint32_t>(1 + random.next() % 60);
    sampling.temperature = random.next() % 2 == 0 ? 0.0F : 0.7F;
    sampling.seed = random.next();
    sampling.logprobs = random.next() % 2 == 0;
    sampling.top_logprobs = sampling.logprobs ? 3 : 0;
    if (random.next() % 3 == 0) {
      sampling.repetition_penalty = 1.3F;
      sampling.frequency_penalty = 0.5F;
    }
    if (random.next() % 3 == 0) {
      for (int stop = 0; stop < 10; ++stop) {
        sampling.stop_tokens.push_back(static_cast<TokenId>(random.next() % kVocabulary));
      }
    }
    if (grammars && random.next() % 2 == 0) sampling.grammar = schema();
    if (random.next() % 5 == 0) asked.cancel_after = 1 + random.next() % 10;
    all.push_back(std::move(asked));
  }
  return all;
}

LocalOptions plan(SeededRandom& random) {
  LocalOptions options;
  options.stages = 1 + static_cast<std::uint32_t>(random.next() % 3);
  options.batch_rows = 64;
  options.prefill_rows = 1 + static_cast<std::uint32_t>(random.next() % 64);
  options.threads = 1 + static_cast<std::uint32_t>(random.next() % 2);
  return options;
}

class Speculation : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { file = model_of(GetParam(), bytes); }
  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
};

TEST_P(Speculation, OraclesOfEveryQualityLeaveWhatAPlainRunLeaves) {
  DraftCount sum;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    const std::vector<Asked> all = requests(random, true);
    LocalOptions options = plan(random);
    const AllSaid plain = run(file, options, all);
    const std::uint64_t quality = random.next() % 101;
    options.draft_rows = limits::kDraftRows;
    options.batches_in_flight = 1 + static_cast<std::uint32_t>(random.next() % 5);
    options.draft = [&](const SequenceOpen& open, Position position) {
      std::vector<TokenId> drafts;
      const std::uint64_t count = random.next() % (random.next() % 2 == 0 ? 10 : 100);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t at = position + i - open.prompt_tokens;
        const auto& tokens = plain.at(open.sequence.value).tokens;
        const bool right = at < tokens.size() && random.next() % 100 < quality;
        drafts.push_back(right ? tokens[at].token
                               : static_cast<TokenId>(random.next() % kVocabulary));
      }
      return drafts;
    };
    const AllSaid said = run(file, options, all);
    expect_same(said, plain, all);
    ASSERT_FALSE(HasFailure());
    for (const auto& [id, one] : said) {
      sum.drafted += one.drafts[0].drafted;
      sum.accepted += one.drafts[0].accepted;
    }
  }
  EXPECT_GT(sum.accepted, 50U);
  EXPECT_GT(sum.drafted, sum.accepted + 50U);
}

TEST_P(Speculation, LookupAndGrammarsLeaveWhatAPlainRunLeaves) {
  DraftCounts sum{};
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    const std::vector<Asked> all = requests(random, true);
    LocalOptions options = plan(random);
    const AllSaid plain = run(file, options, all);
    options.draft_rows = limits::kDraftRows;
    options.batches_in_flight = 1 + static_cast<std::uint32_t>(random.next() % 5);
    options.prefill_rows = 1 + static_cast<std::uint32_t>(random.next() % 64);
    const AllSaid said = run(file, options, all);
    expect_same(said, plain, all);
    ASSERT_FALSE(HasFailure());
    for (const auto& [id, one] : said) {
      for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
        sum[kind].drafted += one.drafts[kind].drafted;
        sum[kind].accepted += one.drafts[kind].accepted;
      }
    }
  }
  // How many are sent depends on what steps cost here; that some are does not.
  EXPECT_GT(sum[0].drafted + sum[1].drafted, 0U);
}

// The model as its own draft model is always right; one with other weights seldom is.
TEST_P(Speculation, DraftModelsLeaveWhatAPlainRunLeaves) {
  for (const std::uint64_t weights : {1, 2}) {
    Bytes draft_bytes;
    const auto draft = DraftModel::open(model_of(GetParam(), draft_bytes, weights), *file, {});
    ASSERT_TRUE(draft.ok()) << draft.error().message;
    DraftCount sum;
    for (std::uint64_t seed = 200; seed < 206; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      SeededRandom random(seed);
      const std::vector<Asked> all = requests(random, true);
      LocalOptions options = plan(random);
      const AllSaid plain = run(file, options, all);
      options.draft_rows = limits::kDraftRows;
      options.batches_in_flight = 1 + static_cast<std::uint32_t>(random.next() % 5);
      options.draft_model = DraftModel::load(*draft).value();
      const auto drafts = 1 + static_cast<std::uint32_t>(random.next() % 12);
      options.draft_model_plan = ModelDrafts::Plan{drafts, random.next() % 2 == 0};
      const AllSaid said = run(file, options, all);
      expect_same(said, plain, all);
      ASSERT_FALSE(HasFailure());
      for (const auto& [id, one] : said) {
        const DraftCount& model = one.drafts[static_cast<std::size_t>(DraftKind::kModel)];
        sum.drafted += model.drafted;
        sum.accepted += model.accepted;
      }
    }
    EXPECT_GT(sum.drafted, 20U);
    EXPECT_EQ(sum.accepted == sum.drafted, weights == 1) << sum.accepted << " of " << sum.drafted;
  }
}

// Behind the state of a grammar nothing else is possible: so its drafts are drawn, at any
// temperature, wherever one token covers what is forced.
TEST_P(Speculation, ForcedTokensAreAccepted) {
  Asked asked;
  asked.open = {SequenceId(1), 3, true, {}};
  asked.prompt = {1, 2, 3};
  SamplingParams& sampling = asked.open.sampling;
  sampling.max_tokens = 120;
  sampling.temperature = 1.0F;
  sampling.seed = 4;
  sampling.grammar =
      model::compile_grammar({model::GrammarSource::Kind::kGbnf,
                              R"(root ::= "a very long text that is forced " [0-9] " to its end")"})
          .value()
          ->bytes();
  LocalOptions options;
  const AllSaid plain = run(file, options, {asked});
  options.draft_rows = limits::kDraftRows;
  const AllSaid said = run(file, options, {asked});
  expect_same(said, plain, {asked});
  const DraftCount& forced = said.at(1).drafts[static_cast<std::size_t>(DraftKind::kGrammar)];
  EXPECT_GT(forced.drafted, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families, Speculation, ::testing::ValuesIn(model::families_with_drafts()),
                         [](const auto& info) { return model::family_test_name(info.param); });

}  // namespace
}  // namespace hearth::node
