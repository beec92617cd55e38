// What may happen to a card: it fails for good, it stops answering, its memory is too small or
// changes. Whatever it is, the owner is told once, and no step reaches the card again.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "model/synthetic.h"
#include "node/engine/card/card.h"
#include "node/engine/card/card_check.h"
#include "node/engine/card/card_weights.h"
#include "tests/emulated/emulated_runtime.h"
#include "tests/emulated/emulator.h"

namespace hearth::node {
namespace {

constexpr SequenceId kA{1};

class CardFault : public ::testing::Test {
 protected:
  void SetUp() override {
    emulated::set_memory(std::uint64_t{2} << 30);
    emulated::fail_after(emulated::Fail::kNothing, 0);
    model::SyntheticOptions model;
    model.layers = 1;
    model.hidden = 64;
    model.feed_forward = 64;
    model.heads = 2;
    model.kv_heads = 1;
    model.vocabulary = 288;
    model.context = 64;
    use(model);
  }
  void use(const model::SyntheticOptions& model) {
    bytes_ = model::synthetic_model_bytes(model).value();
    file_ = model::GgufFile::parse(bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }
  void TearDown() override {
    emulated::fail_after(emulated::Fail::kNothing, 0);
    emulated::hold(false);
    emulated::set_foreign_memory(0);
    emulated::set_graph_memory(0);
    emulated::set_capability(9, 0);
    emulated::set_memory(std::uint64_t{2} << 30);
    EXPECT_EQ(emulated::memory_used(), 0U);
    EXPECT_EQ(emulated::pinned_used(), 0U);
  }

  void open(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    device_ = open_card(card_options(limit)).value();
  }
  // Of a whole model, by the check and by the loading itself, before any memory is taken.
  void expect_refused(const std::string& text) {
    EngineOptions options;
    options.layers = {0, spec_.layers};
    for (const Status& refused : {device_->check_memory(*file_, spec_, options),
                                  Status(device_->load(*file_, spec_, options).error())}) {
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(refused.error().message.find(text), std::string::npos) << refused.error().message;
    }
    EXPECT_EQ(emulated::memory_used(), 0U);
  }
  CardOptions card_options(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    CardOptions options;
    options.say = [this](std::string_view sentence) { said_.emplace_back(sentence); };
    options.progress = [this](std::uint64_t done, std::uint64_t all) {
      EXPECT_LE(done, all);
      done_ = done;
      all_ = all;
      if (done == all && on_loaded_) on_loaded_();
    };
    options.on_lost = [this](const Error& error) {
      const std::lock_guard lock(mutex_);
      lost_.push_back(error);
      changed_.notify_all();
    };
    options.step_limit = limit;
    return options;
  }
  // A card is opened, asked for its memory, loaded, stepped with, once as it is, once to make a
  // graph and once with that, and its weights are checked.
  Status life() {
    TRY(device_, open_card(card_options()));
    TRY_VOID(device_->budget());
    TRY(const auto engine, load());
    for (Position i = 0; i < 3; ++i) TRY_VOID(step(*engine, i));
    return engine->verify_weights();
  }
  Result<std::unique_ptr<Engine>> load() {
    EngineOptions options;
    options.layers = {0, 1};
    options.kv_budget_bytes = 64 << 10;
    options.batch_rows = 8;
    options.device = device_.get();
    return Engine::load(file_, spec_, options);
  }
  static StepBatch step_of(Position position) {
    StepBatch batch;
    if (position == 0) batch.opens.push_back({kA, 1, true, {}});
    batch.rows.push_back({kA, position, 3, BatchRow::kSample});
    return batch;
  }
  static Status step(Engine& engine, Position position) {
    StepBatch batch = step_of(position);
    StepResult result;
    return engine.step(batch, result);
  }

  Bytes bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  std::unique_ptr<Device> device_;
  std::vector<std::string> said_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
  std::function<void()> on_loaded_;  // when all is on its way to the card
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> lost_;
};

TEST_F(CardFault, SaysWhatItWillTakeAndTakesThat) {
  open();
  auto engine = load();
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  ASSERT_EQ(said_.size(), 2U);
  EXPECT_NE(said_[0].find("cuda:0 emulated card: will take "), std::string::npos) << said_[0];
  EXPECT_NE(said_[1].find(" 0.0 MiB more than reckoned"), std::string::npos) << said_[1];
  EngineOptions options;
  options.layers = {0, 1};
  options.kv_budget_bytes = 64 << 10;
  options.batch_rows = 8;
  const StageMemory memory = device_->memory(*file_, spec_, options).value();
  EXPECT_EQ(emulated::memory_used(),
            memory.weights + memory.buffers + memory.page * (*engine)->kv_pages());
  EXPECT_EQ(done_, all_);
  EXPECT_GT(all_, 0U);
}

TEST_F(CardFault, NeitherAStepNorACheckOfTheWeightsTakesMemory) {
  open();
  auto engine = load().value();
  const std::uint64_t before = emulated::allocations();
  for (Position i = 0; i < 4; ++i) ASSERT_TRUE(step(*engine, i).ok());
  ASSERT_TRUE(engine->verify_weights().ok());
  EXPECT_EQ(emulated::allocations(), before);
}

// The first step of a shape runs as it is, the second is captured, and the third only started.
TEST_F(CardFault, AStepOfAShapeSeenBeforeIsAGraph) {
  open();
  auto engine = load().value();
  const std::uint64_t made = emulated::graphs_made();
  const std::uint64_t launched = emulated::graphs_launched();
  for (Position i = 0; i < 4; ++i) ASSERT_TRUE(step(*engine, i).ok());
  EXPECT_EQ(emulated::graphs_made(), made + 1);
  EXPECT_EQ(emulated::graphs_launched(), launched + 3);
}

TEST_F(CardFault, ACardWithTooLittleMemoryIsRefusedWithTheFigures) {
  emulated::set_memory((std::uint64_t{1} << 30) + (64 << 10));
  open();
  const auto engine = load();
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kNoCapacity);
  for (const char* word : {"needs", "weights", "KV of one sequence", "buffers", "may take"}) {
    EXPECT_NE(engine.error().message.find(word), std::string::npos) << engine.error().message;
  }
  EXPECT_TRUE(lost_.empty());
  EXPECT_EQ(emulated::memory_used(), 0U);
}

TEST_F(CardFault, TheReserveIsATenthAndAtLeastOneGibibyte) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_EQ(card_budget(24 * kGiB, 24 * kGiB), 24 * kGiB - 24 * kGiB / 10);
  EXPECT_EQ(card_budget(6 * kGiB, 8 * kGiB), 5 * kGiB);
  EXPECT_EQ(card_budget(kGiB / 2, 8 * kGiB), 0U);
  // Of the card, not of what is free of it.
  EXPECT_EQ(card_budget(12 * kGiB, 40 * kGiB), 8 * kGiB);
  emulated::set_memory(40 * kGiB);
  emulated::set_foreign_memory(28 * kGiB);
  open();
  EXPECT_EQ(device_->budget().value(), 8 * kGiB);
}

TEST_F(CardFault, AStageThatJustFitsIsTakenAndOneByteLessRefusesIt) {
  open();
  EngineOptions options;
  options.layers = {0, 1};
  options.kv_budget_bytes = 64 << 10;
  options.batch_rows = 8;
  const std::uint64_t least = device_->memory(*file_, spec_, options)->least();
  emulated::set_memory((std::uint64_t{1} << 30) + least);
  EXPECT_EQ(device_->budget().value(), least);
  EXPECT_TRUE(device_->check_memory(*file_, spec_, options).ok());
  EXPECT_TRUE(load().ok());
  emulated::set_memory((std::uint64_t{1} << 30) + least - 1);
  const Status refused = device_->check_memory(*file_, spec_, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
  EXPECT_FALSE(load().ok());
}

// The budget held it, and then another process was faster. Each allocation of a load in turn: the
// card's, and pinned ones.
TEST_F(CardFault, AnAllocationThatFailsRefusesTheStageAndLeavesTheCard) {
  open();
  std::uint64_t n = 0;
  for (;; ++n) {
    ASSERT_LT(n, 50U);
    emulated::fail_after(emulated::Fail::kOutOfMemory, n);
    const auto engine = load();
    if (engine.ok()) break;
    EXPECT_EQ(engine.error().code, ErrorCode::kNoCapacity);
    for (const char* words : {"cuda:0 emulated card: ", "out of memory", "the stage takes",
                              "were free", "another process"}) {
      EXPECT_NE(engine.error().message.find(words), std::string::npos) << engine.error().message;
    }
    EXPECT_TRUE(lost_.empty()) << n;
    EXPECT_EQ(emulated::memory_used(), 0U) << n;
    EXPECT_EQ(emulated::pinned_used(), 0U) << n;
  }
  EXPECT_GE(n, 4U) << "the stage, buffers of the host, digests, the loader's two parts";
}

// A step needs none but for graphs, and does without those.
TEST_F(CardFault, StepsGoOnWhenOtherProcessesTakeAllMemory) {
  open();
  auto engine = load().value();
  emulated::set_graph_memory(1 << 20);
  emulated::set_foreign_memory(std::uint64_t{2} << 30);
  for (Position i = 0; i < 4; ++i) ASSERT_TRUE(step(*engine, i).ok());
  EXPECT_TRUE(lost_.empty());
}

TEST_F(CardFault, ACardThatThereIsNoCodeForIsNotOpened) {
  for (const auto& [major, minor, opens] : {std::tuple{7U, 0U, false},
                                            {7U, 5U, true},
                                            {8U, 0U, true},
                                            {8U, 7U, true},
                                            {8U, 9U, true},
                                            {9U, 0U, true},
                                            {10U, 0U, false},
                                            {11U, 0U, false},
                                            {12U, 1U, true},
                                            {13U, 0U, false}}) {
    emulated::set_capability(major, minor);
    const auto opened = open_card(card_options());
    const std::string number = std::to_string(major) + "." + std::to_string(minor);
    ASSERT_EQ(opened.ok(), opens) << number;
    if (opens) continue;
    EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
    for (const std::string& words : {"compute capability " + number, std::string("7.5, 8.0, 8.6"),
                                     std::string("12.0"), std::string("--device cpu")}) {
      EXPECT_NE(opened.error().message.find(words), std::string::npos) << opened.error().message;
    }
  }
  EXPECT_TRUE(lost_.empty());
}

TEST_F(CardFault, SaysHowManyLayersFit) {
  model::SyntheticOptions model;
  model.layers = 5;
  bytes_ = model::synthetic_model_bytes(model).value();
  file_ = model::GgufFile::parse(bytes_, "five layers").value();
  spec_ = model::ModelSpec::read(*file_).value();
  open();
  EngineOptions options;
  options.layers = {2, 5};
  const std::uint64_t three = device_->memory(*file_, spec_, options)->least();
  const auto fit = [&](std::uint64_t bytes) {
    emulated::set_memory((std::uint64_t{1} << 30) + bytes);
    return layers_within(*device_, *file_, spec_, {}).value();
  };
  EXPECT_EQ(fit(three), 3U);
  EXPECT_EQ(fit(three - 1), 2U);
  EXPECT_EQ(fit(0), 0U);
  EXPECT_EQ(fit(std::uint64_t{1} << 30), 5U);
}

TEST_F(CardFault, AModelWithExpertsIsRefusedBeforeAnyMemoryIsTaken) {
  for (const char* family : {"llama", "qwen2moe", "qwen3moe", "granitemoe", "glm4moe", "deepseek2",
                             "gemma4", "gpt-oss", "llama4", "qwen3next", "qwen35moe"}) {
    model::SyntheticOptions experts;
    experts.family = family;
    experts.experts = 4;
    use(experts);
    open();
    expect_refused("with experts runs on the CPU alone; use --device cpu");
  }
}

TEST_F(CardFault, WeightsThatNoCardComputesAreRefusedBeforeAnyMemoryIsTaken) {
  model::SyntheticOptions weights;
  weights.feed_forward_type = model::TensorType::kMXFP4;
  use(weights);
  open();
  expect_refused(
      "tensor blk.0.ffn_gate.weight is of type MXFP4, which runs on the CPU alone; use --device "
      "cpu");
}

TEST_F(CardFault, AFamilyThatNoCardComputesIsRefusedByName) {
  const std::pair<const char*, const char*> kFamilies[] = {
      {"olmo2", "no norms before attention and feed-forward"},
      {"granite", "scaled branches and logits"},
      {"smollm3", "layers without RoPE"},
      {"glm4", "fused matrices"},
      {"gemma2", "capped scores and logits"},
      {"gemma4", "heads of two sizes"},
      {"phi3", "fused matrices"},
      {"mistral3", "scores that grow with the position"}};
  for (const auto& [family, part] : kFamilies) {
    model::SyntheticOptions made;
    made.family = family;
    use(made);
    open();
    expect_refused(std::string("a ") + family + " model with " + part);
  }
}

// Whatever the call is for: the owner hears of it once, and nothing reaches for the card again.
TEST_F(CardFault, AStickyErrorAtAnyCallLosesTheCardForGood) {
  model::SyntheticOptions tiny;
  tiny.layers = 1;
  tiny.hidden = 32;
  tiny.feed_forward = 32;
  tiny.heads = 2;
  tiny.kv_heads = 1;
  tiny.head_dim = 32;
  tiny.vocabulary = 288;
  tiny.context = 32;
  use(tiny);
  std::uint64_t n = 0;
  for (;; ++n) {
    ASSERT_LT(n, 1000U);
    lost_.clear();
    done_ = 0;
    emulated::fail_after(emulated::Fail::kSticky, n);
    const Status failed = life();
    device_.reset();
    if (failed.ok()) break;
    EXPECT_EQ(failed.error().code, ErrorCode::kIo) << n;
    EXPECT_NE(failed.error().message.find("cuda:0: "), std::string::npos)
        << n << ": " << failed.error().message;
    ASSERT_EQ(lost_.size(), 1U) << n;
    EXPECT_EQ(lost_[0].code, ErrorCode::kIo);
    EXPECT_EQ(emulated::calls_since_lost(), 0U) << n;
    emulated::forget_lost();
  }
  EXPECT_GT(n, 100U);
  EXPECT_TRUE(lost_.empty());
}

// The first calls alone: what follows is the same call again and again.
TEST_F(CardFault, AStickyErrorWhileTheRateIsMeasuredLosesTheCard) {
  for (std::uint64_t n = 0; n < 8; ++n) {
    lost_.clear();
    open();
    emulated::fail_after(emulated::Fail::kSticky, n);
    const auto rate = device_->measure_weight_rate();
    ASSERT_FALSE(rate.ok()) << n;
    EXPECT_NE(rate.error().message.find("cuda:0: "), std::string::npos) << rate.error().message;
    EXPECT_EQ(lost_.size(), 1U) << n;
    EXPECT_FALSE(device_->budget().ok());
    EXPECT_EQ(lost_.size(), 1U) << n;
    EXPECT_EQ(emulated::calls_since_lost(), 0U) << n;
    emulated::forget_lost();
  }
}

TEST_F(CardFault, AskedAnythingALostCardAnswersWithItsError) {
  for (std::uint64_t n = 0; n < 15; n += 7) {
    lost_.clear();
    emulated::fail_after(emulated::Fail::kNothing, 0);
    open();
    auto engine = load().value();
    ASSERT_TRUE(step(*engine, 0).ok());
    emulated::fail_after(emulated::Fail::kSticky, n);
    const Status failed = step(*engine, 1);
    ASSERT_FALSE(failed.ok()) << n;
    for (const Status& later : {step(*engine, 2), Status(engine->verify_weights())}) {
      ASSERT_FALSE(later.ok());
      EXPECT_EQ(later.error().message, failed.error().message);
    }
    EXPECT_FALSE(engine->kv_hashes(kA).ok());
    EXPECT_FALSE(load().ok());
    engine.reset();
    EXPECT_EQ(emulated::calls_since_lost(), 0U) << n;
    EXPECT_EQ(lost_.size(), 1U);
    emulated::forget_lost();
  }
}

TEST_F(CardFault, ACardThatDoesNotAnswerIsLostByTheWatchdog) {
  open(std::chrono::milliseconds(1500));
  auto engine = load().value();
  ASSERT_TRUE(step(*engine, 0).ok());
  emulated::fail_after(emulated::Fail::kHang, 12, [this] {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(120), [this] { return !lost_.empty(); });
  });
  const Status failed = step(*engine, 1);
  ASSERT_FALSE(failed.ok());
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_NE(lost_[0].message.find("has not answered for 1500 ms"), std::string::npos);
  EXPECT_EQ(failed.error().message, lost_[0].message);
  const std::uint64_t after = emulated::runtime_calls();
  engine.reset();
  EXPECT_EQ(emulated::runtime_calls(), after);
  emulated::forget_lost();
}

// Neither half of a step waits for what the card does not end, and no call hangs: the limit runs
// between the calls as well.
TEST_F(CardFault, AStepThatNeverEndsIsLostByTheWatchdog) {
  open(std::chrono::milliseconds(1500));
  auto engine = load().value();
  ASSERT_TRUE(step(*engine, 0).ok());
  emulated::hold(true);
  StepBatch batch = step_of(1);
  ASSERT_TRUE(engine->begin(batch).ok());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!engine->ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_until(lock, end, [this] { return !lost_.empty(); }));
  }
  StepResult result;
  const Status failed = engine->finish(batch, result);
  ASSERT_FALSE(failed.ok());
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_NE(failed.error().message.find("has not answered for 1500 ms"), std::string::npos);
  EXPECT_EQ(batch.rows.at(0).position, 1U) << "what was begun comes back";
  engine.reset();
  emulated::forget_lost();
}

