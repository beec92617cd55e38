// Two steps under way on a card against the processor, which takes one after the other: the same
// bits, whatever the steps bring. Sequences are opened, truncated, released and opened anew under
// the same id, fail by what comes in, by their numbers or for want of pages, ahead of rows of
// theirs that have begun already; steps that break the contract are refused in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "card.h"
#include "kernels/canonical.h"
#include "model/grammar/grammar.h"
#include "model/synthetic.h"
#include "node/engine/card/card.h"
#include "node/engine/engine.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kVocabulary = 384;
constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kRows = 9;

// Of which most random tokens are a part.
const Bytes& any_text() {
  static const Bytes bytes =
      (*model::compile_grammar({model::GrammarSource::Kind::kRegex, "[^x]*"}))->bytes();
  return bytes;
}

// Steps of a stage, valid ones and a few that are not.
class Steps {
 public:
  Steps(std::uint64_t seed, const StepShape& shape) : random_(seed), shape_(shape) {}

  StepBatch next() {
    const std::map<std::uint64_t, Known> before = open_;
    StepBatch batch;
    batch.step = StepId(step_++);
    for (std::uint64_t id = 1; id <= 6; ++id) {
      if (!open_.contains(id) && one_in(4)) open(batch, id);
    }
    for (auto& [id, sequence] : open_) {
      if (sequence.next > sequence.prompt && one_in(6)) {
        sequence.next = sequence.prompt + pick(sequence.next - sequence.prompt);
        batch.truncates.push_back({SequenceId(id), sequence.next});
      }
      if (!one_in(3)) add_rows(batch, id, sequence);
    }
    for (auto at = open_.begin(); at != open_.end();) {
      const auto [id, sequence] = *at;
      const bool ended = sequence.next == sequence.most();
      if (!one_in(ended ? 2 : 9)) {
        ++at;
        continue;
      }
      batch.releases.emplace_back(id);
      at = open_.erase(at);
    }
    if (shape_.with_activations) add_activations(batch);
    if (!batch.rows.empty() && one_in(8)) {
      batch.rows.back().position += 1;  // a gap, or one too many: refused as a whole
      open_ = before;
    }
    return batch;
  }
  std::vector<SequenceId> open_sequences() const {
    std::vector<SequenceId> all;
    for (const auto& [id, sequence] : open_) all.emplace_back(id);
    return all;
  }
  bool one_in(std::uint64_t n) { return pick(n) == 0; }

 private:
  struct Known {
    std::uint32_t prompt = 0;
    std::uint32_t answer = 0;
    Position next = 0;
    std::uint32_t most() const { return prompt + answer; }
  };
  std::uint32_t pick(std::uint64_t n) { return static_cast<std::uint32_t>(random_.next() % n); }

  void open(StepBatch& batch, std::uint64_t id) {
    Known& sequence = open_[id];
    sequence = {1 + pick(24), 2 + pick(30), 0};
    SequenceOpen& open = batch.opens.emplace_back();
    open.sequence = SequenceId(id);
    open.prompt_tokens = sequence.prompt;
    open.report_hashes = !one_in(3);
    open.sampling.max_tokens = sequence.answer;
    open.sampling.seed = random_.next();
    open.sampling.temperature = one_in(3) ? 0.0F : 1.2F;
    if (one_in(3)) open.sampling.repetition_penalty = 1.3F;
    if (one_in(4)) open.sampling.logit_bias = {{5, 3.0F}, {6, -2.0F}};
    if (one_in(5)) open.sampling.logprobs = true;
    open.sampling.top_logprobs = open.sampling.logprobs ? 2 : 0;
    if (one_in(4)) open.sampling.grammar = any_text();
  }

  void add_rows(StepBatch& batch, std::uint64_t id, Known& sequence) {
    const bool in_prompt = sequence.next < sequence.prompt;
    std::uint8_t before = 0;  // flags of the row before, of this sequence
    for (std::uint32_t n = in_prompt ? 1 + pick(6) : 1 + pick(3); n > 0; --n) {
      if (batch.rows.size() == kRows || sequence.next == sequence.most()) return;
      BatchRow row{SequenceId(id), sequence.next++, static_cast<TokenId>(pick(kVocabulary)), 0};
      if (sequence.next >= sequence.prompt && !one_in(4)) row.flags = BatchRow::kSample;
      const bool behind_sampled =
          (before & BatchRow::kSample) != 0 && row.position >= sequence.prompt;
      if ((before & BatchRow::kDraft) != 0 || (behind_sampled && one_in(2))) {
        row.flags = BatchRow::kSample | BatchRow::kDraft;
        if (one_in(2)) row.flags |= BatchRow::kForced;
      }
      before = row.flags;
      if (one_in(60)) row.fail(one_in(2) ? ErrorCode::kNumeric : ErrorCode::kNoCapacity);
      batch.rows.push_back(row);
    }
  }

