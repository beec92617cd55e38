#include "coordinator/http/openai/requests.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/limits.h"
#include "base/number.h"
#include "coordinator/http/openai/fields.h"
#include "coordinator/http/openai/tools.h"
#include "coordinator/http/openai/unsupported.h"
#include "proto/frame.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

constexpr double kBiasRange = 100.0;
// -1 as a seed means random, as if the field were absent.
constexpr std::uint64_t kAnySeed = ~std::uint64_t{0};

std::optional<TokenId> token_id(std::optional<std::int64_t> id, std::uint32_t vocabulary) {
  if (!id || *id < 0 || *id >= static_cast<std::int64_t>(vocabulary)) return std::nullopt;
  return static_cast<TokenId>(*id);
}

// A token id written as a JSON number, or as the string that JSON objects need for keys.
std::optional<TokenId> bias_token(const Json& value, std::uint32_t vocabulary) {
  if (!value.is_string()) return token_id(as_integer(value), vocabulary);
  return token_id(parse_number<std::int64_t>(value.get_ref<const std::string&>()), vocabulary);
}

void add_bias(FieldReader& fields, const Json& token, const Json& bias, std::uint32_t vocabulary,
              GenerationRequest& request) {
  const auto id = bias_token(token, vocabulary);
  if (!id) {
    return fields.fail("logit_bias",
                       fmt::format("names a token that is not an id from 0 to {}", vocabulary - 1));
  }
  float value = -std::numeric_limits<float>::infinity();  // false: never
  if (bias.is_number()) {
    const double number = bias.get<double>();
    if (!(number >= -kBiasRange && number <= kBiasRange)) {
      return fields.fail("logit_bias", "has a bias outside -100 to 100");
    }
    value = static_cast<float>(number);
  } else if (bias != Json(false)) {
    return fields.fail("logit_bias", "has a bias that is neither a number nor false");
  }
  request.sampling.logit_bias.emplace_back(*id, value);
}

// {"50256": -100} as OpenAI, [[50256, false]] as llama.cpp.
void parse_logit_bias(FieldReader& fields, std::uint32_t vocabulary, GenerationRequest& request) {
  const Json* map = fields.find("logit_bias");
  if (map == nullptr) return;
  if (!map->is_object() && !map->is_array()) {
    return fields.fail("logit_bias", "must map token ids to numbers");
  }
  if (map->size() > limits::kLogitBias) {
    return fields.fail("logit_bias", fmt::format("has more than {} entries", limits::kLogitBias));
  }
  if (map->is_object()) {
    for (const auto& [key, bias] : map->items()) {
      add_bias(fields, Json(key), bias, vocabulary, request);
    }
    return;
  }
  for (const Json& pair : *map) {
    if (!pair.is_array() || pair.size() != 2) {
      return fields.fail("logit_bias", "must hold pairs of token id and bias");
    }
    add_bias(fields, pair[0], pair[1], vocabulary, request);
  }
}

void parse_trust(FieldReader& fields, GenerationRequest& request) {
  const Json* trust = fields.find("trust");
  if (trust == nullptr) return;
  if (!trust->is_array() || trust->empty() || trust->size() > limits::kStages) {
    return fields.fail("trust",
                       fmt::format("must be an array of 1 to {} names of nodes", limits::kStages));
  }
  for (const Json& name : *trust) {
    const bool valid = name.is_string() && check_node_name(name.get_ref<const std::string&>()).ok();
    if (!valid)
      return fields.fail("trust", "must hold names of nodes, as hearth status shows them");
    request.asked.trust.push_back(name.get<std::string>());
  }
}

void parse_hearth(FieldReader& fields, GenerationRequest& request) {
  const Json* wish = fields.find("hearth");
  if (wish == nullptr) return;
  FieldReader inner(*wish, "hearth.");
  if (const auto name = inner.string("verify")) {
    request.asked.verify = verify_named(*name);
    if (!request.asked.verify) inner.fail("verify", "must be none, spot or full");
  }
  if (const auto name = inner.string("min_level")) {
    request.asked.min_level = level_named(*name);
    if (!request.asked.min_level) {
      inner.fail("min_level", "must be newcomer, probation, regular or veteran");
    }
  }
  request.asked.share = inner.boolean("share").value_or(false);
  request.asked.drafts = inner.boolean("speculation").value_or(true);
  if (inner.failed()) fields.fail(inner.error());
}

