// A whole engine on the emulated card against the processor's: tokens, logits, hashes at every
// boundary, keys and values, for every family, in batches of 1, 2, 7 and 33 rows, in chunks, and in
// pipelines of unlike stages. What happens to a card is in card_fault_test.cc.
#include "node/engine/card/card.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "card.h"
#include "kernels/canonical.h"
#include "kernels/cuda/attention.h"
#include "model/grammar/grammar.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "node/engine/card/card_layers.h"
#include "node/runner/local_runner.h"
#include "tests/e2e/trace.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kVocabulary = 384;

std::shared_ptr<const model::GgufFile> model_of(const std::string& family, Bytes& bytes,
                                                std::uint32_t layers, const std::string& types = "",
                                                std::uint32_t context = 128,
                                                std::uint32_t window = 20) {
  model::SyntheticOptions options;
  options.family = family;
  options.layers = layers;
  options.hidden = types.empty() ? 64 : 256;
  options.feed_forward = types.empty() ? 96 : 256;
  options.heads = 2;
  options.kv_heads = 1;
  options.head_dim = 32;
  options.vocabulary = kVocabulary;
  options.context = context;
  options.rope_factors = true;
  options.sliding_window = window;
  if (!types.empty()) {
    EXPECT_TRUE(model::set_weight_types(options, types).ok());
  }
  bytes = model::synthetic_model_bytes(options).value();
  return model::GgufFile::parse(bytes, family).value();
}

std::vector<Request> requests_of(std::uint64_t seed, std::uint64_t first_id,
                                 const std::vector<std::uint32_t>& lengths) {
  SeededRandom random(seed);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    Request request;
    request.id = SequenceId(first_id + i);
    for (std::uint32_t t = 0; t < lengths[i]; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.next() % kVocabulary));
    }
    request.sampling.max_tokens = 4;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.seed = random.next();
    requests.push_back(std::move(request));
  }
  return requests;
}

RunPlan plan_of(std::uint32_t stages, std::uint32_t rows, std::vector<Device*> devices = {}) {
  RunPlan plan;
  plan.options.stages = stages;
  plan.options.batch_rows = std::max(40U, rows);
  plan.options.prefill_rows = rows;
  plan.options.kv_budget_bytes = 400'000;
  plan.options.devices = std::move(devices);
  return plan;
}

std::unique_ptr<Device> first_card() {
  auto opened = open_card({});
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return std::move(*opened);
}

class Card : public ::testing::TestWithParam<std::string> {};

TEST_P(Card, EqualsTheProcessorInEveryPipeline) {
  Bytes bytes;
  // With local layers, one that sees everything.
  const std::uint32_t layers = std::max(3U, model::find_family(GetParam())->period());
  const auto file = model_of(GetParam(), bytes, layers);
  const std::vector<Request> requests = requests_of(1, 1, {34, 5});
  RunPlan base_plan = plan_of(layers, 40);
  base_plan.one_by_one = true;
  const Traces base = run_plan(file, base_plan, requests);
  const auto device = first_card();
  card::set_seed(1);
  expect_same(run_plan(file, plan_of(1, 33, {device.get()}), requests), base, 1, "one stage");
  expect_same(run_plan(file, plan_of(3, 7, {device.get(), nullptr}), requests), base, 3,
              "card, processor, card");
}

// Weight types of products, head and embedding, more sampled rows than logits are held at once, and
// orders of blocks, threads and streams.
TEST(CardEngine, SeedsAndTypesChangeNoBit) {
  std::vector<Request> requests = requests_of(2, 1, std::vector<std::uint32_t>(34, 1));
  for (Request& request : requests) request.sampling.max_tokens = 2;
  std::uint64_t seed = 0;
  for (const char* types : {"Q4_K_M", "Q4_K_M", "Q5_1", "F16"}) {
    Bytes bytes;
    const auto file = model_of("llama", bytes, 1, types);
    const Traces base = run_plan(file, plan_of(1, 40), requests);
    const auto device = first_card();
    card::set_seed(++seed);
    expect_same(run_plan(file, plan_of(1, 40, {device.get()}), requests), base, 1,
                types + (", seed " + std::to_string(seed)));
  }
}

