#include "coordinator/http/openai/responses.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/crypto.h"
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

// Keys of a JSON object must differ, so tokens that are a part of a character are spelled as bytes.
std::string completion_key(TokenId token, const model::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.token_bytes(token, true);
  if (model::is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

OrderedJson head_object(const AnswerHead& head, const char* object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

// A chunk up to its choices.
OrderedJson chunk_head(const AnswerHead& head) {
  OrderedJson out = head_object(head, head.chat ? "chat.completion.chunk" : "text_completion");
  out["choices"] = OrderedJson::array();
  return out;
}

void finish_choice(const AnswerHead& head, const ChoicePart& part,
                   const model::Tokenizer& tokenizer, OrderedJson& choice) {
  OrderedJson& logprobs = choice["logprobs"];
  if (part.with_logprobs) {
    logprobs = head.chat ? chat_logprobs(part.logprobs, tokenizer)
                         : completion_logprobs(part.logprobs, part.text_offset, tokenizer,
                                               part.begins_prompt);
  }
  OrderedJson& reason = choice["finish_reason"];
  if (!part.finish_reason.empty()) reason = part.finish_reason;
  if (part.with_token_ids) choice["token_ids"] = part.token_ids;
}

// Clients look for it under either name.
void add_reasoning(const ChoicePart& part, OrderedJson& message) {
  if (part.reasoning.empty()) return;
  message["reasoning_content"] = part.reasoning;
  message["reasoning"] = part.reasoning;
}

double per_second(std::uint64_t count, double ms) {
  return ms > 0.0 ? static_cast<double>(count) * 1000.0 / ms : 0.0;
}

}  // namespace

OrderedJson calls_of(const ChoicePart& part, bool streamed) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCallPart& call : part.tool_calls) {
    OrderedJson& out = list.emplace_back(OrderedJson::object());
    if (streamed) out["index"] = call.index;
    if (!call.id.empty()) {
      out["id"] = valid_utf8(call.id);
      out["type"] = "function";
    }
    OrderedJson& function = out["function"] = OrderedJson::object();
    if (!call.name.empty()) function["name"] = valid_utf8(call.name);
    function["arguments"] = call.arguments;
  }
  return list;
}

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
                                const model::Tokenizer& tokenizer, bool begins_prompt) {
  OrderedJson strings = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson tops = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();
  for (const SampledToken& sampled : tokens) {
    strings.push_back(completion_key(sampled.token, tokenizer));
    const bool unpredicted = begins_prompt && strings.size() == 1;
    logprobs.push_back(unpredicted ? OrderedJson() : OrderedJson(finite(sampled.logprob)));
    OrderedJson& top = tops.emplace_back(unpredicted ? OrderedJson() : OrderedJson::object());
    // Of tokens with the same spelling, only the likeliest, which comes first, is sent.
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

OrderedJson hearth_object(std::uint64_t seed, const std::optional<AnswerProof>& proof,
                          const std::vector<ChoiceHashes>& hashes, bool with_hashes) {
  OrderedJson out = {{"seed", static_cast<std::int64_t>(seed)}};  // as a request takes it
  if (proof) {
    out.update(
        {{"receipt", proof->receipt}, {"salt", proof->salt}, {"max_tokens", proof->max_tokens}});
  }
  if (!with_hashes) return out;
  OrderedJson rows = OrderedJson::array();
  for (const ChoiceHashes& choice : hashes) {
    for (const RowHash& row : choice.hashes) {
      rows.push_back({{"choice", choice.choice},
                      {"step", row.position},
                      {"stage", row.stage},
                      {"layers", {row.layers.begin, row.layers.end}},
                      {"in", row.in.hex()},
                      {"out", row.out.hex()}});
    }
  }
  out["hashes"] = std::move(rows);
  return out;
}

OrderedJson usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

OrderedJson timings_object(const Timings& timings) {
  INVARIANT(timings.cached_tokens <= timings.prompt_tokens, "only the prompt's tokens are cached");
  const std::uint64_t computed = timings.prompt_tokens - timings.cached_tokens;
  OrderedJson out = {
      {"cache_n", timings.cached_tokens},
      {"prompt_n", computed},
      {"prompt_ms", timings.prompt_ms},
      {"prompt_per_second", per_second(computed, timings.prompt_ms)},
      {"predicted_n", timings.predicted_tokens},
      {"predicted_ms", timings.predicted_ms},
      {"predicted_per_second", per_second(timings.predicted_tokens, timings.predicted_ms)}};
  const auto& [lookup, grammar, model] = timings.drafts;
  const std::uint64_t drafted = std::uint64_t{lookup.drafted} + grammar.drafted + model.drafted;
  if (drafted == 0) return out;
  out["draft_n"] = drafted;
  out["draft_n_accepted"] = std::uint64_t{lookup.accepted} + grammar.accepted + model.accepted;
  // Hearth's own fields: the drafts that a grammar forced, and those that a draft model drew.
  out["draft_n_grammar"] = grammar.drafted;
  out["draft_n_grammar_accepted"] = grammar.accepted;
  out["draft_n_model"] = model.drafted;
  out["draft_n_model_accepted"] = model.accepted;
  return out;
}

OrderedJson answer_object(const AnswerHead& head, const std::vector<ChoicePart>& choices,
                          const Usage& usage, const Timings& timings, OrderedJson hearth,
                          const model::Tokenizer& tokenizer) {
  OrderedJson list = OrderedJson::array();
  for (const ChoicePart& part : choices) {
    OrderedJson& choice = list.emplace_back(OrderedJson{{"index", part.index}});
    if (head.chat) {
      OrderedJson& message = choice["message"] = {{"role", "assistant"},
                                                  {"content", part.text},
                                                  {"refusal", nullptr},
                                                  {"annotations", OrderedJson::array()}};
      add_reasoning(part, message);
      if (!part.tool_calls.empty()) {
        if (part.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = calls_of(part, false);
      }
    } else {
      choice["text"] = part.text;
    }
    finish_choice(head, part, tokenizer, choice);
  }
  OrderedJson out = head_object(head, head.chat ? "chat.completion" : "text_completion");
  out.update({{"choices", std::move(list)},
              {"usage", usage_object(usage)},
              {"timings", timings_object(timings)},
              {"hearth", std::move(hearth)}});
  return out;
}

OrderedJson chunk_object(const AnswerHead& head, const ChoicePart& part, OrderedJson extra,
                         const model::Tokenizer& tokenizer) {
  OrderedJson out = chunk_head(head);
  OrderedJson& choice = out["choices"].emplace_back(OrderedJson{{"index", part.index}});
  if (head.chat) {
    OrderedJson& delta = choice["delta"] = OrderedJson::object();
    if (part.first) delta["role"] = "assistant";
    if (part.first || !part.text.empty()) delta["content"] = part.text;
    add_reasoning(part, delta);
    if (!part.tool_calls.empty()) delta["tool_calls"] = calls_of(part, true);
  } else {
    choice["text"] = part.text;
  }
  finish_choice(head, part, tokenizer, choice);
  if (head.include_usage) out["usage"] = nullptr;
  for (auto& [key, value] : extra.items()) out[key] = std::move(value);
  return out;
}

OrderedJson hearth_chunk(const AnswerHead& head, OrderedJson hearth) {
  OrderedJson out = chunk_head(head);
  if (head.include_usage) out["usage"] = nullptr;
  out["hearth"] = std::move(hearth);
  return out;
}

OrderedJson usage_chunk(const AnswerHead& head, const Usage& usage, const Timings& timings) {
  OrderedJson out = chunk_head(head);
  out["usage"] = usage_object(usage);
  out["timings"] = timings_object(timings);
  return out;
}

}  // namespace hearth::coordinator::http