// `cache_prompt` is a field of llama.cpp; its default is true.
void parse_cache(FieldReader& fields, GenerationRequest& request) {
  CacheScope& cache = request.asked.cache;
  const auto name = fields.string("cache");
  if (name) {
    const auto is = [&](const char* text) { return *name == text; };
    if (!is("key") && !is("shared") && !is("off")) {
      return fields.fail("cache", fmt::format("must be key, shared or off, got '{}'", *name));
    }
    cache = is("shared") ? CacheScope::kShared : is("off") ? CacheScope::kOff : CacheScope::kKey;
  }
  if (fields.boolean("cache_prompt").value_or(true)) return;
  if (name && cache != CacheScope::kOff) {
    return fields.fail("cache", fmt::format("must be off or absent where cache_prompt is false, "
                                            "got '{}'",
                                            *name));
  }
  cache = CacheScope::kOff;
}

void parse_sampling(FieldReader& fields, const ModelBounds& bounds, GenerationRequest& request) {
  SamplingParams& sampling = request.sampling;
  sampling.temperature = fields.number("temperature", 0, 100, sampling.temperature);
  // 0 keeps only the likeliest token, as does the smallest number that stages accept.
  sampling.top_p =
      std::max(fields.number("top_p", 0, 1, sampling.top_p), std::numeric_limits<float>::min());
  sampling.min_p = fields.number("min_p", 0, 1, sampling.min_p);
  if (const auto v = fields.integer("top_k", -1, kInt32Max)) {
    // -1 (vLLM) and anything that covers the vocabulary mean off.
    const bool off = *v <= 0 || *v >= static_cast<std::int64_t>(bounds.vocabulary);
    sampling.top_k = off ? 0 : static_cast<std::uint32_t>(*v);
  }
  sampling.presence_penalty =
      fields.number("presence_penalty", -100, 100, sampling.presence_penalty);
  sampling.frequency_penalty =
      fields.number("frequency_penalty", -100, 100, sampling.frequency_penalty);
  for (const char* name : {"repetition_penalty", "repeat_penalty"}) {
    sampling.repetition_penalty = fields.number(name, 0, 100, sampling.repetition_penalty);
    if (sampling.repetition_penalty <= 0.0F) fields.fail(name, "must be more than 0");
  }
  // The whole of int64, negative ones in two's complement, as clients of OpenAI send it.
  request.seed = fields.integer<std::uint64_t>("seed", std::numeric_limits<std::int64_t>::min(),
                                               std::numeric_limits<std::int64_t>::max());
  if (request.seed == kAnySeed) request.seed.reset();
  parse_logit_bias(fields, bounds.vocabulary, request);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.return_hashes = fields.boolean("return_hashes").value_or(false);
  parse_trust(fields, request);
  parse_hearth(fields, request);
  parse_cache(fields, request);
  request.n = fields.integer<std::uint32_t>("n", 1, limits::kChoices).value_or(1);
}

void parse_stop(FieldReader& fields, GenerationRequest& request) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    request.stop.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    if (stop->size() > limits::kStopStrings) {
      return fields.fail("stop", fmt::format("must have at most {} strings", limits::kStopStrings));
    }
    for (const Json& text : *stop) {
      if (!text.is_string()) return fields.fail("stop", "must hold strings");
      request.stop.push_back(text.get<std::string>());
    }
  } else {
    return fields.fail("stop", "must be a string or an array of strings");
  }
  for (const std::string& text : request.stop) {
    if (text.empty()) return fields.fail("stop", "must not hold an empty string");
    if (text.size() > limits::kStopStringBytes) {
      return fields.fail(
          "stop", fmt::format("has a string longer than {} bytes", limits::kStopStringBytes));
    }
  }
}

void parse_stream(FieldReader& fields, GenerationRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage").value_or(false);
  if (inner.failed()) fields.fail(inner.error());
}

// The parts of a content array, joined.
std::string parse_parts(FieldReader& message, const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    FieldReader fields(part, "content[].");
    const std::string type = fields.string("type").value_or("text");
    if (!fields.failed() && type != "text") {
      message.fail(ApiError::not_supported(
          fmt::format("content parts of type '{}' are not supported; this model reads text",
                      type.substr(0, 64)),
          "messages", "unsupported_content"));
      return {};
    }
    const auto piece = fields.string("text");
    if (!piece && !fields.failed()) fields.fail("text", "is required");
    if (fields.failed()) {
      message.fail(fields.error());
      return {};
    }
    text += *piece;
  }
  return text;
}