// What a prompt means, of the card's residual; among rows of others, in chunks, and where the next
// step has begun already.
TEST(CardEngine, EmbeddingsAreTheProcessors) {
  Bytes bytes;
  const auto file = model_of("qwen3", bytes, 2);
  const std::vector<Request> requests = requests_of(4, 1, {34, 5, 17});
  const auto embed = [&](const std::vector<Device*>& devices, std::uint32_t rows) {
    auto runner =
        LocalRunner::load(file, plan_of(devices.empty() ? 1 : 2, rows, devices).options).value();
    std::map<std::uint64_t, std::vector<float>> out;
    for (const Request& request : requests) {
      SequenceOpen open;
      open.sequence = request.id;
      open.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
      open.sampling.max_tokens = 1;
      open.sampling.temperature = 0.0F;
      open.embedding = request.id.value == 2 ? 0 : 40;
      LocalRunner::Events events;
      events.on_embedding = [&out](const PromptEmbedding& embedding) {
        EXPECT_TRUE(out.emplace(embedding.sequence.value, embedding.values).second);
      };
      EXPECT_TRUE(runner->submit(open, request.prompt, events).ok());
    }
    while (step(*runner)) {
    }
    return out;
  };
  const auto base = embed({}, 40);
  ASSERT_EQ(base.size(), 2U);
  const auto device = first_card();
  card::set_seed(1);
  EXPECT_EQ(embed({device.get()}, 40), base);
  EXPECT_EQ(embed({device.get()}, 7), base);
  EXPECT_EQ(embed({nullptr, device.get()}, 7), base);
}

// Rows enough for the wide product and for blocks of queries, of one prompt and of several, with
// decoding rows between them.
TEST(CardEngine, LongPromptsGiveTheSameBits) {
  Bytes bytes;
  const auto file = model_of("llama", bytes, 1);
  const std::vector<Request> requests = requests_of(3, 1, {3, 100, 40, 1});
  const Traces base = run_plan(file, plan_of(1, 40), requests);
  const auto device = first_card();
  card::set_seed(1);
  RunPlan plan = plan_of(1, 90, {device.get()});
  plan.join_every = 1;
  expect_same(run_plan(file, plan, requests), base, 1, "prompts that join one by one");
}

// A stage of all layers on the card, beside one on the processor, with KV for long contexts.
void expect_long_same(const std::shared_ptr<const model::GgufFile>& file, std::uint32_t layers,
                      const std::vector<Request>& requests, const std::string& what) {
  RunPlan base_plan = plan_of(layers, 40);
  base_plan.options.kv_budget_bytes = 4'000'000;
  const Traces base = run_plan(file, base_plan, requests);
  const auto device = first_card();
  card::set_seed(1);
  RunPlan plan = plan_of(1, 90, {device.get()});
  plan.options.kv_budget_bytes = 4'000'000;
  expect_same(run_plan(file, plan, requests), base, 1, what);
}

// Past the eight pages of one split of the context, where the reach of a step grows by powers of
// two.
TEST(CardEngine, AContextOfSeveralSplitsGivesTheSameBits) {
  for (const std::string family : {"llama", "gemma3"}) {
    Bytes bytes;
    const std::uint32_t layers = model::find_family(family)->period();
    const auto file = model_of(family, bytes, layers, "", 512);
    std::vector<Request> requests = requests_of(9, 1, {251, 3});
    for (Request& request : requests) request.sampling.max_tokens = 8;
    expect_long_same(file, layers, requests, family);
  }
}

// A window that covers eight pages or nine, by turns: a split of attention and two of them.
// Decoding begins where it is eight, makes its graph there and goes on where it is nine.
TEST(CardEngine, AWindowWhoseReachChangesGivesTheSameBits) {
  Bytes bytes;
  const std::uint32_t layers = model::find_family("gemma3")->global_every;
  const auto file = model_of("gemma3", bytes, layers, "", 512, 240);
  std::vector<Request> requests = requests_of(10, 1, {282});
  requests[0].sampling.max_tokens = 14;
  expect_long_same(file, layers, requests, "a window of 240");
}

// The scores of a step in parts, of one row each and of two, with one row left over; of a layer
// that sees everything and of a local one.
TEST(CardEngine, ScoresInSeveralPartsGiveTheSameBits) {
  const std::vector<Request> requests = requests_of(11, 1, {9, 3, 40, 1, 7, 33, 2});
  const std::size_t of_row = kernels::cuda::attention_scores(1, 2, 128 / kernels::kPageTokens);
  for (const std::string family : {"llama", "gemma3"}) {
    Bytes bytes;
    const auto file = model_of(family, bytes, 1);
    const Traces base = run_plan(file, plan_of(1, 40), requests);
    for (const std::size_t floats : {std::size_t{1}, 2 * of_row + of_row / 2}) {
      CardOptions options;
      options.score_floats = floats;
      const auto device = open_card(options).value();
      card::set_seed(1);
      expect_same(run_plan(file, plan_of(1, 40, {device.get()}), requests), base, 1,
                  family + ", room for " + std::to_string(floats) + " scores");
    }
  }
}