// The watchdog counts the time of a step, and not the time between two steps.
TEST_F(CardFault, TheWatchdogIsAtRestBetweenSteps) {
  open(std::chrono::milliseconds(1000));
  auto engine = load().value();
  ASSERT_TRUE(step(*engine, 0).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(step(*engine, 1).ok());
  EXPECT_TRUE(lost_.empty());
}

TEST_F(CardFault, TheNextStepBeginsWhileTheCardIsAtOne) {
  open();
  auto engine = load().value();
  StepBatch one = step_of(0);
  StepBatch two = step_of(1);
  StepBatch three = step_of(2);
  emulated::hold(true);
  ASSERT_TRUE(engine->begin(one).ok());
  EXPECT_FALSE(engine->ready());
  ASSERT_TRUE(engine->can_begin(two));
  ASSERT_TRUE(engine->begin(two).ok());
  EXPECT_FALSE(engine->ready());
  EXPECT_FALSE(engine->can_begin(three)) << "there are buffers for two";
  emulated::hold(false);
  StepResult result;
  for (const Position position : {0U, 1U}) {
    StepBatch back;
    ASSERT_TRUE(engine->finish(back, result).ok());
    EXPECT_EQ(back.rows.at(0).position, position);
    EXPECT_EQ(result.tokens.size(), 1U);
  }
}

// Every operation in turn fails while two steps are under way.
TEST_F(CardFault, ACardLostWithTwoStepsUnderWayIsNeverSpokenToAgain) {
  for (std::uint64_t n = 0; n < 120; n += 7) {
    lost_.clear();
    emulated::fail_after(emulated::Fail::kNothing, 0);
    open();
    auto engine = load().value();
    ASSERT_TRUE(step(*engine, 0).ok());
    emulated::fail_after(emulated::Fail::kSticky, n);
    StepBatch batch = step_of(1);
    StepBatch next = step_of(2);
    StepResult result;
    const bool begun = engine->begin(batch).ok();
    const bool begun_next = begun && engine->begin(next).ok();
    const bool finished = begun && engine->finish(batch, result).ok();
    EXPECT_EQ(batch.rows.at(0).position, 1U);
    if (begun_next) {
      EXPECT_FALSE(engine->finish(next, result).ok() && lost_.size() == 1);
      EXPECT_EQ(next.rows.at(0).position, 2U);
    }
    if (!finished) {
      EXPECT_EQ(lost_.size(), 1U) << n;
    }
    const bool lost = !lost_.empty();
    const std::uint64_t after = emulated::runtime_calls();
    if (lost) {
      EXPECT_FALSE(step(*engine, 3).ok());
    }
    engine.reset();
    if (lost) {
      EXPECT_EQ(emulated::runtime_calls(), after) << n;
      emulated::forget_lost();
    }
    EXPECT_LE(lost_.size(), 1U);
  }
}

// An engine that goes with steps under way waits for the card before it frees what that uses.
TEST_F(CardFault, AnEngineMayEndWithStepsUnderWay) {
  open();
  auto engine = load().value();
  StepBatch one = step_of(0);
  StepBatch two = step_of(1);
  ASSERT_TRUE(engine->begin(one).ok());
  ASSERT_TRUE(engine->begin(two).ok());
  engine.reset();
  EXPECT_TRUE(lost_.empty());
}

TEST_F(CardFault, AChangedBitOfAWeightIsFoundAndNamed) {
  open();
  auto engine = load().value();
  ASSERT_TRUE(engine->verify_weights().ok());
  emulated::flip_bit(emulated::newest_memory());  // the embedding stands first
  const Status changed = engine->verify_weights();
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, ErrorCode::kNumeric);
  EXPECT_NE(changed.error().message.find("token_embd.weight"), std::string::npos);
  EXPECT_EQ(lost_.size(), 1U);
  engine.reset();
  emulated::forget_lost();
}