model::ChatMessage parse_message(const Json& value, std::size_t index, FieldReader& fields) {
  FieldReader message(value, fmt::format("messages[{}].", index));
  model::ChatMessage out;
  out.role = message.string("role").value_or("");
  if (out.role == "developer") out.role = "system";  // the newer name of the same role
  constexpr std::array kRoles = {"system", "user", "assistant", "tool"};
  if (std::ranges::find(kRoles, out.role) == kRoles.end()) {
    message.fail("role", "must be system, developer, user, assistant or tool");
  }
  out.name = message.string("name").value_or("");
  for (const char* name : {"reasoning_content", "reasoning"}) {
    if (out.reasoning.empty()) out.reasoning = message.string(name).value_or("");
  }
  out.tool_calls = parse_tool_calls(message);
  if (!out.tool_calls.empty() && out.role != "assistant") {
    message.fail("tool_calls", "belong to messages of the assistant");
  }
  out.tool_call_id = message.string("tool_call_id").value_or("");
  const Json* content = message.find("content");
  if (content == nullptr) {
    if (out.role != "assistant") message.fail("content", "is required");
  } else if (content->is_string()) {
    out.content = content->get<std::string>();
  } else if (content->is_array()) {
    out.content = parse_parts(message, *content);
  } else {
    message.fail("content", "must be a string or an array of text parts");
  }
  refuse_unsupported_message(message);
  if (message.failed()) fields.fail(message.error());
  return out;
}

void parse_chat_logprobs(FieldReader& fields, GenerationRequest& request) {
  request.sampling.logprobs = fields.boolean("logprobs").value_or(false);
  request.sampling.top_logprobs =
      fields.integer<std::uint32_t>("top_logprobs", 0, limits::kTopLogprobs).value_or(0);
  if (request.sampling.top_logprobs > 0 && !request.sampling.logprobs) {
    fields.fail("top_logprobs", "needs 'logprobs' to be true");
  }
}

void parse_completion_logprobs(FieldReader& fields, GenerationRequest& request) {
  const Json* value = fields.find("logprobs");
  if (value == nullptr || *value == Json(false)) return;
  request.sampling.logprobs = true;
  request.sampling.top_logprobs =
      fields.integer<std::uint32_t>("logprobs", 0, limits::kTopLogprobs).value_or(0);
}

// The prompts of a completion, or the inputs of an embedding.
void parse_prompts(FieldReader& fields, const char* name, std::uint32_t most,
                   const ModelBounds& bounds, GenerationRequest& request) {
  const Json* prompt = fields.find(name);
  if (prompt == nullptr) return fields.fail(name, "is required");
  if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return fields.fail(name, "must be a string, or a non-empty array of strings or token ids");
  }
  if (prompt->front().is_number()) {
    auto ids = parse_token_ids(fields, name, *prompt, bounds.vocabulary);
    if (ids) request.prompts.emplace_back(std::move(*ids));
    return;
  }
  if (prompt->size() > most) {
    return fields.fail(name, fmt::format("has {} entries; the limit is {}, send it in parts",
                                         prompt->size(), most));
  }
  for (const Json& item : *prompt) {
    if (item.is_string()) {
      request.prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      auto ids = parse_token_ids(fields, name, item, bounds.vocabulary);
      if (!ids) return;
      request.prompts.emplace_back(std::move(*ids));
    } else {
      return fields.fail(name, "must hold strings or arrays of token ids");
    }
  }
}

std::string parse_model(FieldReader& fields) { return fields.string("model").value_or(""); }

void parse_max_tokens(FieldReader& fields, const char* name, GenerationRequest& request) {
  const auto number = fields.integer(name, -1, kInt32Max);
  if (number == 0 && request.echo) {
    request.only_prompt = true;
    request.max_tokens = 1;
    return;
  }
  if (number == 0) {
    fields.fail(name, "must be at least 1, or -1 for all that the context has room for");
  }
  if (!number) return;
  request.fills_context = *number == -1;
  request.max_tokens.reset();
  if (*number > 0) request.max_tokens = static_cast<std::uint32_t>(*number);
}

// best_of and suffix are accepted only where they change nothing.
void refuse_completion_extras(FieldReader& fields, GenerationRequest& request) {
  const auto best_of = fields.integer("best_of", 1, kInt32Max);
  if (best_of && *best_of != static_cast<std::int64_t>(request.n)) {
    fields.fail(
        ApiError::not_supported("'best_of' other than n is not supported; omit it", "best_of"));
  }
  const auto suffix = fields.string("suffix");
  if (suffix && !suffix->empty()) {
    fields.fail(ApiError::not_supported("'suffix' is not supported; omit it", "suffix"));
  }
}

}  // namespace

std::optional<std::vector<TokenId>> parse_token_ids(FieldReader& fields, const char* name,
                                                    const Json& array, std::uint32_t vocabulary) {
  if (fields.failed()) return std::nullopt;
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const Json& value : array) {
    const auto id = token_id(as_integer(value), vocabulary);
    if (!id) {
      fields.fail(name, fmt::format("must hold token ids from 0 to {}", vocabulary - 1));
      return std::nullopt;
    }
    ids.push_back(*id);
  }
  return ids;
}