  // Halves of either sign about 1; of some rows one is infinite.
  void add_activations(StepBatch& batch) {
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const std::uint32_t infinite = one_in(25) ? pick(kHidden) : kHidden;
      for (std::uint32_t at = 0; at < kHidden; ++at) {
        std::uint32_t half = pick(2) << 15 | (13 + pick(3)) << 10 | pick(1024);
        if (at == infinite) half = 0x7C00;
        batch.activations.push_back(static_cast<std::byte>(half & 255U));
        batch.activations.push_back(static_cast<std::byte>(half >> 8));
      }
    }
  }

  SeededRandom random_;
  const StepShape shape_;
  std::uint64_t step_ = 0;
  std::map<std::uint64_t, Known> open_;
};

struct Answer {
  StepBatch batch;
  StepResult result;
};

struct Seen {
  std::uint32_t overlapped = 0;  // steps that began before the one ahead had come back
  std::uint32_t waited = 0;      // steps that could not begin beside the one ahead
  std::uint32_t failed = 0;      // rows
  std::uint32_t refused = 0;     // steps
  std::uint32_t reopened = 0;    // ids that were released and opened within two steps
};

class Overlap : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_card({});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device_ = std::move(*opened);
  }

  // `change` may write to the bytes of file_, before anybody loads them.
  void load(const std::string& family, std::uint32_t layers, LayerRange range,
            const std::function<void()>& change = {}) {
    model::SyntheticOptions model;
    model.family = family;
    model.layers = layers;
    model.hidden = kHidden;
    model.feed_forward = 64;
    model.heads = 2;
    model.kv_heads = 1;
    model.head_dim = 32;
    model.vocabulary = kVocabulary;
    model.context = 64;
    model.sliding_window = 20;
    const auto made = model::synthetic_model_bytes(model);
    ASSERT_TRUE(made.ok()) << made.error().message;
    bytes_ = *made;
    file_ = model::GgufFile::parse(bytes_, family).value();
    if (change) change();
    EngineOptions options;
    options.layers = range;
    options.batch_rows = kRows;
    // Too few for six sequences of up to two pages each.
    const model::ModelSpec spec = model::ModelSpec::read(*file_).value();
    const std::size_t page = device_->memory(*file_, spec, options)->page;
    options.kv_budget_bytes = 6 * page;
    processor_ = loaded(Engine::load(file_, spec, options));
    options.device = device_.get();
    card_ = loaded(Engine::load(file_, spec, options));
    ASSERT_TRUE(processor_ && card_);
    ASSERT_EQ(card_->kv_pages(), 6U);
    ASSERT_EQ(processor_->kv_pages(), 6U);
  }

  static std::unique_ptr<Engine> loaded(Result<std::unique_ptr<Engine>> engine) {
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
  }

  void finish(Seen& seen) {
    Answer found;
    const Status status = card_->finish(found.batch, found.result);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const Answer& wanted = expected_.front();
    const std::string where = "step " + std::to_string(wanted.batch.step.value);
    ASSERT_EQ(found.batch.rows, wanted.batch.rows) << where;
    ASSERT_EQ(found.batch, wanted.batch) << where;
    ASSERT_EQ(found.result.tokens, wanted.result.tokens) << where;
    ASSERT_EQ(found.result.drafts, wanted.result.drafts) << where;
    ASSERT_EQ(found.result.released, wanted.result.released) << where;
    ASSERT_EQ(found.result.hashes, wanted.result.hashes) << where;
    for (const BatchRow& row : found.batch.rows) seen.failed += row.failed() ? 1 : 0;
    expected_.pop_front();
  }

  // Both engines, with a card that is up to one step behind.
  void run(std::uint64_t seed, std::uint32_t count, Seen& seen) {
    card::set_seed(seed);
    processor_->reset();
    card_->reset();
    Steps steps(seed, card_->input_shape());
    std::vector<SequenceId> released;
    for (std::uint32_t i = 0; i < count; ++i) {
      StepBatch batch = steps.next();
      while (!expected_.empty() && (!card_->can_begin(batch) || steps.one_in(5))) {
        seen.waited += expected_.size() == 1 && !card_->can_begin(batch) ? 1 : 0;
        ASSERT_NO_FATAL_FAILURE(finish(seen)) << "seed " << seed;
      }
      for (const SequenceOpen& open : batch.opens) {
        seen.reopened += std::count(released.begin(), released.end(), open.sequence);
      }
      released = batch.releases;
      Answer wanted{batch, {}};
      const Status status = processor_->step(wanted.batch, wanted.result);
      const bool beside = !expected_.empty() && !card_->ready();
      const Status begun = card_->begin(batch);
      ASSERT_EQ(begun.ok(), status.ok());
      if (status.ok()) {
        expected_.push_back(std::move(wanted));
        seen.overlapped += beside ? 1 : 0;
      } else {
        ASSERT_EQ(begun.error().message, status.error().message);
        ASSERT_EQ(batch, wanted.batch);
        ++seen.refused;
      }
      while (!expected_.empty() && steps.one_in(3)) {
        if (card_->ready()) break;
      }
      if (!steps.one_in(5)) continue;
      while (!expected_.empty()) ASSERT_NO_FATAL_FAILURE(finish(seen)) << "seed " << seed;
      compare_memory(steps);
    }
    while (!expected_.empty()) ASSERT_NO_FATAL_FAILURE(finish(seen)) << "seed " << seed;
    compare_memory(steps);
  }

  void compare_memory(const Steps& steps) {
    EXPECT_EQ(card_->kv_pages_used(), processor_->kv_pages_used());
    for (const SequenceId id : steps.open_sequences()) {
      EXPECT_EQ(card_->kv_hashes(id).value(), processor_->kv_hashes(id).value()) << id.value;
    }
  }

  Bytes bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Engine> processor_;
  std::unique_ptr<Engine> card_;
  std::deque<Answer> expected_;  // of the steps under way
};

