#include "cli/worker/worker.h"

#include <gtest/gtest.h>

#include "model/synthetic.h"
#include "node/engine/delta_net.h"
#include "node/engine/kv_cache.h"

namespace hearth::cli {
namespace {

// Of four layers, the last one has pages and the others have states.
TEST(Worker, TheLeastKvBudgetIsAPageAndAStateOfTheLayersThatHaveThem) {
  model::SyntheticOptions options;
  options.family = "qwen35";
  options.head_dim = 64;
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const auto spec = model::ModelSpec::read(*file).value();
  const std::uint64_t page = node::KvCache::page_bytes({spec.kv_layout(3)});
  const std::uint64_t state = node::DeltaNet::state_bytes(spec, {2, 3});
  ASSERT_GT(state, 0U);
  EXPECT_TRUE(check_kv_budget(page, spec, {3, 4}).ok());
  EXPECT_TRUE(check_kv_budget(page + 2 * state, spec, {1, 4}).ok());
  const Status refused = check_kv_budget(page + 2 * state - 1, spec, {1, 4});
  ASSERT_FALSE(refused.ok());
  for (const std::string& part :
       {"the state of one sequence of " + std::to_string(2 * state) + " bytes",
        "3 layers of this model need --kv-budget " + std::to_string(page + 2 * state) +
            " or more"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
}

TEST(Worker, KvTakesWhatTheWeightsLeaveOnAGpu) {
  EXPECT_EQ(kv_budget_or_default(0, false), std::uint64_t{512} << 20);
  EXPECT_GE(kv_budget_or_default(0, true), std::uint64_t{1} << 50);
  EXPECT_EQ(kv_budget_or_default(4096, false), 4096U);
  EXPECT_EQ(kv_budget_or_default(4096, true), 4096U);
}

}  // namespace
}  // namespace hearth::cli