std::vector<model::ChatMessage> parse_messages(FieldReader& fields) {
  std::vector<model::ChatMessage> out;
  const Json* messages = fields.find("messages");
  if (messages == nullptr) {
    fields.fail("messages", "is required");
    return out;
  }
  if (!messages->is_array() || messages->empty() || messages->size() > limits::kMessages) {
    fields.fail("messages", fmt::format("must be an array of 1 to {} messages", limits::kMessages));
    return out;
  }
  for (std::size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    out.push_back(parse_message((*messages)[i], i, fields));
  }
  return out;
}

RequestPolicy merged_policy(const RequestPolicy& key, const PolicyFields& body,
                            const RequestPolicy& server) {
  RequestPolicy out;
  out.trust = body.trust.empty() ? key.trust : body.trust;
  out.verify = std::max(key.verify, body.verify.value_or(server.verify));
  out.min_level = std::max(key.min_level, body.min_level.value_or(server.min_level));
  out.share = body.share;
  out.cache = body.cache;
  out.owner = key.owner;
  out.account = key.owner.empty() ? server.account : key.account;
  return out;
}

ApiResult<GenerationRequest> parse_chat_request(const Json& body, const ModelBounds& bounds) {
  FieldReader fields(body);
  GenerationRequest request;
  request.chat = true;
  request.model = parse_model(fields);
  request.messages = parse_messages(fields);
  // The newer name wins when both are there.
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    parse_max_tokens(fields, name, request);
  }
  parse_sampling(fields, bounds, request);
  parse_chat_logprobs(fields, request);
  parse_stop(fields, request);
  parse_stream(fields, request);
  parse_tools(fields, request);
  parse_format(fields, request);
  parse_template_fields(fields, request);
  refuse_unsupported(fields);
  if (fields.failed()) return fields.error();
  return request;
}

ApiResult<GenerationRequest> parse_completion_request(const Json& body, const ModelBounds& bounds) {
  FieldReader fields(body);
  GenerationRequest request;
  request.chat = false;
  request.model = parse_model(fields);
  parse_prompts(fields, "prompt", limits::kPrompts, bounds, request);
  request.echo = fields.boolean("echo").value_or(false);
  parse_max_tokens(fields, "max_tokens", request);
  parse_sampling(fields, bounds, request);
  parse_completion_logprobs(fields, request);
  parse_stop(fields, request);
  parse_stream(fields, request);
  parse_format(fields, request);
  refuse_unsupported(fields, "echo");
  refuse_chat_fields(fields);
  refuse_completion_extras(fields, request);
  if (!fields.failed() && request.prompts.size() * request.n > limits::kHttpSequences) {
    fields.fail(
        "n", fmt::format("times the number of prompts must be at most {}", limits::kHttpSequences));
  }
  if (fields.failed()) return fields.error();
  return request;
}

ApiResult<GenerationRequest> parse_embedding_request(const Json& body, const ModelBounds& bounds) {
  FieldReader fields(body);
  GenerationRequest request;
  request.chat = false;
  request.only_prompt = true;
  request.max_tokens = 1;
  request.sampling.temperature = 0.0F;
  request.model = parse_model(fields);
  parse_prompts(fields, "input", limits::kHttpSequences, bounds, request);
  EmbeddingForm& form = request.embedding.emplace();
  form.values =
      fields.integer<std::uint32_t>("dimensions", 1, bounds.hidden).value_or(bounds.hidden);
  const std::string encoding = fields.string("encoding_format").value_or("float");
  form.base64 = encoding == "base64";
  if (encoding != "float" && !form.base64) {
    fields.fail("encoding_format", "must be float or base64");
  }
  form.truncate = fields.boolean("truncate").value_or(false);
  for (const char* name : {"truncate_prompt_tokens", "instruction", "prompt_name", "messages"}) {
    if (fields.find(name) == nullptr) continue;
    fields.refuse(name, "is not supported, and ignoring it would change the embedding; omit it");
  }
  constexpr std::int64_t kLength = 2;  // llama-server's: the embedding has length 1
  if (fields.integer("embd_normalize", -1, kInt32Max).value_or(kLength) != kLength) {
    fields.refuse("embd_normalize", "other than 2 is not supported: embeddings have length 1");
  }
  parse_trust(fields, request);
  parse_hearth(fields, request);
  parse_cache(fields, request);
  if (fields.failed()) return fields.error();
  return request;
}

SamplingParams sampling_params(const GenerationRequest& request, std::uint64_t seed,
                               std::uint32_t choice, std::uint32_t max_tokens,
                               const model::Tokenizer& tokenizer) {
  INVARIANT(request.n > 0, "a request has a choice of each prompt");
  SamplingParams out = request.sampling;
  out.max_tokens = max_tokens;
  out.seed = request.seed.value_or(seed) + choice % request.n;
  if (!request.ignore_eos) out.stop_tokens = tokenizer.end_tokens();
  return out;
}

}  // namespace hearth::coordinator::http
