// The same prompt and the same seed give the same tokens and the same hash at every boundary, over
// the demo model. One baseline, one sequence at a time in a stage for each layer, is compared with
// runs that differ from it in everything that must not matter.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "kernels/kernels.h"
#include "tests/e2e/trace.h"

namespace hearth::node {
namespace {

constexpr TokenId kIds[] = {
#include "tests/e2e/prompt_ids.inc"
};
constexpr std::uint32_t kPrompts = 10;
constexpr std::uint32_t kAllPrompts = 20;

// HEARTH_EXACTNESS=all: twice the prompts, all of them on the scalar table, too.
bool everything() {
  const char* wanted = std::getenv("HEARTH_EXACTNESS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}
std::uint32_t prompts() { return everything() ? kAllPrompts : kPrompts; }

std::shared_ptr<const model::GgufFile> demo_file;

// Each prompt twice, greedy and sampled.
std::vector<Request> requests_of(std::uint32_t count, std::uint32_t most_tokens,
                                 std::uint32_t generated) {
  SeededRandom random(3);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = std::min(most_tokens, 3 + i * 120 / prompts() + i % 7);
    const TokenId* begin = kIds + i * 1200 / prompts();
    for (const bool greedy : {true, false}) {
      Request request;
      request.id = SequenceId(1 + 2 * i + (greedy ? 0 : 1));
      request.prompt.assign(begin, begin + length);
      request.sampling.max_tokens = generated;
      request.sampling.temperature = greedy ? 0.0F : 0.8F + 0.02F * static_cast<float>(i);
      request.sampling.seed = random.next();
      if (!greedy && i % 2 == 0) {
        request.sampling.top_p = 0.9F;
        request.sampling.top_k = 50;
        request.sampling.repetition_penalty = 1.1F;
        request.sampling.presence_penalty = 0.2F;
      }
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

std::vector<Request> strangers_of(std::uint32_t count) {
  SeededRandom random(77);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request;
    request.id = SequenceId(1000 + i);
    const std::uint64_t length = 1 + random.next() % 90;
    for (std::uint64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.next() % 49'000));
    }
    request.sampling.max_tokens = 30;
    request.sampling.seed = random.next();
    requests.push_back(std::move(request));
  }
  return requests;
}

RunPlan plan_of(std::string_view isa, std::uint32_t stages, std::uint32_t threads,
                std::uint32_t prefill_rows) {
  RunPlan plan;
  plan.options.stages = stages;
  plan.options.threads = threads;
  plan.options.prefill_rows = prefill_rows;
  plan.options.kernels = kernels::kernels_named(isa).value();
  return plan;
}

std::string_view best_isa() { return kernels::available_kernels().back()->name; }

class Invariance : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kGenerated = 16;

  static const Traces& base() {
    static const Traces traces = [] {
      RunPlan plan = plan_of(best_isa(), 30, 1, 512);
      plan.one_by_one = true;
      return run_plan(demo_file, plan, requests_of(prompts(), 120, kGenerated));
    }();
    return traces;
  }

  static void expect_base(const RunPlan& plan, const std::string& what) {
    expect_same(run_plan(demo_file, plan, requests_of(prompts(), 120, kGenerated)), base(),
                plan.options.stages, what);
  }
};

// Each number of stages, each length of chunks and each number of threads, in some run.
TEST_F(Invariance, StagesChunksAndThreads) {
  struct Plan {
    std::uint32_t stages;
    std::uint32_t threads;
    std::uint32_t chunk;
  };
  for (const Plan& plan :
       {Plan{1, 1, 1}, {1, 2, 512}, {2, 2, 7}, {3, 2, 64}, {5, 1, 128}, {30, 2, 128}}) {
    expect_base(plan_of(best_isa(), plan.stages, plan.threads, plan.chunk),
                "stages " + std::to_string(plan.stages) + ", threads " +
                    std::to_string(plan.threads) + ", chunks of " + std::to_string(plan.chunk));
  }
}

TEST_F(Invariance, OneByOneInOneStage) {
  RunPlan plan = plan_of(best_isa(), 1, 2, 64);
  plan.one_by_one = true;
  expect_base(plan, "one by one");
}

TEST_F(Invariance, AmongSixteenStrangers) {
  RunPlan plan = plan_of(best_isa(), 3, 2, 64);
  plan.strangers = strangers_of(16);
  plan.join_every = 2;
  expect_base(plan, "among 16 strangers");
}

TEST_F(Invariance, OtherInstructionSets) {
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    if (table->name == best_isa() || table->name == "scalar") continue;
    expect_base(plan_of(table->name, 5, 2, 64), std::string(table->name));
    expect_base(plan_of(table->name, 1, 1, 7), std::string(table->name) + ", 1 thread");
  }
}

// Slow: by default the first of the prompts, cut short.
TEST_F(Invariance, ScalarReference) {
  if (best_isa() == "scalar") GTEST_SKIP() << "there is nothing to compare it with";
  const std::vector<Request> requests = requests_of(everything() ? kAllPrompts : 3, 7, 3);
  const Traces wanted = run_plan(demo_file, plan_of(best_isa(), 30, 2, 128), requests);
  expect_same(run_plan(demo_file, plan_of("scalar", 3, 2, 64), requests), wanted, 3, "scalar");
}

}  // namespace
}  // namespace hearth::node

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* path = std::getenv("HEARTH_DEMO_MODEL");
  if (path == nullptr || *path == '\0') {
    std::puts("skipped: HEARTH_DEMO_MODEL names no model");
    return 77;
  }
  auto file = hearth::model::GgufFile::open(path);
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", file.error().message.c_str());
    return 1;
  }
  hearth::node::demo_file = *file;
  return RUN_ALL_TESTS();
}
