#include "node/emulation/emulated_card.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "model/synthetic.h"
#include "model/text/tokenizer.h"
#include "node/emulation/model_shape.h"
#include "placement/estimate/speed.h"
#include "tests/unit/node/engine/ranks/local_exchange.h"

namespace hearth::node {
namespace {

class HeldClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::int64_t unix_seconds() const override { return 0; }
  TimePoint now_ = std::chrono::hours(1);
};

class EmulatedCardTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model::SyntheticOptions options;
    bare_ = new Bytes(model::synthetic_model_bytes(options).value());
    options.shape_only = true;
    bytes_ = new Bytes(model::synthetic_model_bytes(options).value());
  }

  void SetUp() override {
    card_.title = "Pebble 1";
    card_.memory_bytes = 2.0 * 1024 * 1024 * 1024;
    card_.memory_bytes_per_second = 1e6;
    card_.fp16_flops = 1e9;
    card_.fp32_flops = 1e9;
    file_ = model::GgufFile::parse(*bytes_, "shape").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }

  std::unique_ptr<Device> emulate() {
    return emulate_card(card_, {clock_,
                                [this](TimePoint until) {
                                  slept_.push_back(until - clock_.now_);
                                  clock_.now_ = until;
                                }})
        .value();
  }

  static EngineOptions options_of(Device& device, LayerRange layers) {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = 16 << 20;
    options.batch_rows = 64;
    options.device = &device;
    return options;
  }

  static StepBatch prompt(std::uint64_t id, std::uint32_t tokens) {
    StepBatch batch;
    batch.opens.push_back({SequenceId(id), tokens, true, {}});
    batch.opens[0].sampling.max_tokens = 100;
    for (Position i = 0; i < tokens; ++i) {
      batch.rows.push_back(
          {SequenceId(id), i, 5, i + 1 == tokens ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  placement::EstimateInput roofline() const {
    placement::EstimateInput setup;
    setup.shape = shape_of(spec_, "");
    setup.weight_bits = weight_bits_of(*file_, spec_);
    setup.card = card_;
    return setup;
  }

  static Bytes* bare_;   // with weights
  static Bytes* bytes_;  // the shape
  placement::Card card_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  HeldClock clock_;
  std::vector<Duration> slept_;
};
Bytes* EmulatedCardTest::bare_ = nullptr;
Bytes* EmulatedCardTest::bytes_ = nullptr;

TEST_F(EmulatedCardTest, AStepTakesTheTimeOfTheRoofline) {
  const auto device = emulate();
  auto first = Engine::load(file_, spec_, options_of(*device, {0, 3})).value();
  auto last = Engine::load(file_, spec_, options_of(*device, {3, 4})).value();
  StepBatch batch = prompt(1, 10);
  StepResult result;
  ASSERT_TRUE(first->step(batch, result).ok());
  EXPECT_EQ(batch.activations.size(), 10U * spec_.hidden * 2) << "rows have their real size";
  ASSERT_TRUE(last->step(batch, result).ok());
  ASSERT_EQ(slept_.size(), 2U);
  const placement::StepLoad load{10.0, 10.0, 55.0};  // KV is read once, and each row attends to its
  const double layer = layer_seconds(roofline(), load);
  const double head = head_seconds(roofline(), 1.0);
  const auto seconds = [](Duration one) { return std::chrono::duration<double>(one).count(); };
  EXPECT_NEAR(seconds(slept_[0]), 3.0 * layer, 1e-8);
  EXPECT_NEAR(seconds(slept_[1]), layer + head, 1e-8);
  EXPECT_GT(head, 0.0);
}

TEST_F(EmulatedCardTest, KvOfEverySequenceIsReadOnce) {
  const auto device = emulate();
  auto engine = Engine::load(file_, spec_, options_of(*device, {0, 4})).value();
  StepBatch batch = prompt(1, 4);
  const StepBatch other = prompt(2, 6);
  batch.opens.push_back(other.opens[0]);
  batch.rows.insert(batch.rows.end(), other.rows.begin(), other.rows.end());
  StepResult result;
  ASSERT_TRUE(engine->step(batch, result).ok());
  const double seconds = 4.0 * layer_seconds(roofline(), placement::StepLoad{10.0, 10.0, 31.0}) +
                         head_seconds(roofline(), 2.0);
  EXPECT_NEAR(std::chrono::duration<double>(slept_.at(0)).count(), seconds, 1e-8);
}

// A group of two ranks computes a prompt: the bytes and exchanges of each.
struct Exchanged {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> swaps;
};
Exchanged exchanged_by(const std::shared_ptr<const model::GgufFile>& file,
                       const model::ModelSpec& spec, const EngineOptions& options,
                       const StepBatch& prompt) {
  constexpr std::array<std::uint32_t, 2> kEven{1, 1};
  LocalExchange exchange(2);
  std::vector<std::size_t> tokens(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const RankGroup group{divide(spec, kEven).value(), rank, &exchange.of(rank), 16};
      EngineOptions own = options;
      own.group = &group;
      auto engine = Engine::load(file, spec, own);
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      StepBatch batch = prompt;
      StepResult result;
      const Status done = (*engine)->step(batch, result);
      EXPECT_TRUE(done.ok()) << done.error().message;
      tokens[rank] = result.tokens.size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tokens, (std::vector<std::size_t>{1, 0})) << "rank 0 reports";
  return {{exchange.sent(0), exchange.sent(1)}, {exchange.swaps(0), exchange.swaps(1)}};
}

TEST_F(EmulatedCardTest, RanksExchangeAsManyFramesOfTheSameSizeAsRealOnes) {
  const auto real_file = model::GgufFile::parse(*bare_, "model").value();
  const auto real_spec = model::ModelSpec::read(*real_file).value();
  // The steps of two ranks use one clock.
  const auto device = emulate_card(card_, {clock_, [](TimePoint) {}}).value();
  EngineOptions real = options_of(*device, {0, 4});
  real.device = nullptr;
  const Exchanged is = exchanged_by(file_, spec_, options_of(*device, {0, 4}), prompt(1, 10));
  const Exchanged should = exchanged_by(real_file, real_spec, real, prompt(1, 10));
  EXPECT_EQ(is.swaps, should.swaps);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    // Real rows have marks of two bytes for failures beside their values.
    const auto sent = static_cast<double>(should.sent[rank]);
    EXPECT_NEAR(static_cast<double>(is.sent[rank]), sent, 0.1 * sent) << "rank " << rank;
  }
}

// Another rank that decides as this one does.
struct Agreeing final : Exchange {
  Status swap(std::span<const ByteSpan> out, std::span<const MutableByteSpan> in) override {
    if (fails) return Error{ErrorCode::kIo, "the other rank is gone"};
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].size() == out[i].size()) std::ranges::copy(out[i], in[i].begin());
    }
    return ok_status();
  }
  Error blame(std::uint32_t /*rank*/, const std::string& why) override {
    return Error::invalid(why);
  }
  bool fails = false;
};

