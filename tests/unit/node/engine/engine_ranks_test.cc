// A stage that a group of ranks computes gives the bits of one that is computed alone: for every
// division of heads, columns, residual and vocabulary, in prefill and decode, with every table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "model/synthetic.h"
#include "node/engine/engine.h"
#include "node/engine/stage_memory.h"
#include "node/engine/weights.h"
#include "tests/unit/node/engine/ranks/local_exchange.h"

namespace hearth::node {
namespace {

using Speeds = std::vector<std::uint32_t>;

constexpr SequenceId kOne{1};
constexpr SequenceId kTwo{2};
constexpr std::uint32_t kGroupPages = 24;

// What a step gives: the batch behind it and the result.
struct Given {
  StepBatch batch;
  StepResult result;
};

struct Model {
  std::string name;
  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
  model::ModelSpec spec;
};

Model model_of(model::SyntheticOptions options) {
  Model made{options.family, model::synthetic_model_bytes(options).value(), nullptr, {}};
  made.file = model::GgufFile::parse(made.bytes, "tiny").value();
  made.spec = model::ModelSpec::read(*made.file).value();
  return made;
}

// Wide enough that each of 8 ranks has columns, values and tokens; 4 of them have heads.
model::SyntheticOptions wide(const std::string& family) {
  model::SyntheticOptions options;
  options.family = family;
  options.layers = 2;
  options.hidden = 256;
  options.feed_forward = 288;
  options.heads = 8;
  options.kv_heads = 4;
  return options;
}

EngineOptions options_of(LayerRange layers, const kernels::Kernels* table) {
  EngineOptions options;
  options.layers = layers;
  options.kv_budget_bytes = 16 << 20;
  options.batch_rows = 64;
  options.replay_bytes = 1 << 20;
  options.kernels = table;
  return options;
}

StepBatch rows(SequenceId id, Position begin, Position end, std::uint32_t prompt) {
  StepBatch batch;
  if (begin == 0) {
    batch.opens.push_back({id, prompt, true, {}});
    batch.opens[0].sampling.temperature = id == kOne ? 0.0F : 1.0F;
    batch.opens[0].sampling.logprobs = id == kTwo;
    batch.opens[0].sampling.top_logprobs = 3;
    batch.opens[0].scope = Hash256{};
  }
  for (Position i = begin; i < end; ++i) {
    const auto token = static_cast<TokenId>(3 + (7 * i + 31 * id.value) % 390);
    batch.rows.push_back({id, i, token, i + 1 == prompt ? BatchRow::kSample : std::uint8_t{0}});
  }
  return batch;
}

void append(StepBatch& batch, StepBatch more) {
  batch.opens.insert(batch.opens.end(), more.opens.begin(), more.opens.end());
  batch.rows.insert(batch.rows.end(), more.rows.begin(), more.rows.end());
}

// Two prompts, the first in two pieces, then decoding of both and of one; then the first prompt
// again, of which the kept pages have the beginning. Decoded rows take the sampled tokens, where
// the stage samples.
std::vector<Given> run_alone(Engine& engine, std::vector<StepBatch>& script) {
  std::vector<Given> all;
  const auto step = [&](StepBatch batch) -> Given& {
    script.push_back(batch);
    Given& given = all.emplace_back();
    EXPECT_TRUE(engine.step(batch, given.result).ok());
    given.batch = std::move(batch);
    return given;
  };
  step(rows(kOne, 0, 37, 50));
  StepBatch both = rows(kOne, 37, 50, 50);
  append(both, rows(kTwo, 0, 5, 5));
  std::vector<SampledToken> sampled = step(both).result.tokens;
  for (Position i = 0; i < 3; ++i) {
    StepBatch decode;
    const auto decode_row = [&](SequenceId id, Position position) {
      TokenId token = 5;
      for (const SampledToken& one : sampled) token = one.sequence == id ? one.token : token;
      decode.rows.push_back({id, position, token, BatchRow::kSample});
    };
    decode_row(kOne, 50 + i);
    if (i < 2) decode_row(kTwo, 5 + i);
    sampled = step(decode).result.tokens;
  }
  StepBatch release;
  release.releases = {kOne, kTwo};
  step(release);
  step(rows(kOne, 0, 50, 50));
  EXPECT_EQ(engine.is_last(), !all.back().result.tokens.empty());
  EXPECT_GT(all.back().result.replayed, 0U);
  return all;
}

// A prompt whose embedding is wanted, beside a sequence with drafts: one that the model draws and
// two that it does not, which the next step takes back.
std::vector<Given> run_drafts(Engine& engine, std::vector<StepBatch>& script) {
  std::vector<Given> all;
  const auto step = [&](StepBatch batch) -> const StepResult& {
    script.push_back(batch);
    Given& given = all.emplace_back();
    EXPECT_TRUE(engine.step(batch, given.result).ok());
    given.batch = std::move(batch);
    return given.result;
  };
  const auto row_of = [](Position position, TokenId token, std::uint8_t kind = 0) {
    return BatchRow{kOne, position, token, static_cast<std::uint8_t>(BatchRow::kSample | kind)};
  };
  StepBatch prompts = rows(kOne, 0, 9, 9);
  append(prompts, rows(kTwo, 0, 7, 7));
  prompts.opens[1].embedding = 48;
  const TokenId first = step(prompts).tokens.at(0).token;
  StepBatch single;
  single.rows = {row_of(9, first)};
  const TokenId second = step(single).tokens.at(0).token;
  StepBatch drafts;
  drafts.truncates = {{kOne, 9}};
  const TokenId wrong = second == 5 ? 6 : 5;
  drafts.rows = {row_of(9, first), row_of(10, second, BatchRow::kDraft),
                 row_of(11, wrong, BatchRow::kDraft), row_of(12, wrong, BatchRow::kDraft)};
  const TokenId third = step(drafts).tokens.at(1).token;
  StepBatch next;
  next.truncates = {{kOne, 11}};
  next.rows = {row_of(11, third)};
  step(next);
  EXPECT_EQ(all[0].result.embeddings.size(), 1U);
  EXPECT_EQ(all[2].result.drafts.size(), 1U);
  return all;
}

void expect_same(const Given& given, const Given& wanted, bool leads) {
  EXPECT_EQ(given.batch, wanted.batch);
  EXPECT_EQ(given.result.released, wanted.result.released);
  EXPECT_EQ(given.result.replayed, wanted.result.replayed);
  if (!leads) {
    EXPECT_TRUE(given.result.tokens.empty() && given.result.hashes.empty());
    EXPECT_TRUE(given.result.drafts.empty() && given.result.embeddings.empty());
    return;
  }
  EXPECT_EQ(given.result.tokens, wanted.result.tokens);
  EXPECT_EQ(given.result.hashes, wanted.result.hashes);
  EXPECT_EQ(given.result.cached, wanted.result.cached);
  EXPECT_EQ(given.result.drafts, wanted.result.drafts);
  EXPECT_EQ(given.result.embeddings, wanted.result.embeddings);
}

// Takes the script on every rank of a group.
void compare_shares(const Model& model, const EngineOptions& options,
                    const std::vector<Share>& shares, const std::vector<StepBatch>& script,
                    const std::vector<Given>& wanted) {
  const auto ranks = static_cast<std::uint32_t>(shares.size());
  LocalExchange exchange(ranks);
  on_ranks(ranks, exchange, [&](std::uint32_t rank) {
    SCOPED_TRACE(model.name + ", " + std::string(options.kernels->name) + ", rank " +
                 std::to_string(rank) + " of " + std::to_string(ranks));
    const RankGroup group{shares, rank, &exchange.of(rank), kGroupPages};
    EngineOptions own = options;
    own.group = &group;
    const auto engine = Engine::load(model.file, model.spec, own);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    EXPECT_EQ((*engine)->kv_pages(), kGroupPages);
    for (std::size_t i = 0; i < script.size(); ++i) {
      Given given{script[i], {}};
      const std::size_t swaps = exchange.swaps(rank);
      ASSERT_TRUE((*engine)->step(given.batch, given.result).ok());
      // Also a step that only releases: else a rank could be many steps ahead of another.
      EXPECT_EQ(exchange.swaps(rank) > swaps, ranks > 1);
      expect_same(given, wanted[i], rank == 0);
    }
  });
}

// With attn_output divided, and whole on each rank.
void compare_group(const Model& model, const EngineOptions& options, const Speeds& speeds,
                   const std::vector<StepBatch>& script, const std::vector<Given>& wanted) {
  for (const std::uint64_t whole_output : {std::uint64_t{0}, kWholeOutput}) {
    const std::vector<Share> shares = divide(model.spec, speeds, whole_output).value();
    ASSERT_EQ(shares[0].whole_attention_output, whole_output > 0);
    compare_shares(model, options, shares, script, wanted);
  }
}

// `layers` of the model alone and by groups of ranks with these speeds, in the steps of `run`.
void compare(const Model& model, LayerRange layers, const kernels::Kernels* table,
             const std::vector<Speeds>& groups, decltype(run_alone)* run = run_alone) {
  EngineOptions options = options_of(layers, table);
  options.kv_budget_bytes = kv_budget_of(model.spec, layers, kGroupPages, 0);
  std::vector<StepBatch> script;
  auto alone = Engine::load(model.file, model.spec, options).value();
  ASSERT_EQ(alone->kv_pages(), kGroupPages);
  const std::vector<Given> wanted = run(*alone, script);
  for (const Speeds& speeds : groups) compare_group(model, options, speeds, script, wanted);
}

const std::vector<Speeds> kAllGroups{{1},          {1, 1},       {5, 1},
                                     {1, 1, 1},    {0, 1, 3},    {1, 1, 1, 1},
                                     {7, 3, 2, 4}, Speeds(8, 1), {4, 1, 1, 9, 1, 0, 2, 2}};
const std::vector<Speeds> kSomeGroups{{5, 1}, {4, 1, 1, 9, 1, 0, 2, 2}};

class EngineRanksTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineRanksTest, AGroupGivesTheBitsOfOneRank) {
  model::SyntheticOptions options = wide(GetParam());
  if (options.family == "gemma3") options.layers = 6;  // the last sees all positions
  if (options.family == "qwen3") options.tied_output = false;
  const Model model = model_of(options);
  const LayerRange all{0, model.spec.layers};
  const auto tables = kernels::available_kernels();
  compare(model, all, tables.back(), kAllGroups);
  if (tables.size() > 1) compare(model, all, tables.front(), kSomeGroups);
}

std::string family_name(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Families, EngineRanksTest,
                         ::testing::Values("llama", "qwen2", "qwen3", "gemma3", "qwen3moe"),
                         family_name);

// Blocks of 256 weights are as wide as a row: shares have whole rows, whatever the type.
TEST(EngineRanksGroup, RowsOfSuperBlocksAreDivided) {
  model::SyntheticOptions options = wide("llama");
  options.feed_forward = 512;
  options.experts = 4;  // Mixtral
  ASSERT_TRUE(model::set_weight_types(options, "Q4_K_M").ok());
  const Model model = model_of(options);
  compare(model, {0, 2}, kernels::available_kernels().back(), kSomeGroups);
}

// The first stage of a pipeline hands on the same activations from each rank.
TEST(EngineRanksGroup, AStageOfAPipelineMayBeAGroup) {
  const Model model = model_of(wide("qwen2"));
  compare(model, {0, 1}, kernels::available_kernels().back(), kSomeGroups);
}

// Only rank 0 samples; all ranks take back the same rows.
TEST(EngineRanksGroup, DraftsAndEmbeddingsAreThoseOfOneRank) {
  const Model model = model_of(wide("qwen3"));
  compare(model, {0, 2}, kernels::available_kernels().back(), kSomeGroups, run_drafts);
}

// A residual that is not finite ends its sequence on every rank, and no other.
TEST(EngineRanksGroup, FailedRowsFailOnEveryRank) {
  const Model model = model_of(wide("llama"));
  EngineOptions options = options_of({1, 2}, kernels::available_kernels().back());
  options.kv_budget_bytes = kv_budget_of(model.spec, options.layers, kGroupPages, 0);
  StepBatch batch = rows(kOne, 0, 8, 8);
  append(batch, rows(kTwo, 0, 8, 8));
  batch.boundary = 1;
  batch.activations.resize(batch.rows.size() * model.spec.hidden * 2, std::byte{0x11});
  const std::uint16_t infinity = 0x7C00;
  std::memcpy(batch.activations.data() + 3 * model.spec.hidden * 2, &infinity, 2);
  auto alone = Engine::load(model.file, model.spec, options).value();
  Given wanted{batch, {}};
  ASSERT_TRUE(alone->step(wanted.batch, wanted.result).ok());
  ASSERT_EQ(wanted.result.tokens.at(0).finish, FinishReason::kError);
  compare_group(model, options, {2, 1, 1}, {batch}, {wanted});
}

// Keys of the last head that are too large for some rows: the ranks with the other heads learn it.
TEST(EngineRanksGroup, AKeyThatOneRankRefusesFailsOnEveryRank) {
  model::SyntheticOptions made = wide("llama");
  made.attention_type = model::TensorType::kF32;
  Model model = model_of(made);
  const auto keys = model.file->tensor_bytes(*model.file->find_tensor("blk.0.attn_k.weight"));
  std::byte* last = model.bytes.data() + (keys.data() - model.bytes.data()) + keys.size() / 4 * 3;
  const auto grow = [&](float factor) {
    for (std::size_t at = 0; at < keys.size() / 4; at += sizeof(float)) {
      float weight = 0.0F;
      std::memcpy(&weight, last + at, sizeof weight);
      weight *= factor;
      std::memcpy(last + at, &weight, sizeof weight);
    }
  };
  EngineOptions options = options_of({0, 2}, kernels::available_kernels().back());
  options.kv_budget_bytes = kv_budget_of(model.spec, options.layers, kGroupPages, 0);
  StepBatch batch;
  for (std::uint64_t id = 1; id <= 12; ++id) append(batch, rows(SequenceId(id), 0, 1, 1));
  grow(0x1p34F);
  std::size_t failed = 0;
  Given wanted;
  for (int i = 0; i < 12 && (failed == 0 || failed == batch.rows.size()); ++i, grow(2.0F)) {
    auto alone = Engine::load(model.file, model.spec, options).value();
    wanted = {batch, {}};
    ASSERT_TRUE(alone->step(wanted.batch, wanted.result).ok());
    failed =
        static_cast<std::size_t>(std::count_if(wanted.batch.rows.begin(), wanted.batch.rows.end(),
                                               [](const BatchRow& row) { return row.failed(); }));
  }
  ASSERT_TRUE(failed > 0 && failed < batch.rows.size()) << failed;
  grow(0.5F);  // as it was in the last step
  for (const Speeds& speeds : kSomeGroups) {
    compare_group(model, options, speeds, {batch}, {wanted});
  }
}

// All matrices are divided, and norms alone are on every rank.
TEST(EngineRanksGroup, SharesDivideTheWeights) {
  for (const char* family : {"llama", "qwen3"}) {
    model::SyntheticOptions made = wide(family);
    made.vocabulary = 512;
    made.feed_forward = 320;
    const Model model = model_of(made);
    const LayerRange all{0, 2};
    EngineOptions options = options_of(all, kernels::available_kernels().back());
    const StageMemory whole = stage_memory(*model.file, model.spec, options).value();
    const std::vector<Share> shares = divide(model.spec, Speeds{1, 1}, 0).value();
    StageMemory sum;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const RankGroup group{shares, rank, nullptr, whole.pages};
      options.group = &group;
      const StageMemory own = stage_memory(*model.file, model.spec, options).value();
      const StageWeights loaded =
          StageWeights::load(*model.file, model.spec, all, nullptr, {}, &shares[rank]).value();
      EXPECT_LT(loaded.bytes(), own.weights);
      EXPECT_LT(own.weights, whole.weights * 6 / 10);
      sum.weights += own.weights;
      sum.page += own.page;
    }
    const StageWeights loaded = StageWeights::load(*model.file, model.spec, all).value();
    std::uint64_t norms = loaded.output_norm.size();
    for (const LayerWeights& layer : loaded.layers) {
      norms += layer.attention_norm.size() + layer.feed_forward_norm.size() +
               layer.query_norm.size() + layer.key_norm.size();
    }
    EXPECT_EQ(sum.weights, whole.weights + norms * sizeof(float)) << family;
    EXPECT_EQ(sum.page, whole.page) << family;
  }
}

