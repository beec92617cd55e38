// Every family on a small random model: the same tokens and the same hash at every boundary under
// every instruction set, number of threads, split into stages, chunking and company. A prompt is
// longer than the window of local layers and than a KV page.
#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "tests/e2e/trace.h"
#include "tests/unit/model/family_name.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kLayers = 7;  // of a family with local layers, one sees everything
constexpr std::uint32_t kVocabulary = 400;
constexpr std::string_view kMixtral = "mixtral";  // a llama file with experts
constexpr std::string_view kWhole = "gemma4-e";   // a gemma4 file that one stage must hold

std::shared_ptr<const model::GgufFile> model_of(const std::string& family, std::uint32_t window,
                                                Bytes& bytes) {
  model::SyntheticOptions options;
  options.family = family == kMixtral ? "llama" : family == kWhole ? "gemma4" : family;
  if (family == kWhole) options.sharing_layers = 1;
  if (family == kWhole) options.layer_input = 32;
  if (family == kMixtral || family == "gemma4") options.experts = 6;
  if (family == "gpt-oss" || family == "deepseek2") options.yarn_scale = 4.0F;
  if (model::find_family(options.family)->own_routing) {
    options.expert_groups = 4;
    options.expert_groups_used = 2;
    options.prediction_layers = 1;
  }
  options.layers = kLayers;
  options.hidden = 96;
  options.feed_forward = 160;
  // heads * head_dim is not hidden; a head that turns in part has two blocks.
  options.head_dim = model::find_family(options.family)->part_rotary ? 64 : 32;
  options.vocabulary = kVocabulary;
  options.rope_factors = true;
  options.sliding_window = window;
  bytes = model::synthetic_model_bytes(options).value();
  return model::GgufFile::parse(bytes, family).value();
}

std::vector<Request> requests_of(std::uint64_t seed, std::uint64_t first_id, std::uint32_t count) {
  SeededRandom random(seed);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request;
    request.id = SequenceId(first_id + i);
    const std::uint32_t length = i == 0 ? 100 : 1 + static_cast<std::uint32_t>(random.next() % 80);
    for (std::uint32_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.next() % kVocabulary));
    }
    request.sampling.max_tokens = 8;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.seed = random.next();
    requests.push_back(std::move(request));
  }
  return requests;
}

RunPlan plan_of(const kernels::Kernels* table, std::uint32_t stages, std::uint32_t threads,
                std::uint32_t prefill_rows) {
  RunPlan plan;
  plan.options.stages = stages;
  plan.options.threads = threads;
  plan.options.prefill_rows = prefill_rows;
  plan.options.kernels = table;
  return plan;
}

class Families : public ::testing::TestWithParam<std::string> {};

TEST_P(Families, NothingThatMustNotMatterDoes) {
  Bytes bytes;
  const auto file = model_of(GetParam(), 40, bytes);
  const std::vector<Request> requests = requests_of(1, 1, 3);
  const bool whole = GetParam() == kWhole;
  RunPlan plan = plan_of(kernels::available_kernels().front(), whole ? 1 : kLayers, 1, 512);
  plan.one_by_one = true;
  const Traces base = run_plan(file, plan, requests);
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    for (const auto& [stages, threads, rows] :
         {std::tuple{1U, 1U, 1U}, {1U, 2U, 512U}, {2U, 4U, 7U}, {3U, 2U, 33U}, {7U, 1U, 64U}}) {
      if (whole && stages > 1) continue;
      const std::string what = std::string(table->name) + ", stages " + std::to_string(stages) +
                               ", threads " + std::to_string(threads) + ", chunks of " +
                               std::to_string(rows);
      RunPlan run = plan_of(table, stages, threads, rows);
      if (threads == 2) {
        run.strangers = requests_of(2, 100, 6);
        run.join_every = 1;
      }
      expect_same(run_plan(file, run, requests), base, stages, what);
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  return model::family_test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           names.emplace_back(kMixtral);
                           names.emplace_back(kWhole);
                           for (const std::string_view name : model::known_families()) {
                             names.emplace_back(name);
                           }
                           return names;
                         }()),
                         name_of);

// Hashes between the first two layers, by position, of a prompt of 100 tokens.
std::vector<Hash256> behind_the_first_layer(std::uint32_t window) {
  Bytes bytes;
  const auto file = model_of("gemma3", window, bytes);
  const RunPlan plan = plan_of(kernels::available_kernels().back(), kLayers, 1, 64);
  const Traces traces = run_plan(file, plan, requests_of(1, 1, 1));
  std::vector<Hash256> hashes;
  for (const auto& [place, hash] : traces.at(1).boundaries) {
    if (place.first == 1) hashes.push_back(hash);
  }
  return hashes;
}

TEST(SlidingWindow, HidesExactlyWhatLiesBeforeIt) {
  const std::vector<Hash256> all = behind_the_first_layer(0);
  ASSERT_GT(all.size(), 100U);
  for (const std::uint32_t window : {1U, 32U, 40U}) {
    const std::vector<Hash256> local = behind_the_first_layer(window);
    ASSERT_EQ(local.size(), all.size());
    // Position 0 sees itself alone either way, but at another base of its angles: both are 0.
    EXPECT_EQ(local[0], all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_NE(local[i], all[i]) << i;
    const std::vector<Hash256> wider = behind_the_first_layer(window + 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(wider[i] == local[i], i < window) << "window " << window << ", position " << i;
    }
  }
}

}  // namespace
}  // namespace hearth::node
