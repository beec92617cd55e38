// POST /v1/responses as a chat.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/limits.h"
#include "coordinator/http/dialects/translate.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

std::string quoted(const std::string& text) { return valid_utf8(text.substr(0, 64)); }

// A string, or text parts, as the content of a chat.
Json input_content(FieldReader& fields, const char* name) {
  const Json* content = fields.find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return *content;
  Json parts = Json::array();
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of text parts");
    return parts;
  }
  for (const Json& each : *content) {
    FieldReader part(each, std::string(name) + "[].");
    const std::string type = part.string("type").value_or("");
    const bool is_text = type == "input_text" || type == "output_text" || type == "text" ||
                         type == "reasoning_text" || type == "summary_text";
    const auto text = part.string(type == "refusal" ? "refusal" : "text");
    if (!part.failed() && !is_text && type != "refusal") {
      fields.fail(ApiError::not_supported(
          fmt::format("content parts of type '{}' are not supported; this model reads text",
                      quoted(type)),
          "input", "unsupported_content"));
      return parts;
    }
    if (!text) part.fail("text", "is required");
    if (part.failed()) {
      fields.fail(part.error());
      return parts;
    }
    parts.push_back(text_part(*text));
  }
  return parts;
}

std::string joined(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string out;
  for (const Json& part : content) out += part["text"].get<std::string>();
  return out;
}

// Items to messages. Reasoning, text and calls of one turn are items of their own, and one message
// of a chat.
class InputTranslation {
 public:
  explicit InputTranslation(Json& messages) : messages_(messages) {}

  std::optional<ApiError> add(const Json& value, std::size_t index) {
    FieldReader item(value, fmt::format("input[{}].", index));
    const std::string type = item.string("type").value_or("message");
    if (item.failed()) return item.error();
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      add_output(item);
    } else if (type == "reasoning") {
      add_reasoning(item);
    } else {
      item.refuse("type", fmt::format("'{}' is not supported; send messages, reasoning, "
                                      "function_call and function_call_output items",
                                      quoted(type)));
    }
    if (item.failed()) return item.error();
    return std::nullopt;
  }

 private:
  // The assistant's message that is being built. Begins a new one if this one already has `key`, or
  // a part that comes after `key`.
  Json& assistant(std::string_view key) {
    const bool open = !messages_.empty() && messages_.back()["role"] == "assistant";
    if (open) {
      Json& last = messages_.back();
      const bool has_calls = last.contains("tool_calls");
      if (key == "tool_calls") return last;
      if (key == "content" && !has_calls && !last.contains("content")) return last;
    }
    messages_.push_back({{"role", "assistant"}});
    return messages_.back();
  }

  void add_message(FieldReader& item) {
    const auto role = item.string("role");
    if (!role) item.fail("role", "is required");
    if (item.find("content") == nullptr) item.fail("content", "is required");
    Json content = input_content(item, "content");
    if (item.failed()) return;
    if (*role == "assistant") {
      assistant("content")["content"] = std::move(content);
    } else {
      messages_.push_back({{"role", *role}, {"content", std::move(content)}});
    }
  }

  void add_call(FieldReader& item) {
    const auto id = item.string("call_id");
    const auto name = item.string("name");
    if (!id || !name) item.fail(id ? "name" : "call_id", "is required");
    if (item.failed()) return;
    Json& message = assistant("tool_calls");
    if (!message.contains("content")) message["content"] = "";
    message["tool_calls"].push_back(
        {{"id", *id},
         {"type", "function"},
         {"function", {{"name", *name}, {"arguments", item.string("arguments").value_or("{}")}}}});
  }

  void add_output(FieldReader& item) {
    const auto id = item.string("call_id");
    if (!id) item.fail("call_id", "is required");
    Json content = input_content(item, "output");
    if (item.failed()) return;
    messages_.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(content)}});
  }

  void add_reasoning(FieldReader& item) {
    const bool has_content = item.find("content") != nullptr;
    const std::string text = joined(input_content(item, has_content ? "content" : "summary"));
    if (item.failed() || text.empty()) return;
    messages_.push_back({{"role", "assistant"}, {"reasoning_content", text}});
  }

  Json& messages_;
};

void translate_input(FieldReader& fields, Json& chat) {
  Json& messages = chat["messages"] = Json::array();
  if (const auto instructions = fields.string("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  const Json* input = fields.find("input");
  if (input == nullptr) return fields.fail("input", "is required");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return;
  }
  if (!input->is_array() || input->empty()) {
    return fields.fail("input", "must be a string or a non-empty array of items");
  }
  InputTranslation items(messages);
  for (std::size_t i = 0; i < input->size() && !fields.failed(); ++i) {
    if (const auto error = items.add((*input)[i], i)) fields.fail(*error);
  }
  if (fields.failed()) return;
  // A turn that has reasoning alone.
  for (Json& message : messages) {
    if (!message.contains("content")) message["content"] = "";
  }
}

void translate_functions(FieldReader& fields, Json& chat) {
  const Json* tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.fail("tools", "must be an array");
  Json& out = chat["tools"] = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    FieldReader reader(tool, fmt::format("tools[{}].", i));
    const std::string type = reader.string("type").value_or("function");
    if (!reader.failed() && type != "function") {
      reader.refuse("type", fmt::format("'{}' is not supported: only function tools are; omit it",
                                        quoted(type)));
    }
    if (reader.failed()) return fields.fail(reader.error());
    Json function = Json::object();
    copy_others(tool, {"type"}, function);
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
}

void translate_choice(FieldReader& fields, Json& chat) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    chat["tool_choice"] = *choice;
    return;
  }
  FieldReader inner(*choice, "tool_choice.");
  if (inner.string("type").value_or("") != "function" && !inner.failed()) {
    inner.refuse("type", "must be function; other choices are not supported");
  }
  chat["tool_choice"] = {{"type", "function"},
                         {"function", {{"name", inner.string("name").value_or("")}}}};
  if (inner.failed()) fields.fail(inner.error());
}

