// Engines of one process share its memory, so what one may not take alone they may not together.
#include <gtest/gtest.h>

#include "model/synthetic.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"

namespace hearth::node {
namespace {

TEST(LocalRunnerMemory, StagesOfOneProcessShareTheBudget) {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  LocalOptions local;
  local.stages = 2;
  local.kv_budget_bytes = 64 << 20;
  local.batch_rows = 16;
  std::uint64_t least = kProcessBytes;
  for (const LayerRange layers : {LayerRange{0, 2}, LayerRange{2, 4}}) {
    EngineOptions each;
    each.layers = layers;
    each.batch_rows = 16;
    each.kv_budget_bytes = 32 << 20;
    least += stage_memory(*file, spec, each)->least();
  }
  local.memory_bytes = least;
  EXPECT_TRUE(LocalRunner::load(file, local).ok());
  local.memory_bytes = least - 1;
  const auto refused = LocalRunner::load(file, local);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
}

}  // namespace
}  // namespace hearth::node
