#include "node/proof/dispute_rows.h"

#include <gtest/gtest.h>

namespace hearth::node {
namespace {

const ledger::RequestId kRun = [] {
  ledger::RequestId name{};
  name.fill(std::byte{7});
  return name;
}();
constexpr std::uint64_t kOther = 1;
constexpr std::uint64_t kOurs = 2;

struct DisputeRowsTest : ::testing::Test {
  DisputeRowsTest() { rows.watch(kRun); }
  static StepBatch opening(std::uint64_t sequence, const ledger::RequestId& name) {
    StepBatch batch;
    SequenceOpen open{SequenceId(sequence), 3, false, {}};
    open.sampling.seed = 9;
    open.receipt = ReceiptOrder{name, blake2b(as_bytes("salt"))};
    batch.opens.push_back(open);
    return batch;
  }
  // A row of each of the two; what came in of ours is its position.
  bool step(Position position, StepBatch batch = {}) {
    const auto at = static_cast<unsigned char>(position);
    batch.rows.push_back({SequenceId(kOther), position, 5, 0});
    batch.rows.push_back({SequenceId(kOurs), position, static_cast<TokenId>(10 + position), 0});
    return rows.step(batch, Bytes{std::byte{0xFF}, std::byte{0xFF}, std::byte{at}, std::byte{1}});
  }
  static StepBatch release(std::uint64_t sequence) {
    StepBatch batch;
    batch.releases.push_back(SequenceId(sequence));
    return batch;
  }
  DisputeRows rows;
};

TEST_F(DisputeRowsTest, KeepsWhatCameInOfOneRequest) {
  EXPECT_FALSE(rows.step(opening(kOther, {}), {}));
  EXPECT_FALSE(step(0, opening(kOurs, kRun)));
  EXPECT_FALSE(step(1));
  EXPECT_FALSE(rows.step(release(kOther), {}));
  EXPECT_TRUE(step(2, release(kOurs)));
  const auto input = rows.take();
  ASSERT_TRUE(input.ok()) << input.error().message;
  EXPECT_EQ(input->tokens, (std::vector<TokenId>{10, 11, 12}));
  EXPECT_EQ(input->prompt, 3U);
  EXPECT_EQ(input->sampling.seed, 9U);
  EXPECT_EQ(input->salt, blake2b(as_bytes("salt")));
  ASSERT_EQ(input->rows.size(), 3U);
  EXPECT_EQ(input->rows[2], (Bytes{std::byte{2}, std::byte{1}}));
  EXPECT_FALSE(step(0, opening(kOurs, kRun))) << "once";
  EXPECT_FALSE(step(1, release(kOurs)));
}

TEST_F(DisputeRowsTest, AFirstStageHasTokensAlone) {
  StepBatch batch = opening(kOurs, kRun);
  batch.rows.push_back({SequenceId(kOurs), 0, 4, 0});
  batch.releases.push_back(SequenceId(kOurs));
  ASSERT_TRUE(rows.step(batch, {}));
  const auto input = rows.take();
  ASSERT_TRUE(input.ok());
  EXPECT_EQ(input->tokens.size(), 1U);
  EXPECT_TRUE(input->rows.empty());
}

TEST_F(DisputeRowsTest, WhatWasDroppedIsNotKept) {
  step(0, opening(kOurs, kRun));
  step(1);
  step(2);
  StepBatch batch = release(kOurs);
  batch.truncates.push_back({SequenceId(kOurs), 1});
  ASSERT_TRUE(step(1, batch));
  const auto input = rows.take();
  ASSERT_TRUE(input.ok()) << input.error().message;
  EXPECT_EQ(input->tokens.size(), 2U);
  EXPECT_EQ(input->rows.size(), 2U);
}

TEST_F(DisputeRowsTest, AGapAFailedRowAndALostPipelineAreSaid) {
  step(0, opening(kOurs, kRun));
  ASSERT_TRUE(step(2, release(kOurs)));
  EXPECT_FALSE(rows.take().ok());
  rows.watch(kRun);
  StepBatch failed = opening(kOurs, kRun);
  failed.rows.push_back({SequenceId(kOurs), 0, 4, BatchRow::kFailed});
  failed.releases.push_back(SequenceId(kOurs));
  ASSERT_TRUE(rows.step(failed, {}));
  EXPECT_FALSE(rows.take().ok());
  rows.watch(kRun);
  EXPECT_FALSE(rows.lose()) << "it has not begun";
  step(0, opening(kOurs, kRun));
  EXPECT_TRUE(rows.lose());
  EXPECT_FALSE(rows.take().ok());
}

TEST_F(DisputeRowsTest, ALongRequestIsNotKept) {
  StepBatch batch = opening(kOurs, kRun);
  for (Position i = 0; i <= DisputeRows::kPositions; ++i) {
    batch.rows.push_back({SequenceId(kOurs), i, 4, 0});
  }
  batch.releases.push_back(SequenceId(kOurs));
  ASSERT_TRUE(rows.step(batch, {}));
  const auto input = rows.take();
  ASSERT_FALSE(input.ok());
  EXPECT_NE(input.error().message.find("20480"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
