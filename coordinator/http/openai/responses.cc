#include "coordinator/http/openai/responses.h"

#include "base/crypto.h"
#include "coordinator/http/openai/logprobs.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson head_object(const AnswerHead& head, const char* object) {
  OrderedJson out;
  out["id"] = head.id;
  out["object"] = object;
  out["created"] = head.created;
  out["model"] = head.model;
  out["system_fingerprint"] = head.fingerprint;
  return out;
}

const char* chunk_name(const AnswerHead& head) {
  return head.chat ? "chat.completion.chunk" : "text_completion";
}

OrderedJson finish_value(const ChoicePart& part) {
  return part.finish_reason.empty() ? OrderedJson(nullptr) : OrderedJson(part.finish_reason);
}

OrderedJson logprobs_value(const AnswerHead& head, const ChoicePart& part,
                           const model::Tokenizer& tokenizer) {
  if (!part.with_logprobs) return nullptr;
  return head.chat ? chat_logprobs(part.logprobs, tokenizer)
                   : completion_logprobs(part.logprobs, part.text_offset, tokenizer);
}

void finish_choice(const AnswerHead& head, const ChoicePart& part,
                   const model::Tokenizer& tokenizer, OrderedJson& choice) {
  choice["logprobs"] = logprobs_value(head, part, tokenizer);
  choice["finish_reason"] = finish_value(part);
  if (part.with_token_ids) choice["token_ids"] = part.token_ids;
}

double per_second(std::uint64_t count, double ms) {
  return ms > 0.0 ? static_cast<double>(count) * 1000.0 / ms : 0.0;
}

}  // namespace

OrderedJson hearth_object(std::uint64_t seed, const std::optional<AnswerProof>& proof,
                          const std::vector<ChoiceHashes>& hashes, bool with_hashes) {
  OrderedJson out;
  out["seed"] = static_cast<std::int64_t>(seed);  // as a request takes it
  if (proof) {
    out["receipt"] = proof->receipt;
    out["salt"] = proof->salt;
    out["max_tokens"] = proof->max_tokens;
  }
  if (!with_hashes) return out;
  OrderedJson rows = OrderedJson::array();
  for (const ChoiceHashes& choice : hashes) {
    for (const RowHash& row : choice.hashes) {
      OrderedJson entry;
      entry["choice"] = choice.choice;
      entry["step"] = row.position;
      entry["stage"] = row.stage;
      entry["layers"] = {row.layers.begin, row.layers.end};
      entry["in"] = row.in.hex();
      entry["out"] = row.out.hex();
      rows.push_back(std::move(entry));
    }
  }
  out["hashes"] = std::move(rows);
  return out;
}

OrderedJson usage_object(const Usage& usage) {
  OrderedJson out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["prompt_tokens_details"] = {{"cached_tokens", 0}};
  return out;
}

OrderedJson timings_object(const Timings& timings) {
  OrderedJson out;
  out["cache_n"] = 0;
  out["prompt_n"] = timings.prompt_tokens;
  out["prompt_ms"] = timings.prompt_ms;
  out["prompt_per_second"] = per_second(timings.prompt_tokens, timings.prompt_ms);
  out["predicted_n"] = timings.predicted_tokens;
  out["predicted_ms"] = timings.predicted_ms;
  out["predicted_per_second"] = per_second(timings.predicted_tokens, timings.predicted_ms);
  return out;
}

OrderedJson answer_object(const AnswerHead& head, const std::vector<ChoicePart>& choices,
                          const Usage& usage, const Timings& timings, OrderedJson hearth,
                          const model::Tokenizer& tokenizer) {
  OrderedJson list = OrderedJson::array();
  for (const ChoicePart& part : choices) {
    OrderedJson choice;
    choice["index"] = part.index;
    if (head.chat) {
      OrderedJson message;
      message["role"] = "assistant";
      message["content"] = part.text;
      message["refusal"] = nullptr;
      choice["message"] = std::move(message);
    } else {
      choice["text"] = part.text;
    }
    finish_choice(head, part, tokenizer, choice);
    list.push_back(std::move(choice));
  }
  OrderedJson out = head_object(head, head.chat ? "chat.completion" : "text_completion");
  out["choices"] = std::move(list);
  out["usage"] = usage_object(usage);
  out["timings"] = timings_object(timings);
  out["hearth"] = std::move(hearth);
  return out;
}

OrderedJson chunk_object(const AnswerHead& head, const ChoicePart& part, OrderedJson extra,
                         const model::Tokenizer& tokenizer) {
  OrderedJson choice;
  choice["index"] = part.index;
  if (head.chat) {
    OrderedJson delta = OrderedJson::object();
    if (part.first) delta["role"] = "assistant";
    if (part.first || !part.text.empty()) delta["content"] = part.text;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = part.text;
  }
  finish_choice(head, part, tokenizer, choice);
  OrderedJson out = head_object(head, chunk_name(head));
  out["choices"] = OrderedJson::array();
  out["choices"].push_back(std::move(choice));
  if (head.include_usage) out["usage"] = nullptr;
  for (auto& [key, value] : extra.items()) out[key] = std::move(value);
  return out;
}

OrderedJson hearth_chunk(const AnswerHead& head, OrderedJson hearth) {
  OrderedJson out = head_object(head, chunk_name(head));
  out["choices"] = OrderedJson::array();
  if (head.include_usage) out["usage"] = nullptr;
  out["hearth"] = std::move(hearth);
  return out;
}

OrderedJson usage_chunk(const AnswerHead& head, const Usage& usage) {
  OrderedJson out = head_object(head, chunk_name(head));
  out["choices"] = OrderedJson::array();
  out["usage"] = usage_object(usage);
  return out;
}

}  // namespace hearth::coordinator::http