void translate_text(FieldReader& fields, Json& chat) {
  if (const Json* text = fields.find("text")) {
    FieldReader inner(*text, "text.");
    if (const auto verbosity = inner.string("verbosity")) chat["verbosity"] = *verbosity;
    if (const Json* format = inner.find("format")) {
      FieldReader kind(*format, "text.format.");
      const std::string type = kind.string("type").value_or("");
      const Json* schema = kind.find("schema");
      if (type == "json_schema" && schema == nullptr) kind.fail("schema", "is required");
      if (kind.failed()) return fields.fail(kind.error());
      chat["response_format"] = {{"type", type}};
      if (type == "json_schema") {
        chat["response_format"] =
            schema_format(*schema, format->value("name", Json()), format->value("strict", Json()));
      }
    }
    if (inner.failed()) return fields.fail(inner.error());
  }
  if (const Json* reasoning = fields.find("reasoning")) {
    FieldReader inner(*reasoning, "reasoning.");
    if (const auto effort = inner.string("effort")) chat["reasoning_effort"] = *effort;
    if (inner.failed()) return fields.fail(inner.error());
  }
}

void translate_include(FieldReader& fields, Json& chat) {
  const Json* include = fields.find("include");
  const bool logprobs =
      include != nullptr && include->is_array() &&
      std::find(include->begin(), include->end(), "message.output_text.logprobs") != include->end();
  const auto top = fields.integer("top_logprobs", 0, limits::kTopLogprobs);
  if (logprobs || top.value_or(0) > 0) chat["logprobs"] = true;
  if (top) chat["top_logprobs"] = *top;
}

void refuse_state(FieldReader& fields) {
  for (const char* name : {"previous_response_id", "conversation"}) {
    if (fields.find(name) != nullptr) {
      fields.refuse(name,
                    "is not supported: this server stores no responses; send the whole "
                    "conversation as 'input'");
    }
  }
  if (fields.boolean("background").value_or(false)) {
    fields.refuse("background", "is not supported: this server stores no responses; use 'stream'");
  }
  if (fields.find("prompt") != nullptr) {
    fields.refuse("prompt", "is not supported: this server stores no prompts; use 'instructions'");
  }
  if (fields.string("truncation").value_or("disabled") != "disabled") {
    fields.refuse("truncation", "must be disabled: a prompt that is too long is refused");
  }
}

// The fields of the request that the response object repeats, with OpenAI's defaults.
OrderedJson frame_of(const Json& body) {
  const auto of = [&body](const char* name, OrderedJson otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(otherwise) : OrderedJson(*found);
  };
  OrderedJson tools = of("tools", OrderedJson::array());
  for (OrderedJson& tool : tools) {
    for (const char* name : {"description", "parameters", "strict"}) {
      if (!tool.contains(name)) tool[name] = nullptr;
    }
  }
  OrderedJson text = of("text", OrderedJson::object());
  if (!text.contains("format")) text["format"] = {{"type", "text"}};
  OrderedJson reasoning = of("reasoning", OrderedJson::object());
  for (const char* name : {"effort", "summary"}) {
    if (!reasoning.contains(name)) reasoning[name] = nullptr;
  }
  return {{"instructions", of("instructions", nullptr)},
          {"max_output_tokens", of("max_output_tokens", nullptr)},
          {"max_tool_calls", of("max_tool_calls", nullptr)},
          {"parallel_tool_calls", of("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", std::move(reasoning)},
          {"store", false},
          {"background", false},
          {"temperature", of("temperature", 1.0)},
          {"top_p", of("top_p", 1.0)},
          {"presence_penalty", of("presence_penalty", 0.0)},
          {"frequency_penalty", of("frequency_penalty", 0.0)},
          {"top_logprobs", of("top_logprobs", 0)},
          {"text", std::move(text)},
          {"tool_choice", of("tool_choice", "auto")},
          {"tools", std::move(tools)},
          {"truncation", "disabled"},
          {"service_tier", "default"},
          {"user", of("user", nullptr)},
          {"safety_identifier", of("safety_identifier", nullptr)},
          {"prompt_cache_key", of("prompt_cache_key", nullptr)},
          {"metadata", of("metadata", OrderedJson::object())}};
}

}  // namespace

ApiResult<TranslatedBody> translate_responses(const Json& body) {
  FieldReader fields(body);
  TranslatedBody out;
  copy_others(body,
              {"input", "instructions", "max_output_tokens", "tools", "tool_choice", "text",
               "reasoning", "previous_response_id", "conversation", "background", "prompt",
               "truncation", "include", "top_logprobs"},
              out.body);
  translate_input(fields, out.body);
  if (const Json* most = fields.find("max_output_tokens")) out.body["max_tokens"] = *most;
  translate_functions(fields, out.body);
  translate_choice(fields, out.body);
  translate_text(fields, out.body);
  translate_include(fields, out.body);
  refuse_state(fields);
  if (fields.failed()) return fields.error();
  out.frame = frame_of(body);
  return out;
}

}  // namespace hearth::coordinator::http