TEST_F(EmulatedCardTest, ARankTakesTheTimeOfItsShareAndEndsWithItsGroup) {
  Agreeing other;
  const auto device = emulate();
  constexpr std::array<std::uint32_t, 2> kEven{1, 1};
  const RankGroup group{divide(spec_, kEven).value(), 0, &other, 16};
  EngineOptions options = options_of(*device, {0, 4});
  options.group = &group;
  auto engine = Engine::load(file_, spec_, options).value();
  StepBatch batch = prompt(1, 10);
  StepResult result;
  ASSERT_TRUE(engine->step(batch, result).ok());
  placement::EstimateInput own = roofline();
  own.shape = shape_of(narrowed(spec_, group.own()), "");
  const double layer = layer_seconds(own, placement::StepLoad{10.0, 10.0, 55.0});
  ASSERT_EQ(slept_.size(), 5U) << "after each layer, and after the head";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::chrono::duration<double>(slept_[i]).count(), layer, 1e-8);
  }
  EXPECT_LT(layer, 0.7 * layer_seconds(roofline(), placement::StepLoad{10.0, 10.0, 55.0}));
  other.fails = true;
  batch = {};
  batch.rows.push_back({SequenceId(1), 10, 5, BatchRow::kSample});
  const Status lost = engine->step(batch, result);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ErrorCode::kIo);
}

