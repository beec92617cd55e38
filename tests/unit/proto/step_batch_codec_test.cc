#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.h"
#include "proto/step.h"
#include "tests/unit/proto/messages.h"

namespace hearth {
namespace {

using testing::sample_batch;
using testing::small_shape;

std::string refusal(const StepBatch& batch, const StepShape& shape) {
  const auto decoded = decode_step_batch(encode(batch), shape);
  return decoded.ok() ? "" : decoded.error().message;
}

TEST(StepBatchCodec, RoundTripsWithAndWithoutActivations) {
  for (const bool with : {false, true}) {
    const StepBatch batch = sample_batch(with);
    const Bytes bytes = encode(batch);
    const auto decoded = decode_step_batch(bytes, small_shape(with));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(*decoded, batch);
    EXPECT_EQ(encode(*decoded), bytes);
  }
}

TEST(StepBatchCodec, RefusesEveryPrefixAndAnExtraByte) {
  Bytes bytes = encode(sample_batch(true));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_step_batch(ByteSpan(bytes).first(size), small_shape(true)).ok()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_step_batch(bytes, small_shape(true)).ok());
}

TEST(StepBatchCodec, RefusesActivationsWhereNoneBelongAndTheirAbsence) {
  EXPECT_NE(refusal(sample_batch(true), small_shape(false)).find("activations have 24 bytes"),
            std::string::npos);
  EXPECT_NE(refusal(sample_batch(false), small_shape(true)).find("need 24"), std::string::npos);
}

TEST(StepBatchCodec, NamesTheFieldOfAnIdOutOfRange) {
  StepBatch batch = sample_batch(false);
  batch.rows[0].token = 100;
  EXPECT_NE(refusal(batch, small_shape(false)).find("rows.token"), std::string::npos);
  batch.rows[0].token = -1;
  EXPECT_NE(refusal(batch, small_shape(false)).find("rows.token"), std::string::npos);
  batch = sample_batch(false);
  batch.rows[2].position = 64;
  EXPECT_NE(refusal(batch, small_shape(false)).find("rows.position"), std::string::npos);
  batch = sample_batch(false);
  for (const int flags : {4, 0x10, 0x11, 0xA2, 0xF2}) {  // a reason belongs to a failed row
    batch.rows[2].flags = static_cast<std::uint8_t>(flags);
    EXPECT_NE(refusal(batch, small_shape(false)).find("rows.flags"), std::string::npos) << flags;
  }
}

TEST(StepBatchCodec, ADraftRowNamesTheModelUntilItFails) {
  StepBatch batch = sample_batch(false);
  BatchRow& row = batch.rows[2];
  const int draft = BatchRow::kSample | BatchRow::kDraft;
  row.flags = static_cast<std::uint8_t>(draft | BatchRow::kModelled);
  const auto decoded = decode_step_batch(encode(batch), small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->rows[2], row);
  EXPECT_EQ(row.kind(), DraftKind::kModel);
  row.flags = static_cast<std::uint8_t>(draft | BatchRow::kModelled | BatchRow::kForced);
  EXPECT_NE(refusal(batch, small_shape(false)).find("rows.flags"), std::string::npos)
      << "both a grammar and a model";
  row.flags = static_cast<std::uint8_t>(draft | BatchRow::kModelled);
  row.fail(ErrorCode::kIo);
  EXPECT_EQ(row.reason(), ErrorCode::kIo);
  EXPECT_EQ(refusal(batch, small_shape(false)), "");
}

TEST(StepBatchCodec, AFailedRowCarriesItsFirstReason) {
  StepBatch batch = sample_batch(false);
  for (int code = 0; code <= static_cast<int>(ErrorCode::kNumeric); ++code) {
    BatchRow& row = batch.rows[2];
    row.flags = BatchRow::kSample;
    row.fail(static_cast<ErrorCode>(code));
    row.fail(ErrorCode::kTimeout);
    const auto decoded = decode_step_batch(encode(batch), small_shape(false));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_TRUE(decoded->rows[2].failed());
    EXPECT_EQ(decoded->rows[2].reason(), static_cast<ErrorCode>(code));
    EXPECT_EQ(decoded->rows[2].flags & BatchRow::kSample, BatchRow::kSample);
  }
}

TEST(StepBatchCodec, RefusesGapsAndSplitRuns) {
  StepBatch batch = sample_batch(false);
  batch.rows[1].position = 2;
  EXPECT_NE(refusal(batch, small_shape(false)).find("position 0 to 2"), std::string::npos);
  batch = sample_batch(false);
  batch.rows.push_back({SequenceId(9), 2, 1, 0});
  EXPECT_NE(refusal(batch, small_shape(false)).find("rows names sequence 9 twice"),
            std::string::npos);
}

TEST(StepBatchCodec, RefusesSequencesNamedTwice) {
  StepBatch batch = sample_batch(false);
  batch.releases.push_back(batch.releases[0]);
  EXPECT_NE(refusal(batch, small_shape(false)).find("releases"), std::string::npos);
  batch = sample_batch(false);
  batch.opens.push_back(batch.opens[0]);
  EXPECT_NE(refusal(batch, small_shape(false)).find("opens"), std::string::npos);
  batch = sample_batch(false);
  batch.truncates.push_back({SequenceId(5), 3});
  EXPECT_NE(refusal(batch, small_shape(false)).find("truncates names sequence 5 twice"),
            std::string::npos);
}

TEST(StepBatchCodec, RefusesTruncatesToNothingOrPastTheContext) {
  StepBatch batch = sample_batch(false);
  for (const Position length : {0U, 65U, 0xFFFFFFFFU}) {
    batch.truncates[0].length = length;
    const std::string why = refusal(batch, small_shape(false));
    EXPECT_NE(why.find("truncates.length is " + std::to_string(length)), std::string::npos) << why;
    EXPECT_NE(why.find("1 to 64"), std::string::npos) << why;
  }
}

TEST(StepBatchCodec, CarriesManySampledRowsOfOneSequence) {
  StepBatch batch;
  batch.truncates = {{SequenceId(7), 20}};
  for (Position i = 0; i < 9; ++i) batch.rows.push_back({SequenceId(7), 20 + i, 1, 1});
  const auto decoded = decode_step_batch(encode(batch), small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, batch);
}

// A count is judged against its limit and against the bytes that follow before anything is taken.
TEST(StepBatchCodec, RefusesHugeCountsWithoutAllocating) {
  StepBatch empty;
  Bytes bytes = encode(empty);
  const std::uint32_t huge = 0xFFFFFFFF;
  const char* fields[] = {"opens", "truncates", "releases", "rows"};
  for (int i = 0; i < 4; ++i) {
    Bytes broken = bytes;
    std::memcpy(broken.data() + 20 + i * 4, &huge, 4);
    const auto decoded = decode_step_batch(broken, small_shape(false));
    ASSERT_FALSE(decoded.ok());
    EXPECT_NE(decoded.error().message.find(fields[i]), std::string::npos);
    EXPECT_NE(decoded.error().message.find("limit"), std::string::npos);
    const std::uint32_t plausible = 200;
    std::memcpy(broken.data() + 20 + i * 4, &plausible, 4);
    EXPECT_FALSE(decode_step_batch(broken, small_shape(false)).ok());
  }
}

TEST(StepBatchCodec, AFullBatchFitsTheLimits) {
  StepBatch batch;
  for (std::uint32_t i = 0; i < limits::kBatchRows; ++i) {
    batch.rows.push_back({SequenceId(i), 0, 1, BatchRow::kSample});
  }
  EXPECT_EQ(refusal(batch, small_shape(false)), "");
  batch.rows.push_back({SequenceId(9999), 0, 1, 0});
  EXPECT_NE(refusal(batch, small_shape(false)).find("the limit is 512"), std::string::npos);
}

TEST(StepBatchCodec, EveryBrokenByteEitherDecodesToItselfOrIsRefused) {
  const Bytes bytes = encode(sample_batch(true));
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {1, 0x80, 0xFF}) {
      Bytes broken = bytes;
      broken[at] ^= std::byte(flip);
      const auto decoded = decode_step_batch(broken, small_shape(true));
      if (decoded.ok()) {
        EXPECT_EQ(encode(*decoded), broken) << at;
      } else {
        ++refused;
        EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidInput);
      }
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace hearth
