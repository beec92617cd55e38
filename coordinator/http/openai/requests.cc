#include "coordinator/http/openai/requests.h"

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "coordinator/http/openai/fields.h"
#include "coordinator/http/openai/sampling_fields.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// The parts of a content array, joined.
std::string parse_parts(FieldReader& message, const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    FieldReader fields(part, "content[].");
    const std::string type = fields.string("type").value_or("text");
    if (!fields.failed() && type != "text") {
      message.fail(ApiError::not_supported("content parts of type '" + type.substr(0, 64) +
                                               "' are not supported; this model reads text",
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
  FieldReader message(value, "messages[" + std::to_string(index) + "].");
  model::ChatMessage out;
  out.role = message.string("role").value_or("");
  if (out.role == "developer") out.role = "system";  // the newer name of the same role
  if (out.role == "tool" || out.role == "function") {
    message.fail(ApiError::not_supported("tools are not supported yet: role '" + out.role + "'",
                                         "messages"));
  } else if (out.role != "system" && out.role != "user" && out.role != "assistant") {
    message.fail("role", "must be system, developer, user or assistant");
  }
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
  if (message.failed()) fields.fail(message.error());
  return out;
}

void refuse_unless_empty(FieldReader& fields, const char* name) {
  const Json* value = fields.find(name);
  if (value == nullptr || (value->is_array() && value->empty())) return;
  fields.fail(ApiError::not_supported(std::string("'") + name + "' is not supported yet", name));
}

void refuse_formats(FieldReader& fields) {
  refuse_unless_empty(fields, "tools");
  refuse_unless_empty(fields, "functions");
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  FieldReader inner(*format, "response_format.");
  const std::string type = inner.string("type").value_or("");
  if (inner.failed()) return fields.fail(inner.error());
  if (type == "text") return;
  fields.fail(ApiError::not_supported("'response_format' other than text is not supported yet",
                                      "response_format"));
}

void parse_max_tokens(FieldReader& fields, GenerationRequest& request) {
  // The newer name wins when both are there.
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto v = fields.integer(name, 1, kInt32Max)) {
      request.max_tokens = static_cast<std::uint32_t>(*v);
    }
  }
}

void parse_chat_logprobs(FieldReader& fields, GenerationRequest& request) {
  request.sampling.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limits::kTopLogprobs);
  if (!top) return;
  if (*top > 0 && !request.sampling.logprobs) {
    return fields.fail("top_logprobs", "needs 'logprobs' to be true");
  }
  request.sampling.top_logprobs = static_cast<std::uint32_t>(*top);
}

void parse_completion_logprobs(FieldReader& fields, GenerationRequest& request) {
  const Json* value = fields.find("logprobs");
  if (value == nullptr || *value == Json(false)) return;
  if (const auto top = fields.integer("logprobs", 0, limits::kTopLogprobs)) {
    request.sampling.logprobs = true;
    request.sampling.top_logprobs = static_cast<std::uint32_t>(*top);
  }
}

void parse_prompts(FieldReader& fields, const ModelBounds& bounds, GenerationRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return fields.fail("prompt", "is required");
  if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return fields.fail("prompt", "must be a string, or a non-empty array of strings or token ids");
  }
  if (prompt->front().is_number()) {
    auto ids = parse_token_ids(fields, "prompt", *prompt, bounds.vocabulary);
    if (ids) request.prompts.emplace_back(std::move(*ids));
    return;
  }
  if (prompt->size() > limits::kPrompts) {
    return fields.fail("prompt", "has more than " + std::to_string(limits::kPrompts) + " prompts");
  }
  for (const Json& item : *prompt) {
    if (item.is_string()) {
      request.prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      auto ids = parse_token_ids(fields, "prompt", item, bounds.vocabulary);
      if (!ids) return;
      request.prompts.emplace_back(std::move(*ids));
    } else {
      return fields.fail("prompt", "must hold strings or arrays of token ids");
    }
  }
}

std::string parse_model(FieldReader& fields) {
  auto name = fields.string("model");
  if (!name) fields.fail("model", "is required");
  return name.value_or("");
}

// best_of and suffix are accepted only where they change nothing.
void refuse_completion_extras(FieldReader& fields, GenerationRequest& request) {
  const auto best_of = fields.integer("best_of", 1, kInt32Max);
  if (best_of && *best_of != static_cast<std::int64_t>(request.n)) {
    fields.fail(ApiError::not_supported("'best_of' other than n is not supported", "best_of"));
  }
  const auto suffix = fields.string("suffix");
  if (suffix && !suffix->empty()) {
    fields.fail(ApiError::not_supported("'suffix' is not supported", "suffix"));
  }
  request.echo = fields.boolean("echo").value_or(false);
  if (request.echo && request.sampling.logprobs) {
    fields.fail(
        ApiError::not_supported("'echo' together with 'logprobs' is not supported", "echo"));
  }
}

}  // namespace

std::optional<std::vector<TokenId>> parse_token_ids(FieldReader& fields, const char* name,
                                                    const Json& array, std::uint32_t vocabulary) {
  if (fields.failed()) return std::nullopt;
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const Json& value : array) {
    const auto id = as_integer(value);
    if (!id || *id < 0 || *id >= static_cast<std::int64_t>(vocabulary)) {
      fields.fail(name, "must hold token ids from 0 to " + std::to_string(vocabulary - 1));
      return std::nullopt;
    }
    ids.push_back(static_cast<TokenId>(*id));
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
    fields.fail("messages",
                "must be an array of 1 to " + std::to_string(limits::kMessages) + " messages");
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
  parse_max_tokens(fields, request);
  parse_sampling(fields, bounds, request);
  parse_chat_logprobs(fields, request);
  parse_stop(fields, request);
  parse_stream(fields, request);
  refuse_formats(fields);
  if (fields.failed()) return fields.error();
  return request;
}

ApiResult<GenerationRequest> parse_completion_request(const Json& body, const ModelBounds& bounds) {
  FieldReader fields(body);
  GenerationRequest request;
  request.chat = false;
  request.model = parse_model(fields);
  parse_prompts(fields, bounds, request);
  if (const auto v = fields.integer("max_tokens", 1, kInt32Max)) {
    request.max_tokens = static_cast<std::uint32_t>(*v);
  }
  parse_sampling(fields, bounds, request);
  parse_completion_logprobs(fields, request);
  parse_stop(fields, request);
  parse_stream(fields, request);
  refuse_formats(fields);
  refuse_completion_extras(fields, request);
  if (!fields.failed() && request.prompts.size() * request.n > limits::kHttpSequences) {
    fields.fail("n", "times the number of prompts must be at most " +
                         std::to_string(limits::kHttpSequences));
  }
  if (fields.failed()) return fields.error();
  return request;
}

}  // namespace hearth::coordinator::http