TEST_F(EmulatedCardTest, TokensSpellWhatTheyAre) {
  const auto device = emulate();
  auto engine = Engine::load(file_, spec_, options_of(*device, {0, 4})).value();
  const auto tokenizer = model::Tokenizer::load(*file_).value();
  std::string text;
  StepBatch batch = prompt(1, 3);
  for (Position position = 3; position < 30; ++position) {
    StepResult result;
    ASSERT_TRUE(engine->step(batch, result).ok());
    ASSERT_EQ(result.tokens.size(), 1U);
    EXPECT_EQ(result.tokens[0].position, position);
    text += tokenizer->token_bytes(result.tokens[0].token, false);
    batch = {};
    batch.rows.push_back({SequenceId(1), position, result.tokens[0].token, BatchRow::kSample});
  }
  EXPECT_NE(text.find("EMULATED "), std::string::npos) << text;
}

TEST_F(EmulatedCardTest, LogProbabilitiesFail) {
  const auto device = emulate();
  auto engine = Engine::load(file_, spec_, options_of(*device, {0, 4})).value();
  StepBatch batch = prompt(1, 3);
  batch.opens[0].sampling.logprobs = true;
  StepResult result;
  ASSERT_TRUE(engine->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 1U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(result.tokens[0].error, ErrorCode::kUnsupported);
}

TEST_F(EmulatedCardTest, ShapesAndWeightsAreKeptApart) {
  const auto device = emulate();
  EXPECT_TRUE(spec_.shape_only);
  EXPECT_EQ(device->name(), "EMULATED Pebble 1");
  EngineOptions real = options_of(*device, {0, 4});
  real.device = nullptr;
  const auto computed = Engine::load(file_, spec_, real);
  ASSERT_FALSE(computed.ok());
  EXPECT_NE(computed.error().message.find("only an emulated GPU"), std::string::npos);
  const auto model = model::GgufFile::parse(*bare_, "model").value();
  const auto spec = model::ModelSpec::read(*model).value();
  const auto emulated = Engine::load(model, spec, options_of(*device, {0, 4}));
  ASSERT_FALSE(emulated.ok());
  EXPECT_NE(emulated.error().message.find("--shape"), std::string::npos);
}

TEST_F(EmulatedCardTest, MemoryIsThatOfTheCard) {
  const auto enough = emulate();
  const auto stage = enough->memory(*file_, spec_, options_of(*enough, {0, 4})).value();
  EXPECT_EQ(stage.weights, file_bytes_of(*file_, spec_, {0, 4}));
  card_.memory_bytes = 1024.0 * 1024 * 1024;  // all of it is the margin
  const auto small = emulate();
  EXPECT_EQ(small->budget().value(), 0U);
  const auto loaded = Engine::load(file_, spec_, options_of(*small, {0, 4}));
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kNoCapacity);
  card_.memory_bytes = 0.0;
  EXPECT_FALSE(emulate_card(card_, real_time()).ok());
}

TEST(ModelShape, BytesAreThoseOfTheStage) {
  model::SyntheticOptions options;
  options.tied_output = false;
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const auto spec = model::ModelSpec::read(*file).value();
  const auto of = [&](LayerRange layers) { return file_bytes_of(*file, spec, layers); };
  EXPECT_EQ(of({0, 4}), of({0, 1}) + of({1, 3}) + of({3, 4}));
  EXPECT_EQ(of({0, 1}) - of({1, 2}), file->find_tensor("token_embd.weight")->bytes);
  EXPECT_EQ(of({3, 4}) - of({2, 3}), file->find_tensor("output.weight")->bytes +
                                         file->find_tensor("output_norm.weight")->bytes);
  EXPECT_NEAR(weight_bits_of(*file, spec), 4.7, 0.4);  // of Q4_1 and Q4_0, and norms
}

}  // namespace
}  // namespace hearth::node
