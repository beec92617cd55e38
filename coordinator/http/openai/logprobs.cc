#include "coordinator/http/openai/logprobs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "model/gguf/untrusted_text.h"

namespace hearth::coordinator::http {
namespace {

// JSON has no -infinity; this is the floor that OpenAI's own answers use.
constexpr double kLogprobFloor = -9999.0;

double finite(float logprob) {
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLogprobFloor)
                                : kLogprobFloor;
}

OrderedJson token_object(TokenId token, float logprob, const model::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.token_bytes(token, true);
  OrderedJson numbers = OrderedJson::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {
      {"token", valid_utf8(bytes)}, {"logprob", finite(logprob)}, {"bytes", std::move(numbers)}};
}

// Keys of a JSON object must differ: tokens that are part of a character are spelled as bytes.
std::string completion_key(TokenId token, const model::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.token_bytes(token, true);
  if (model::is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

OrderedJson chat_logprobs(const std::vector<SampledToken>& tokens,
                          const model::Tokenizer& tokenizer) {
  OrderedJson content = OrderedJson::array();
  for (const SampledToken& sampled : tokens) {
    OrderedJson& entry =
        content.emplace_back(token_object(sampled.token, sampled.logprob, tokenizer));
    OrderedJson& top = entry["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& other : sampled.top) {
      top.push_back(token_object(other.token, other.logprob, tokenizer));
    }
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

OrderedJson completion_logprobs(const std::vector<SampledToken>& tokens, std::uint64_t text_offset,
                                const model::Tokenizer& tokenizer) {
  OrderedJson strings = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson tops = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();
  for (const SampledToken& sampled : tokens) {
    strings.push_back(completion_key(sampled.token, tokenizer));
    logprobs.push_back(finite(sampled.logprob));
    OrderedJson& top = tops.emplace_back(OrderedJson::object());
    // Of tokens that are spelled alike the likelier one, which comes first, is told.
    for (const TokenLogprob& other : sampled.top) {
      top.emplace(completion_key(other.token, tokenizer), finite(other.logprob));
    }
    offsets.push_back(text_offset);
    text_offset += utf8_characters(tokenizer.token_bytes(sampled.token, false));
  }
  return {{"tokens", std::move(strings)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

std::uint64_t utf8_characters(std::string_view text) {
  return static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace hearth::coordinator::http