// After all has been sent, before anything was computed with it.
TEST_F(CardFault, AWeightThatDoesNotArriveAsItWasSentIsFoundByTheLoad) {
  open();
  on_loaded_ = [] { emulated::flip_bit(emulated::newest_memory()); };
  const auto engine = load();
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kNumeric);
  EXPECT_NE(engine.error().message.find("token_embd.weight"), std::string::npos);
  EXPECT_EQ(lost_.size(), 1U);
  emulated::forget_lost();
}

TEST_F(CardFault, AWeightThatIsNotFiniteIsRefusedByName) {
  const model::TensorInfo* norm = file_->find_tensor("output_norm.weight");
  ASSERT_NE(norm, nullptr);
  const std::size_t at =
      static_cast<std::size_t>(file_->tensor_bytes(*norm).data() - bytes_.data());
  const std::uint32_t infinity = 0x7F800000U;
  std::memcpy(bytes_.data() + at, &infinity, 4);
  open();
  const auto engine = load();
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("output_norm.weight"), std::string::npos);
}

TEST_F(CardFault, AnswersTheKnownQuestions) {
  open();
  for (const char* family : {"llama", "gemma3"}) {
    const Status known = check_device(*device_, family, {model::TensorType::kQ4_K});
    EXPECT_TRUE(known.ok()) << known.error().message;
  }
}

}  // namespace
}  // namespace hearth::node