// A sequence whose row fails while its next ones are under way: they fail with it, and the page
// that they took goes back. What is truncated in the meantime has to wait.
TEST_F(Overlap, AFailureIsHeardBeforeAnythingRestsOnIt) {
  ASSERT_NO_FATAL_FAILURE(load("llama", 3, {1, 2}));
  const auto rows = [](Position begin, Position end) {
    StepBatch batch;
    for (Position i = begin; i < end; ++i) batch.rows.push_back({SequenceId(1), i, 5, 0});
    batch.activations.assign(batch.rows.size() * kHidden * 2, std::byte{0x30});
    return batch;
  };
  for (Position i = 0; i < 28; i += 7) {
    StepBatch batch = rows(i, i + 7);
    if (i == 0) batch.opens.push_back({SequenceId(1), 20, true, {}});
    StepResult result;
    ASSERT_TRUE(card_->step(batch, result).ok());
  }
  StepBatch fails = rows(28, 29);
  fails.activations[0] = std::byte{0};
  fails.activations[1] = std::byte{0x7C};  // infinite
  StepBatch next = rows(29, 35);
  StepBatch truncates = rows(25, 26);
  truncates.truncates.push_back({SequenceId(1), 25});
  ASSERT_TRUE(card_->begin(fails).ok());
  EXPECT_FALSE(card_->can_begin(truncates));
  EXPECT_EQ(card_->kv_pages_used(), 1U);
  ASSERT_TRUE(card_->can_begin(next));
  ASSERT_TRUE(card_->begin(next).ok());
  EXPECT_EQ(card_->kv_pages_used(), 2U);
  StepResult result;
  ASSERT_TRUE(card_->finish(fails, result).ok());
  EXPECT_TRUE(fails.rows.at(0).failed());
  EXPECT_EQ(card_->kv_pages_used(), 1U);
  EXPECT_FALSE(card_->can_begin(truncates));
  ASSERT_TRUE(card_->finish(next, result).ok());
  for (const BatchRow& row : next.rows) {
    EXPECT_TRUE(row.failed());
    EXPECT_EQ(row.reason(), ErrorCode::kNumeric);
  }
  EXPECT_EQ(card_->kv_pages_used(), 1U);
  ASSERT_TRUE(card_->step(truncates, result).ok());
  EXPECT_FALSE(truncates.rows.at(0).failed()) << "what failed was dropped";
}

