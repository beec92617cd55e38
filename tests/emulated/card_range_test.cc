// Rows that leave the numeric range on a card: the same ones as on the processor, for the same
// reason, with the same bits everywhere else.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "card.h"
#include "model/spec.h"
#include "model/synthetic.h"
#include "node/engine/card/card.h"

namespace hearth::node {
namespace {

constexpr SequenceId kA{1};
constexpr SequenceId kB{2};
constexpr TokenId kHuge = 7;  // whose embedding leaves the range
constexpr TokenId kZero = 9;  // whose embedding is nothing, and stays nothing in every layer
constexpr std::uint32_t kRows = 36;

// What is wrong, of a model of two layers.
struct Case {
  const char* what;
  const char* tensor = nullptr;  // of numbers, all of which become `factor` times as large
  float factor = 1.0F;
  std::uint16_t injected = 0;  // not 0: what stands in a row between the stages
  TokenId token = 20;          // of the row that fails, where it is one
};

class CardRange : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model::SyntheticOptions options;
    options.layers = 2;
    options.hidden = 64;
    options.feed_forward = 96;
    options.heads = 2;
    options.kv_heads = 1;
    options.head_dim = 32;
    options.vocabulary = 288;
    options.context = 128;
    options.embedding_type = model::TensorType::kF32;
    options.tied_output = false;
    bytes_ = model::synthetic_model_bytes(options).value();
    parse();
    std::vector<float> row(options.hidden, 1e9F);
    std::memcpy(place("token_embd.weight") + kHuge * options.hidden, row.data(),
                options.hidden * sizeof(float));
    row.assign(options.hidden, 0.0F);
    std::memcpy(place("token_embd.weight") + kZero * options.hidden, row.data(),
                options.hidden * sizeof(float));
    if (GetParam().tensor != nullptr) {
      const std::size_t count =
          file_->tensor_bytes(*file_->find_tensor(GetParam().tensor)).size() / sizeof(float);
      for (std::size_t i = 0; i < count; ++i) place(GetParam().tensor)[i] *= GetParam().factor;
    }
    parse();
  }

  void parse() {
    file_ = model::GgufFile::parse(bytes_, "out of range").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }
  float* place(const char* tensor) {
    const auto* data = file_->tensor_bytes(*file_->find_tensor(tensor)).data();
    return reinterpret_cast<float*>(bytes_.data() + (data - bytes_.data()));
  }

  std::unique_ptr<Engine> load(LayerRange layers, Device* device) {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = 400'000;
    options.batch_rows = kRows;
    options.device = device;
    auto engine = Engine::load(file_, spec_, options);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return std::move(*engine);
  }

  // What two stages leave behind, of two sequences: a prompt of either in one step, then two steps
  // of a row each. The first sequence has the row that fails.
  struct Trace {
    std::vector<SampledToken> tokens;
    std::vector<RowHash> hashes;
    std::vector<std::vector<std::byte>> activations;
    std::vector<std::uint8_t> flags;
    std::vector<std::vector<Hash256>> kv;
  };
  Trace run(Device* device) {
    auto first = load({0, 1}, device);
    auto last = load({1, 2}, device);
    Trace trace;
    for (std::uint32_t step = 0; step < 3; ++step) {
      StepBatch batch = batch_of(step);
      StepResult result;
      EXPECT_TRUE(first->step(batch, result).ok());
      keep(batch, result, trace);
      if (GetParam().injected != 0 && step == 0) {
        std::memcpy(batch.activations.data() + 3 * spec_.hidden * 2, &GetParam().injected, 2);
      }
      EXPECT_TRUE(last->step(batch, result).ok());
      keep(batch, result, trace);
    }
    for (const auto& engine : {first.get(), last.get()}) {
      for (const SequenceId id : {kA, kB}) trace.kv.push_back(engine->kv_hashes(id).value());
    }
    return trace;
  }

  static void keep(const StepBatch& batch, const StepResult& result, Trace& trace) {
    trace.tokens.insert(trace.tokens.end(), result.tokens.begin(), result.tokens.end());
    trace.hashes.insert(trace.hashes.end(), result.hashes.begin(), result.hashes.end());
    trace.activations.emplace_back(batch.activations.begin(), batch.activations.end());
    for (const BatchRow& row : batch.rows) trace.flags.push_back(row.flags);
  }

  static StepBatch batch_of(std::uint32_t step) {
    StepBatch batch;
    for (const auto& [id, length] : {std::pair{kA, 33U}, std::pair{kB, 3U}}) {
      if (step == 0) {
        batch.opens.push_back({id, length, true, {}});
        batch.opens.back().sampling.temperature = 0.0F;
      }
      const std::uint32_t begin = step == 0 ? 0 : length + step - 1;
      for (Position i = begin; i < length + step; ++i) {
        const auto plain = static_cast<TokenId>(30 + i * 5 % 200);
        const TokenId token = id == kB ? kZero : i == 5 ? GetParam().token : plain;
        const bool last = i + 1 == length + step;
        batch.rows.push_back({id, i, token, last ? BatchRow::kSample : std::uint8_t{0}});
      }
    }
    return batch;
  }

  Bytes bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
};

TEST_P(CardRange, FailsTheRowsThatTheProcessorFails) {
  const Trace known = run(nullptr);
  const auto device = open_card({}).value();
  card::set_seed(1);
  const Trace found = run(device.get());
  EXPECT_EQ(found.flags, known.flags);
  EXPECT_EQ(found.tokens, known.tokens);
  EXPECT_EQ(found.hashes, known.hashes);
  EXPECT_EQ(found.activations, known.activations);
  EXPECT_EQ(found.kv, known.kv);
  // The case is what it says: the first sequence fails in each step, the second in none.
  ASSERT_EQ(known.tokens.size(), 6U);
  for (const SampledToken& token : known.tokens) {
    EXPECT_EQ(token.finish == FinishReason::kError, token.sequence == kA) << GetParam().what;
    if (token.sequence == kA) {
      EXPECT_EQ(token.error, ErrorCode::kNumeric);
    }
  }
}

constexpr Case kCases[] = {
    {"AnEmbeddingBeyondTheResidual", nullptr, 1.0F, 0, kHuge},
    {"AnInfinityFromTheStageBefore", nullptr, 1.0F, 0x7C00},
    {"ANotANumberFromTheStageBefore", nullptr, 1.0F, 0x7E01},
    {"AttentionBeyondItsRangeInTheFirstLayer", "blk.0.attn_norm.weight", 1e20F},
    {"AttentionBeyondItsRangeInTheLastLayer", "blk.1.attn_norm.weight", 1e20F},
    {"ASumBeyondTheResidualInTheFirstLayer", "blk.0.ffn_norm.weight", 1e7F},
    {"ASumBeyondTheResidualInTheLastLayer", "blk.1.ffn_norm.weight", 1e7F},
    {"AGateThatIsNotFinite", "blk.1.ffn_norm.weight", 1e30F},
    {"ANormThatIsNotFinite", "blk.1.attn_norm.weight", 1e38F},
    {"LogitsThatAreNotFinite", "output_norm.weight", 1e38F},
};

INSTANTIATE_TEST_SUITE_P(All, CardRange, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace hearth::node
