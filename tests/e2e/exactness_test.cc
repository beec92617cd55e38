// Every weight type and every family, small and random: whatever must not matter does not change a
// bit of tokens, logits, keys and values or hashes. The baseline is the scalar table, one sequence
// at a time in one chunk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/random.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "tests/e2e/trace.h"
#include "tests/unit/model/family_name.h"

namespace hearth::node {
namespace {

constexpr const char* kTypes[] = {
    "F32",    "F16",   "BF16",    "Q8_0",  "Q4_0",  "Q4_1",   "Q5_0",  "Q5_1",   "IQ4_NL",
    "Q2_K",   "Q3_K",  "Q4_K",    "Q5_K",  "Q6_K",  "IQ4_XS", "MXFP4", "Q4_K_M", "IQ2_XXS",
    "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M",  "TQ1_0", "TQ2_0"};

struct Model {
  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
};

// One of every kind that the family has.
std::uint32_t layers_of(std::string_view family) {
  return std::max(3U, model::find_family(family)->period());
}

// Widths of rows that are whole super-blocks and rows that are not, rows of no multiple of 16.
Model make_model(std::string_view family, const char* type, SeededRandom& random) {
  model::SyntheticOptions options;
  EXPECT_TRUE(model::set_weight_types(options, type).ok());
  options.family = family;
  options.seed = random.next();
  options.layers = layers_of(family);
  options.heads = 4;
  options.kv_heads = random.next() % 2 == 0 ? 2 : 1;
  options.head_dim = random.next() % 2 == 0 ? 32 : 64;
  options.hidden = random.next() % 3 == 0 ? 96 : 256;
  options.feed_forward = random.next() % 3 == 0 ? 160 : 256;
  options.vocabulary = 360 + static_cast<std::uint32_t>(random.next() % 40);
  options.context = 256;
  options.tied_output = random.next() % 2 == 0;
  Model made;
  auto bytes = model::synthetic_model_bytes(options);
  EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().message);
  made.bytes = std::move(*bytes);
  auto file = model::GgufFile::parse(made.bytes, "synthetic");
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  made.file = *file;
  return made;
}

std::vector<Request> requests_of(std::uint32_t count, SeededRandom& random) {
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request;
    request.id = SequenceId(1 + i);
    const std::uint64_t length = i == 0 ? 70 : 1 + random.next() % 9;  // 70: over two pages
    for (std::uint64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(3 + random.next() % 250));
    }
    request.sampling.max_tokens = i == 0 ? 4 : 2;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.seed = random.next();
    request.sampling.logprobs = true;
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
  plan.options.kv_budget_bytes = 64 << 20;
  return plan;
}

class Exactness : public ::testing::TestWithParam<std::string_view> {};

constexpr std::size_t kTypesApart = 6;

// HEARTH_EXACTNESS=all: every type in every family, with every number of threads.
bool everything() {
  const char* wanted = std::getenv("HEARTH_EXACTNESS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

// Every sixth type for a family, so that each type has two families or more: kernels depend on the
// type, what a family does with their outputs does not.
std::vector<const char*> types_of(std::string_view family) {
  const bool all = everything();
  const auto known = model::known_families();
  const auto index = static_cast<std::size_t>(std::ranges::find(known, family) - known.begin());
  std::vector<const char*> types;
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (all || i % kTypesApart == index % kTypesApart) types.push_back(kTypes[i]);
  }
  return types;
}

constexpr std::uint32_t kBatches[] = {1, 2, 7, 33};
constexpr std::uint32_t kThreads[] = {1, 2, 4};

// One run against the baseline; chunks, stages and when sequences join are drawn.
void run_and_compare(const Model& model, const kernels::Kernels* table, std::uint32_t batch,
                     std::uint32_t threads, const std::vector<Request>& all, const Traces& wanted,
                     SeededRandom& random, const std::string& what) {
  constexpr std::uint32_t kChunks[] = {1, 7, 64, 512};
  constexpr std::uint32_t kStages[] = {1, 2, 3, 3};
  const std::uint32_t stages = kStages[random.next() % 4];
  RunPlan plan = plan_of(table, stages, threads, kChunks[random.next() % 4]);
  plan.join_every = static_cast<std::uint32_t>(random.next() % 3);
  const std::vector<Request> some(all.begin(), all.begin() + batch);
  const Traces part(wanted.begin(), std::next(wanted.begin(), batch));
  expect_same(run_plan(model.file, plan, some), part, stages,
              what + ", " + std::string(table->name) + ", batch " + std::to_string(batch) + ", " +
                  std::to_string(threads) + " threads, " + std::to_string(stages) +
                  " stages, chunks of " + std::to_string(plan.options.prefill_rows));
}

// Each type meets every table and every batch, with a number of threads that is drawn; the slow
// scalar table, which is the baseline as well, meets one batch. Where all is run, each meets each,
// but for the threads of the scalar table.
TEST_P(Exactness, EveryTypeOnEveryTable) {
  SeededRandom random(GetParam().size() + static_cast<unsigned char>(GetParam().back()));
  for (const char* type : types_of(GetParam())) {
    const Model model = make_model(GetParam(), type, random);
    const std::uint32_t layers = layers_of(GetParam());
    const std::vector<Request> all = requests_of(33, random);
    RunPlan baseline = plan_of(kernels::kernels_named("scalar").value(), layers, 2, 512);
    baseline.one_by_one = true;
    const Traces wanted = run_plan(model.file, baseline, all);
    const std::string what = std::string(GetParam()) + " " + type;
    for (const kernels::Kernels* table : kernels::available_kernels()) {
      const std::uint32_t of_scalar = kBatches[random.next() % std::size(kBatches)];
      for (const std::uint32_t batch : kBatches) {
        if (table->name == "scalar" && batch != of_scalar && !everything()) continue;
        const std::uint64_t drawn = random.next() % std::size(kThreads);
        for (std::uint32_t i = 0; i < std::size(kThreads); ++i) {
          if (i != drawn && (table->name == "scalar" || !everything())) continue;
          run_and_compare(model, table, batch, kThreads[i], all, wanted, random, what);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

std::vector<std::string_view> families() {
  const auto known = model::known_families();
  return {known.begin(), known.end()};
}

INSTANTIATE_TEST_SUITE_P(Families, Exactness, ::testing::ValuesIn(families()),
                         [](const auto& info) { return model::family_test_name(info.param); });

}  // namespace
}  // namespace hearth::node
