#include "tests/tools/logits_base.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/limits.h"

namespace hearth::model {
namespace {

namespace fs = std::filesystem;

// Two windows of eight tokens, a vocabulary of five: rows of 4 + 4 + 6 * 2 bytes.
constexpr LogitsShape kShape{8, 5, 2};

Bytes file_of(const LogitsShape& shape, TokenId token = 1) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.append(as_bytes("_logits_"));
  writer.write(shape.context);
  writer.write(shape.vocabulary);
  writer.write(shape.chunks);
  for (std::uint64_t i = 0; i < shape.tokens(); ++i) writer.write(token);
  for (std::uint32_t i = 0; i < shape.chunks * shape.rows_per_chunk(); ++i) {
    writer.write(0.25F);
    writer.write(-10.0F - static_cast<float>(i));
    for (std::uint16_t step = 0; step < 6; ++step) writer.write(step);
  }
  return bytes;
}

std::string refusal(const Bytes& bytes) {
  const auto base = LogitsBase::parse(bytes, "file");
  if (base.ok()) return "accepted";
  EXPECT_EQ(base.error().code, ErrorCode::kInvalidInput);
  return base.error().message;
}

TEST(LogitsBase, ReadsTokensAndRows) {
  const Bytes bytes = file_of(kShape);
  EXPECT_EQ(kShape.rows_per_chunk(), 3U);
  EXPECT_EQ(bytes.size(), kShape.file_bytes());
  const auto base = LogitsBase::parse(bytes, "file").value();
  EXPECT_EQ(base->shape(), kShape);
  EXPECT_EQ(base->tokens(), std::vector<TokenId>(16, 1));
  const LogitsRow row = base->row(1, 2).value();
  EXPECT_EQ(row.log_probability(0), -15.0F);
  EXPECT_EQ(row.log_probability(4), -14.0F);
}

TEST(LogitsBase, RefusesWhatIsNotWholeOrOutOfRange) {
  Bytes bytes = file_of(kShape);
  bytes.pop_back();
  EXPECT_NE(refusal(bytes).find("take 204"), std::string::npos) << refusal(bytes);
  bytes.resize(19);
  EXPECT_NE(refusal(bytes).find("the header ends at byte 19"), std::string::npos);
  bytes.resize(5);
  EXPECT_NE(refusal(bytes).find("_logits_"), std::string::npos);
  EXPECT_NE(refusal(file_of(kShape, 5)).find("token 5 at byte 20"), std::string::npos);
  EXPECT_NE(refusal(file_of(kShape, -1)).find("token -1"), std::string::npos);
  EXPECT_NE(refusal(file_of({3, 5, 1})).find("context at byte 8 is 3"), std::string::npos);
  EXPECT_NE(refusal(file_of({8, 0, 0})).find("vocabulary at byte 12 is 0"), std::string::npos);
  EXPECT_NE(refusal(file_of({8, 5, 0})).find("chunks at byte 16 is 0"), std::string::npos);
}

// Counts whose product is far more than any file has.
TEST(LogitsBase, RefusesHugeCountsBeforeItAllocates) {
  Bytes bytes = file_of({8, 5, 1});
  const std::uint32_t huge = 0xFFFFFFFF;
  std::memcpy(bytes.data() + 16, &huge, sizeof huge);
  EXPECT_NE(refusal(bytes).find("allowed are 1 to " + std::to_string(limits::kTextBytes / 8)),
            std::string::npos);
  const std::uint32_t most = limits::kTextBytes / 8;
  std::memcpy(bytes.data() + 16, &most, sizeof most);
  EXPECT_NE(refusal(bytes).find("the file has"), std::string::npos);
}

TEST(LogitsBase, RefusesARowThatMeansNothing) {
  for (const float bad : {-0.5F, 2.0F, std::numeric_limits<float>::quiet_NaN()}) {
    Bytes bytes = file_of(kShape);
    std::memcpy(bytes.data() + kShape.row_offset(0, 1), &bad, sizeof bad);
    const auto base = LogitsBase::parse(bytes, "file").value();
    EXPECT_TRUE(base->row(0, 0).ok());
    ASSERT_FALSE(base->row(0, 1).ok());
    EXPECT_NE(base->row(0, 1).error().message.find("at byte 104"), std::string::npos);
  }
}

TEST(LogitsWriter, WritesWhatTheReaderReads) {
  const fs::path path = fs::temp_directory_path() / ("hearth-logits-" + std::to_string(getpid()));
  const std::vector<TokenId> tokens{0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1};
  const std::vector<float> logits{1.0F, -2.0F, 3.5F, -40.0F, 0.25F};
  {
    auto writer = LogitsWriter::create(path, kShape, tokens).value();
    for (std::uint32_t i = 6; i > 0; --i) {  // in any order
      ASSERT_TRUE(writer->put((i - 1) / 3, (i - 1) % 3, logits).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto base = LogitsBase::open(path);
  ASSERT_TRUE(base.ok()) << base.error().message;
  EXPECT_EQ((*base)->tokens(), tokens);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  const LogitsRow row = (*base)->row(1, 1).value();
  for (const std::uint32_t token : {0U, 1U, 2U, 4U}) {
    EXPECT_NEAR(row.log_probability(token), logits[token] - std::log(sum), 16.0 / 65'535);
  }
  EXPECT_NEAR(row.log_probability(3), 3.5 - 16.0 - std::log(sum), 1e-5);  // cut off
  fs::remove(path);
  EXPECT_EQ(LogitsBase::open(path).error().code, ErrorCode::kNotFound);
}

TEST(LogitsWriter, EqualLogitsAreARowOfOneValue) {
  const Bytes row = encode_logits_row(std::vector<float>(4, 2.0F));
  ASSERT_EQ(row.size(), 16U);
  float scale = 1.0F;
  float least = 0.0F;
  std::memcpy(&scale, row.data(), sizeof scale);
  std::memcpy(&least, row.data() + 4, sizeof least);
  EXPECT_EQ(scale, 0.0F);
  EXPECT_FLOAT_EQ(least, -std::log(4.0F));
}

}  // namespace
}  // namespace hearth::model
