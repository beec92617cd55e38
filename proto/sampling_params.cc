#include <cmath>

#include "base/limits.h"
#include "proto/step.h"

namespace hearth {
namespace {

// Negated comparisons, so that NaN is outside every range.
Status check_closed(const char* name, float value, float low, float high) {
  REQUIRE(value >= low && value <= high, name, " is ", value, "; it must be in [", low, ", ", high,
          "]");
  return ok_status();
}

Status check_above_zero(const char* name, float value, float high) {
  REQUIRE(value > 0.0F && value <= high, name, " is ", value, "; it must be above 0 and at most ",
          high);
  return ok_status();
}

Status check_count(const char* name, std::size_t count, std::size_t limit) {
  REQUIRE(count <= limit, name, " has ", count, " entries; the limit is ", limit);
  return ok_status();
}

Status check_token(const char* name, TokenId token, std::uint32_t vocabulary) {
  REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < vocabulary, name, " names token ",
          token, "; the vocabulary has ", vocabulary);
  return ok_status();
}

Status check_bias(const SamplingParams& params, std::uint32_t vocabulary) {
  TRY_VOID(check_count("logit_bias", params.logit_bias.size(), limits::kLogitBias));
  for (const auto& [token, bias] : params.logit_bias) {
    TRY_VOID(check_token("logit_bias", token, vocabulary));
    const bool never = std::isinf(bias) && bias < 0.0F;
    if (!never) TRY_VOID(check_closed("logit_bias", bias, -100.0F, 100.0F));
  }
  return ok_status();
}

}  // namespace

Status validate(const SamplingParams& params, std::uint32_t vocabulary) {
  TRY_VOID(check_closed("temperature", params.temperature, 0.0F, 100.0F));
  TRY_VOID(check_above_zero("top_p", params.top_p, 1.0F));
  TRY_VOID(check_closed("min_p", params.min_p, 0.0F, 1.0F));
  TRY_VOID(check_above_zero("repetition_penalty", params.repetition_penalty, 100.0F));
  TRY_VOID(check_closed("presence_penalty", params.presence_penalty, -100.0F, 100.0F));
  TRY_VOID(check_closed("frequency_penalty", params.frequency_penalty, -100.0F, 100.0F));
  TRY_VOID(check_bias(params, vocabulary));
  REQUIRE(params.max_tokens >= 1 && params.max_tokens <= limits::kModelContext, "max_tokens is ",
          params.max_tokens, "; it must be in [1, ", limits::kModelContext, "]");
  TRY_VOID(check_count("stop_tokens", params.stop_tokens.size(), limits::kStopTokens));
  for (const TokenId token : params.stop_tokens) {
    TRY_VOID(check_token("stop_tokens", token, vocabulary));
  }
  REQUIRE(params.top_logprobs <= limits::kTopLogprobs, "top_logprobs is ", params.top_logprobs,
          "; the limit is ", limits::kTopLogprobs);
  REQUIRE(params.grammar.size() <= limits::kGrammarBytes, "grammar has ", params.grammar.size(),
          " bytes; the limit is ", limits::kGrammarBytes);
  return ok_status();
}

Status validate(const SequenceOpen& open, const StepShape& shape) {
  REQUIRE(open.prompt_tokens >= 1, "prompt_tokens is 0; a prompt has at least one token");
  TRY_VOID(validate(open.sampling, shape.vocabulary));
  const std::uint64_t total = std::uint64_t{open.prompt_tokens} + open.sampling.max_tokens;
  REQUIRE(total <= shape.context, "prompt_tokens ", open.prompt_tokens, " and max_tokens ",
          open.sampling.max_tokens, " pass the context of ", shape.context, " tokens");
  const std::uint32_t most = std::min(shape.hidden_size, limits::kEmbeddingValues);
  REQUIRE(open.embedding <= most, "embedding has ", open.embedding, " values; the limit is ", most);
  if (open.scored.empty()) return ok_status();
  REQUIRE(open.scored.size() == open.prompt_tokens, "scored has ", open.scored.size(),
          " tokens; the prompt has ", open.prompt_tokens);
  TRY_VOID(check_count("scored", open.scored.size(), limits::kScoredTokens));
  for (const TokenId token : open.scored) TRY_VOID(check_token("scored", token, shape.vocabulary));
  return ok_status();
}

}  // namespace hearth