TEST(EngineRanksGroup, RefusesWhatNoGroupComputes) {
  const Model model = model_of(wide("llama"));
  const auto refused = [&](RankGroup group, std::uint64_t memory = 0) {
    EngineOptions options = options_of({0, 2}, nullptr);
    options.group = &group;
    options.memory_bytes = memory;
    return Engine::load(model.file, model.spec, options).error().message;
  };
  LocalExchange exchange(2);
  const std::vector<Share> shares = divide(model.spec, Speeds{1, 1}).value();
  const auto says = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  says(refused({shares, 2, &exchange.of(0), 1}), "rank 2 is not in its group of 2 ranks");
  says(refused({shares, 1, nullptr, 1}), "rank 1 has no exchange");
  says(refused({shares, 1, &exchange.of(1), 0}), "the KV pages of a group are 0");
  says(refused({{shares[0]}, 0, &exchange.of(0), 1}), "of the last rank end at 2");
  // Every page and every kept row that the group agreed on, or none of them.
  says(refused({shares, 1, &exchange.of(1), 1'000'000}, 64 << 20), "needs ");
  EngineOptions options = options_of({0, 2}, nullptr);
  const RankGroup group{shares, 1, &exchange.of(1), 4};
  options.group = &group;
  const StageMemory own = stage_memory(*model.file, model.spec, options).value();
  says(refused(group, own.least() + kProcessBytes), "bytes of memory left for kept rows");
}

}  // namespace
}  // namespace hearth::node
