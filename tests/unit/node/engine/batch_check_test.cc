#include "node/engine/batch_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"

namespace hearth::node {
namespace {

constexpr StepShape kShape{8, 50, 20, false};
constexpr std::uint32_t kRows = 12;
constexpr SequenceId kOld{1};    // a prompt of 4 tokens, at position 6
constexpr SequenceId kHalf{2};   // a prompt of 8 tokens, at position 3
constexpr SequenceId kFull{3};   // at the last position of the context
constexpr SequenceId kDraft{4};  // a prompt of 3 tokens, all 6 of its answer at positions 3 to 8
constexpr SequenceId kNew{9};    // not open

StageSequence at(SequenceId id, std::uint32_t prompt_tokens, Position next) {
  StageSequence sequence;
  sequence.open.sequence = id;
  sequence.open.prompt_tokens = prompt_tokens;
  sequence.open.sampling.max_tokens = kShape.context;
  sequence.next = next;
  return sequence;
}

StageSequences four() {
  StageSequences sequences;
  sequences.emplace(kOld, at(kOld, 4, 6));
  sequences.emplace(kHalf, at(kHalf, 8, 3));
  sequences.emplace(kFull, at(kFull, 4, 19));
  sequences.emplace(kDraft, at(kDraft, 3, 9));
  sequences.at(kDraft).open.sampling.max_tokens = 6;
  return sequences;
}

SequenceOpen open_of(SequenceId id, std::uint32_t prompt_tokens) {
  SequenceOpen open;
  open.sequence = id;
  open.prompt_tokens = prompt_tokens;
  open.sampling.max_tokens = kShape.context;
  return open;
}

// Rows of every kind that is allowed.
StepBatch good() {
  StepBatch batch;
  batch.opens = {open_of(kNew, 2)};
  batch.truncates = {{kDraft, 5}};
  batch.releases = {kFull};
  batch.rows = {{kHalf, 3, 0, 0},
                {kHalf, 4, 49, BatchRow::kFailed},
                {kNew, 0, 1, 0},
                {kNew, 1, 2, BatchRow::kSample},
                {kOld, 6, 7, BatchRow::kSample},
                {kFull, 19, 7, BatchRow::kSample},
                {kDraft, 5, 7, BatchRow::kSample},
                {kDraft, 6, 7, BatchRow::kSample | BatchRow::kDraft},
                {kDraft, 7, 7, BatchRow::kSample | BatchRow::kDraft | BatchRow::kForced}};
  return batch;
}

struct Violation {
  const char* name;
  std::function<void(StepBatch&)> make;
  std::vector<const char*> words;  // all of them stand in the error
};

const Violation kViolations[] = {
    {"a gap", [](StepBatch& b) { b.rows[4].position = 7; }, {"sequence 1", "position 7", "6"}},
    {"a repeat", [](StepBatch& b) { b.rows[4].position = 5; }, {"position 5", "6"}},
    {"a gap inside a chunk", [](StepBatch& b) { b.rows[1].position = 5; }, {"sequence 2", "4"}},
    {"a repeat inside a chunk", [](StepBatch& b) { b.rows[1].position = 3; }, {"sequence 2", "4"}},
    {"a new sequence that does not begin at 0",
     [](StepBatch& b) { b.rows.erase(b.rows.begin() + 2); },
     {"sequence 9", "0"}},
    {"past the context",
     [](StepBatch& b) {
       b.rows.insert(b.rows.begin() + 6, {kFull, 20, 7, BatchRow::kSample});
     },
     {"sequence 3", "20"}},
    {"the largest position", [](StepBatch& b) { b.rows[0].position = 0xFFFFFFFF; }, {"4294967295"}},
    {"a negative token", [](StepBatch& b) { b.rows[0].token = -1; }, {"token -1", "50"}},
    {"a token past the vocabulary", [](StepBatch& b) { b.rows[0].token = 50; }, {"token 50", "50"}},
    {"the smallest token", [](StepBatch& b) { b.rows[0].token = INT32_MIN; }, {"vocabulary"}},
    {"sampled inside a prompt",
     [](StepBatch& b) { b.rows[0].flags = BatchRow::kSample; },
     {"sequence 2", "sampled inside", "8"}},
    {"sampled inside a new prompt",
     [](StepBatch& b) { b.rows[2].flags = BatchRow::kSample; },
     {"sequence 9", "sampled inside"}},
    {"never opened", [](StepBatch& b) { b.rows[4].sequence = SequenceId(77); }, {"77", "never"}},
    {"its open is missing", [](StepBatch& b) { b.opens.clear(); }, {"sequence 9", "never opened"}},
    {"apart", [](StepBatch& b) { std::swap(b.rows[1], b.rows[2]); }, {"not together"}},
    {"come back",
     [](StepBatch& b) {
       b.rows.push_back({kHalf, 5, 0, 0});
     },
     {"not together"}},
    {"opened twice",
     [](StepBatch& b) { b.opens.push_back(open_of(kNew, 2)); },
     {"sequence 9", "opened twice"}},
    {"open already",
     [](StepBatch& b) { b.opens.push_back(open_of(kOld, 2)); },
     {"sequence 1", "open already"}},
    {"opened anew while released",
     [](StepBatch& b) { b.opens.push_back(open_of(kFull, 2)); },
     {"sequence 3", "open already"}},
    {"no prompt", [](StepBatch& b) { b.opens[0].prompt_tokens = 0; }, {"sequence 9", " 0 ", "20"}},
    {"a prompt past the context",
     [](StepBatch& b) { b.opens[0].prompt_tokens = 21; },
     {"sequence 9", "21", "20"}},
    {"scored tokens that are not of the prompt",
     [](StepBatch& b) { b.opens[0].scored = {1}; },
     {"sequence 9", "1 scored", "2"}},
    {"a scored token past the vocabulary",
     [](StepBatch& b) {
       b.opens[0].scored = {1, 50};
     },
     {"sequence 9", "token 50", "vocabulary"}},
    {"an embedding wider than the model",
     [](StepBatch& b) { b.opens[0].embedding = 1U << 20; },
     {"sequence 9", "1048576", "model has"}},
    {"released twice",
     [](StepBatch& b) {
       b.releases = {kOld, kFull, kOld};
     },
     {"1", "twice"}},
    {"released and never opened",
     [](StepBatch& b) { b.releases.push_back(SequenceId(77)); },
     {"77", "never opened"}},
    {"too many rows",
     [](StepBatch& b) {
       b.opens[0].prompt_tokens = 10;
       b.rows.resize(2);
       for (Position i = 0; i < 11; ++i) b.rows.push_back({kNew, i, 1, 0});
     },
     {"13 rows", "12"}},
    {"past prompt and answer",
     [](StepBatch& b) {
       b.rows.push_back({kDraft, 8, 7, BatchRow::kSample | BatchRow::kDraft});
       b.rows.push_back({kDraft, 9, 7, BatchRow::kSample | BatchRow::kDraft});
     },
     {"sequence 4", "position 9", "9 positions"}},
    {"a draft out of order",
     [](StepBatch& b) { std::swap(b.rows[7].position, b.rows[8].position); },
     {"sequence 4", "position 7", "6"}},
    {"a draft behind a row that is not sampled",
     [](StepBatch& b) { b.rows[6].flags = 0; },
     {"sequence 4", "position 6", "follows no sampled row"}},
    {"no draft behind a draft",
     [](StepBatch& b) { b.rows[8].flags = BatchRow::kSample; },
     {"sequence 4", "position 7", "follows a draft"}},
    {"a draft that is not sampled",
     [](StepBatch& b) { b.rows[8].flags = BatchRow::kDraft; },
     {"sequence 4", "position 7", "are sampled"}},
    {"a draft of the prompt",
     [](StepBatch& b) { b.rows[0].flags |= BatchRow::kDraft; },
     {"sequence 2", "position 3", "behind a prompt of 8"}},
    {"a draft twice", [](StepBatch& b) { b.rows[8].position = 6; }, {"position 6", "7"}},
    {"a draft left out", [](StepBatch& b) { b.rows.erase(b.rows.begin() + 7); }, {"position 7"}},
    {"a row past what was truncated",
     [](StepBatch& b) { b.truncates[0].length = 4; },
     {"sequence 4", "position 5", "4"}},
    {"not truncated", [](StepBatch& b) { b.truncates.clear(); }, {"sequence 4", "position 5", "9"}},
    {"truncated past its end",
     [](StepBatch& b) { b.truncates[0].length = 10; },
     {"sequence 4", "truncated to 10", "9 positions"}},
    {"truncated to the largest position",
     [](StepBatch& b) { b.truncates[0].length = 0xFFFFFFFF; },
     {"truncated to 4294967295", "9 positions"}},
    {"truncated into its prompt",
     [](StepBatch& b) { b.truncates[0].length = 2; },
     {"sequence 4", "truncated to 2", "prompt has 3"}},
    {"truncated inside a prompt that is not whole",
     [](StepBatch& b) {
       b.truncates.push_back({kHalf, 3});
     },
     {"sequence 2", "prompt has 8"}},
    {"truncated to nothing", [](StepBatch& b) { b.truncates[0].length = 0; }, {"prompt has 3"}},
    {"truncated and never opened",
     [](StepBatch& b) {
       b.truncates.push_back({SequenceId(77), 1});
     },
     {"77", "never opened"}},
    {"truncated as it opens",
     [](StepBatch& b) {
       b.truncates.push_back({kNew, 2});
     },
     {"sequence 9", "0 positions"}},
    {"truncated twice",
     [](StepBatch& b) {
       b.truncates.push_back({kDraft, 4});
     },
     {"sequence 4", "second time"}},
    {"activations on the first stage", [](StepBatch& b) { b.activations.resize(96); }, {"96", "0"}},
};

TEST(BatchCheck, TakesEverythingThatIsAllowed) {
  EXPECT_TRUE(check_batch(good(), four(), kShape, kRows).ok());
  EXPECT_TRUE(check_batch({}, {}, kShape, kRows).ok());
  StepBatch batch;
  batch.opens = {open_of(kNew, 20)};  // the whole context, opened and released without a row
  batch.truncates = {{kOld, 4}, {kFull, 19}};  // the whole answer, and nothing
  batch.releases = {kNew, kOld, kHalf, kFull};
  EXPECT_TRUE(check_batch(batch, four(), kShape, kRows).ok());
  batch = good();
  EXPECT_TRUE(check_batch(batch, four(), kShape, 9).ok());
  EXPECT_FALSE(check_batch(batch, four(), kShape, 8).ok());
}

TEST(BatchCheck, NamesEveryViolationAndItsLimit) {
  for (const Violation& violation : kViolations) {
    StepBatch batch = good();
    violation.make(batch);
    const StepBatch before = batch;
    const Status status = check_batch(batch, four(), kShape, kRows);
    ASSERT_FALSE(status.ok()) << violation.name;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput) << violation.name;
    for (const char* word : violation.words) {
      EXPECT_NE(status.error().message.find(word), std::string::npos)
          << violation.name << ": " << status.error().message;
    }
    EXPECT_EQ(batch, before) << violation.name;
  }
}

TEST(BatchCheck, WantsExactlyTheActivationsOfItsRows) {
  const StepShape inner{8, 50, 20, true};
  StepBatch batch = good();
  for (const std::size_t bytes : {0, 143, 145, 128, 160}) {
    batch.activations.assign(bytes, std::byte{0});
    EXPECT_FALSE(check_batch(batch, four(), inner, kRows).ok()) << bytes;
  }
  batch.activations.assign(batch.rows.size() * 8 * 2, std::byte{0});
  EXPECT_TRUE(check_batch(batch, four(), inner, kRows).ok());
}

// Batches made by the rules pass, and fail when any one number of a row is changed.
TEST(BatchCheck, RandomBatchesPassAndAnyChangedPositionFails) {
  SeededRandom random(11);
  for (int round = 0; round < 500; ++round) {
    StageSequences sequences;
    StepBatch batch;
    for (std::uint64_t id = 1; id <= 4; ++id) {
      const auto prompt = static_cast<std::uint32_t>(1 + random.next() % 10);
      Position next = 0;
      if (random.next() % 2 == 0) {
        batch.opens.push_back(open_of(SequenceId(id), prompt));
      } else {
        next = static_cast<Position>(random.next() % 16);
        sequences.emplace(SequenceId(id), at(SequenceId(id), prompt, next));
        if (next >= prompt && random.next() % 2 == 0) {
          next = prompt + static_cast<Position>(random.next() % (next - prompt + 1));
          batch.truncates.push_back({SequenceId(id), next});
        }
      }
      for (std::uint64_t row = random.next() % 4; row > 0; --row, ++next) {
        const bool may_sample = next + 1 >= prompt;
        batch.rows.push_back({SequenceId(id), next, static_cast<TokenId>(random.next() % 50),
                              may_sample ? BatchRow::kSample : std::uint8_t{0}});
      }
      if (random.next() % 3 == 0) batch.releases.push_back(SequenceId(id));
    }
    const Status whole = check_batch(batch, sequences, kShape, kRows);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      StepBatch changed = batch;
      changed.rows[i].position += random.next() % 2 == 0 ? 1 : 0xFFFFFFFF;
      EXPECT_FALSE(check_batch(changed, sequences, kShape, kRows).ok());
    }
  }
}

}  // namespace
}  // namespace hearth::node
