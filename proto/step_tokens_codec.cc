#include <cmath>
#include <string>

#include "base/limits.h"
#include "proto/step.h"
#include "proto/step_fields.h"

namespace hearth {
namespace {

constexpr std::size_t kTokenBytesMin = 8 + 4 + 4 + 1 + 1 + 4 + 4;
constexpr std::size_t kLogprobBytes = 4 + 4;

static_assert(kLogprobBytes == sizeof(TokenId) + sizeof(float),
              "kLogprobBytes counts every field of a log-probability");
static_assert(static_cast<int>(FinishReason::kError) == 3, "the error of tokens.finish names 3");

Result<float> read_logprob(ByteReader& reader, const char* field) {
  const auto value = reader.read<float>();
  REQUIRE(std::isfinite(value), std::string(field) + " is not a finite number");
  return value;
}

Result<std::vector<TokenLogprob>> read_top(ByteReader& reader, const StepShape& shape) {
  TRY(const std::uint32_t count,
      fields::read_count(reader, "tokens.top", limits::kTopLogprobs, kLogprobBytes));
  std::vector<TokenLogprob> top;
  top.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TokenLogprob entry;
    TRY(entry.token, fields::read_token(reader, "tokens.top.token", shape.vocabulary));
    TRY(entry.logprob, read_logprob(reader, "tokens.top.logprob"));
    REQUIRE(top.empty() || top.back().logprob >= entry.logprob, "tokens.top is not descending");
    top.push_back(entry);
  }
  return top;
}

Result<SampledToken> read_sampled(ByteReader& reader, const StepShape& shape) {
  SampledToken token;
  token.sequence = SequenceId(reader.read<std::uint64_t>());
  TRY(token.position, fields::read_position(reader, "tokens.position", shape.context));
  TRY(token.token, fields::read_token(reader, "tokens.token", shape.vocabulary));
  const auto finish = reader.read<std::uint8_t>();
  REQUIRE(finish <= static_cast<std::uint8_t>(FinishReason::kError),
          "tokens.finish is " + std::to_string(finish) + "; the largest known is 3");
  token.finish = static_cast<FinishReason>(finish);
  const auto error = reader.read<std::uint8_t>();
  REQUIRE(error <= static_cast<std::uint8_t>(ErrorCode::kNumeric),
          "tokens.error is " + std::to_string(error) + "; the largest known is " +
              std::to_string(static_cast<int>(ErrorCode::kNumeric)));
  token.error = static_cast<ErrorCode>(error);
  TRY(token.logprob, read_logprob(reader, "tokens.logprob"));
  TRY(token.top, read_top(reader, shape));
  return token;
}

}  // namespace

Bytes encode(const StepTokens& tokens) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(tokens.epoch.value);
  writer.write(tokens.step.value);
  writer.write(static_cast<std::uint32_t>(tokens.tokens.size()));
  for (const SampledToken& token : tokens.tokens) {
    writer.write(token.sequence.value);
    writer.write(token.position);
    writer.write(token.token);
    writer.write(static_cast<std::uint8_t>(token.finish));
    writer.write(static_cast<std::uint8_t>(token.error));
    writer.write(token.logprob);
    writer.write(static_cast<std::uint32_t>(token.top.size()));
    for (const TokenLogprob& entry : token.top) {
      writer.write(entry.token);
      writer.write(entry.logprob);
    }
  }
  fields::write_sequences(writer, tokens.released);
  return out;
}

Result<StepTokens> decode_step_tokens(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  StepTokens tokens;
  tokens.epoch = Epoch(reader.read<std::uint64_t>());
  tokens.step = StepId(reader.read<std::uint64_t>());
  TRY(const std::uint32_t count,
      fields::read_count(reader, "tokens", limits::kBatchRows, kTokenBytesMin));
  tokens.tokens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(SampledToken token, read_sampled(reader, shape));
    tokens.tokens.push_back(std::move(token));
  }
  TRY_VOID(fields::check_runs(tokens.tokens, "tokens"));
  TRY(tokens.released, fields::read_sequences(reader, "released", limits::kBatchReleases));
  TRY_VOID(fields::check_consumed(reader, "tokens"));
  return tokens;
}

}  // namespace hearth