// One row a step, so that the layers on either set of buffers become a graph, which is started
// again; small enough for a sanitizer.
TEST_F(Overlap, GraphsOfTwoStepsUnderWayGiveTheSameBits) {
  ASSERT_NO_FATAL_FAILURE(load("llama", 1, {0, 1}));
  Seen seen;
  for (Position i = 0; i < 10; ++i) {
    StepBatch batch;
    if (i == 0) batch.opens.push_back({SequenceId(1), 1, true, {}});
    batch.rows.push_back({SequenceId(1), i, static_cast<TokenId>(3 + i), BatchRow::kSample});
    while (!expected_.empty() && !card_->can_begin(batch)) {
      ASSERT_NO_FATAL_FAILURE(finish(seen));
    }
    Answer wanted{batch, {}};
    ASSERT_TRUE(processor_->step(wanted.batch, wanted.result).ok());
    ASSERT_TRUE(card_->begin(batch).ok());
    expected_.push_back(std::move(wanted));
  }
  while (!expected_.empty()) ASSERT_NO_FATAL_FAILURE(finish(seen));
  EXPECT_EQ(seen.failed, 0U);
}

// Its query is too large; before and behind it are rows of zeros, which stay what they are. There
// is room for the scores of one row, so that each is computed by a call of its own.
TEST_F(Overlap, ARowThatAttentionRefusesFailsAlone) {
  CardOptions one_row;
  one_row.score_floats = 1;
  device_ = open_card(one_row).value();
  ASSERT_NO_FATAL_FAILURE(load("llama", 3, {1, 2}, [this] {
    const model::TensorInfo* norm = file_->find_tensor("blk.1.attn_norm.weight");
    ASSERT_NE(norm, nullptr);
    const ByteSpan weights = file_->tensor_bytes(*norm);
    const std::vector<float> large(weights.size() / sizeof(float), 16.0F * kernels::kAttentionMax);
    std::memcpy(bytes_.data() + (weights.data() - bytes_.data()), large.data(), weights.size());
  }));
  StepBatch batch;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    batch.opens.push_back({SequenceId(id), 1, true, {}});
    batch.rows.push_back({SequenceId(id), 0, 5, 0});
    batch.activations.insert(batch.activations.end(), kHidden * 2, std::byte(id == 2 ? 0x30 : 0));
  }
  Answer wanted{batch, {}};
  ASSERT_TRUE(processor_->step(wanted.batch, wanted.result).ok());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(wanted.batch.rows.at(i).failed(), i == 1) << i;
  ASSERT_TRUE(card_->begin(batch).ok());
  expected_.push_back(std::move(wanted));
  Seen seen;
  ASSERT_NO_FATAL_FAILURE(finish(seen));
  EXPECT_EQ(seen.failed, 1U);
}

struct Stage {
  const char* name;
  const char* family;
  std::uint32_t layers;
  LayerRange range;
};

class OverlapOf : public Overlap, public ::testing::WithParamInterface<Stage> {};

TEST_P(OverlapOf, TwoStepsUnderWayGiveTheBitsOfOneAfterTheOther) {
  ASSERT_NO_FATAL_FAILURE(load(GetParam().family, GetParam().layers, GetParam().range));
  Seen seen;
  // How often each case comes depends on the number of launches too: more seeds where one is rare.
  const auto rare = [&] { return seen.waited <= 3 || seen.refused <= 1 || seen.reopened <= 3; };
  for (std::uint64_t seed = 1; seed <= 4 || (seed <= 12 && rare()); ++seed) {
    ASSERT_NO_FATAL_FAILURE(run(seed, 20, seen));
  }
  std::printf("%u overlapped, %u waited, %u rows failed, %u refused, %u reopened\n",
              seen.overlapped, seen.waited, seen.failed, seen.refused, seen.reopened);
  // On a real card, its speed decides which steps are under way at once and which random numbers
  // are drawn next.
  if (card::launches() > 0) {
    EXPECT_GT(seen.overlapped, 9U);
    EXPECT_GT(seen.waited, 3U);
    EXPECT_GT(seen.failed, 15U);
    EXPECT_GT(seen.refused, 1U);
    EXPECT_GT(seen.reopened, 3U);
  }
}

std::string name_of(const ::testing::TestParamInfo<Stage>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, OverlapOf,
                         ::testing::Values(Stage{"whole", "llama", 1, {0, 1}},
                                           Stage{"middle", "llama", 3, {1, 2}},
                                           Stage{"last", "llama", 2, {1, 2}},
                                           Stage{"first", "gemma3", 6, {0, 2}}),
                         name_of);

}  // namespace
}  // namespace hearth::node