// Tokens that the card draws, beside those that the processor's sampler draws, from logits that
// the test does not read.
TEST(CardEngine, DrawsTheSameTokensForEveryParameter) {
  Bytes bytes;
  const auto file = model_of("llama", bytes, 1);
  std::vector<Request> requests = requests_of(4, 1, std::vector<std::uint32_t>(7, 9));
  for (Request& request : requests) request.sampling.temperature = 1.5F;
  const auto params = [&](std::size_t i) -> SamplingParams& { return requests[i].sampling; };
  params(0).temperature = 0.0F;
  params(0).repetition_penalty = 1.5F;
  params(1).top_k = 20;
  params(1).top_p = 0.7F;
  params(2).min_p = 0.05F;
  params(2).logit_bias = {{5, 20.0F}, {6, -std::numeric_limits<float>::infinity()}, {7, 21.0F}};
  params(3).presence_penalty = 2.0F;
  params(3).frequency_penalty = -30.0F;
  params(4).logprobs = true;
  params(4).top_logprobs = 3;
  params(5).top_p = 0.5F;
  params(5).repetition_penalty = 0.5F;
  params(6).grammar =
      (*model::compile_grammar({model::GrammarSource::Kind::kJsonObject, {}}))->bytes();
  const Traces base = run_plan(file, plan_of(1, 40), requests);
  const auto device = first_card();
  for (const bool observed : {false, true}) {
    card::set_seed(observed ? 2 : 1);
    RunPlan plan = plan_of(1, 40, {device.get()});
    plan.observed = observed;
    const Traces found = run_plan(file, plan, requests);
    ASSERT_EQ(found.size(), base.size());
    for (const auto& [id, trace] : found) {
      EXPECT_EQ(trace.tokens, base.at(id).tokens) << id;
      EXPECT_EQ(trace.logprobs, base.at(id).logprobs) << id;
      EXPECT_EQ(trace.boundaries, base.at(id).boundaries) << id;
      EXPECT_EQ(trace.logits.empty(), !observed);
    }
  }
}

// More rows than logits are held at once, none of them drawn; beside a sequence that the card
// draws.
TEST(CardEngine, ScoresOfAPromptAreTheProcessors) {
  Bytes bytes;
  const auto file = model_of("llama", bytes, 1);
  const std::vector<Request> requests = requests_of(12, 1, {45, 9});
  const auto run = [&](std::uint32_t rows, std::vector<Device*> devices) {
    auto runner = LocalRunner::load(file, plan_of(1, rows, std::move(devices)).options).value();
    std::vector<SampledToken> out;
    for (const Request& request : requests) {
      SequenceOpen open;
      open.sequence = request.id;
      open.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
      open.sampling = request.sampling;
      if (request.id == requests[0].id) {
        open.sampling.logprobs = true;
        open.sampling.top_logprobs = 2;
        open.scored = request.prompt;
      }
      LocalRunner::Events events;
      events.on_token = events.on_score = [&out](const SampledToken& one) { out.push_back(one); };
      EXPECT_TRUE(runner->submit(open, request.prompt, events).ok());
    }
    for (auto more = runner->step(); more.ok() && *more; more = runner->step()) {
    }
    std::ranges::sort(
        out, {}, [](const SampledToken& one) { return std::pair(one.sequence, one.position); });
    return out;
  };
  const std::vector<SampledToken> base = run(40, {});
  EXPECT_EQ(base.size(), 44U + 4 + 4);
  const auto device = first_card();
  card::set_seed(1);
  for (const std::uint32_t rows : {40U, 7U}) EXPECT_EQ(run(rows, {device.get()}), base) << rows;
}

TEST(CardSegments, RowsOfAPromptAttendTogether) {
  BlockTable one, two, three;
  std::vector<ForwardRow> rows;
  const auto add = [&](const BlockTable& pages, std::uint32_t count, Position first) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ForwardRow& row = rows.emplace_back();
      row.pages = &pages;
      row.position = first + i;
    }
  };
  const auto found = [&](std::uint32_t group) {
    std::vector<AttentionSegment> segments;
    attention_segments(rows, group, segments);
    std::string text;
    for (const AttentionSegment& segment : segments) {
      text += (segment.prompt ? " prompt " : " ") + std::to_string(segment.begin) + "+" +
              std::to_string(segment.rows);
    }
    return text;
  };
  add(one, 1, 9);
  add(two, 31, 0);
  add(three, 32, 5);
  add(one, 2, 70);
  EXPECT_EQ(found(64), " 0+32 prompt 32+32 64+2");
  EXPECT_EQ(found(65), " 0+66") << "more query heads a kv head than a block takes";
  rows.clear();
  add(one, 40, 65'536 - 40);
  EXPECT_EQ(found(1), " prompt 0+40");
  for (ForwardRow& row : rows) ++row.position;
  EXPECT_EQ(found(1), " 0+40") << "beyond the positions that a prompt's kernel takes";
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(All, Card, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string_view name : model::known_families()) {
                             const auto& family = *model::find_family(name);
                             if (!what_no_card_computes(family, 0).empty()) continue;
                             names.emplace_back(name);
                           }
                           return names;
                         }()),
                         name_of);

}  // namespace
}  // namespace hearth::node
