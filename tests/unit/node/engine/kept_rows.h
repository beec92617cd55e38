// KeptRowsTest: engines over a small model, for the tests of what stages keep and say again.
#pragma once

#include <gtest/gtest.h>

#include "model/synthetic.h"
#include "node/engine/engine.h"

namespace hearth::node {

inline constexpr SequenceId kA{1};
inline constexpr SequenceId kB{2};
inline constexpr std::uint64_t kRoom = 8 << 20;

class KeptRowsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model::SyntheticOptions options;
    options.layers = 4;
    bytes_ = new Bytes(model::synthetic_model_bytes(options).value());
  }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }

  std::unique_ptr<Engine> load(LayerRange layers, std::uint64_t replay_bytes,
                               std::size_t kv_budget = 16 << 20) {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = kv_budget;
    options.batch_rows = 64;
    options.replay_bytes = replay_bytes;
    return Engine::load(file_, spec_, options).value();
  }

  // Rows of one sequence, `seed` says which tokens; opened where they begin at 0.
  static StepBatch rows_of(SequenceId id, std::uint32_t seed, Position begin, Position end,
                           bool sampled = false) {
    StepBatch batch;
    if (begin == 0) {
      batch.opens.push_back({id, 1, true, {}});
      batch.opens[0].sampling.temperature = 0.0F;
      batch.opens[0].sampling.max_tokens = 400;
    }
    for (Position i = begin; i < end; ++i) {
      const bool last = sampled && i + 1 == end;
      batch.rows.push_back({id, i, static_cast<TokenId>(3 + (i * 7 + seed * 31) % 200),
                            last ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  static StepResult step(Engine& engine, StepBatch& batch) {
    StepResult result;
    const Status done = engine.step(batch, result);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    return result;
  }

  static inline Bytes* bytes_ = nullptr;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
};

}  // namespace hearth::node
