// POST /v1/messages as a chat.
#include <spdlog/fmt/fmt.h>

#include "coordinator/http/dialects/translate.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

std::string shown(const std::string& text) { return valid_utf8(text.substr(0, 64)); }

void refuse_block(FieldReader& fields, const std::string& type) {
  fields.fail(ApiError::not_supported(
      fmt::format("content blocks of type '{}' are not supported; this model reads text",
                  shown(type)),
      "messages", "unsupported_content"));
}

// A string, or text blocks, as the content of a chat.
Json text_content(FieldReader& fields, const char* name) {
  const Json* content = fields.find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return *content;
  Json parts = Json::array();
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of text blocks");
    return parts;
  }
  for (const Json& each : *content) {
    FieldReader block(each, std::string(name) + "[].");
    const std::string type = block.string("type").value_or("text");
    if (!block.failed() && type != "text") {
      refuse_block(fields, type);
      return parts;
    }
    const auto text = block.string("text");
    if (!text) block.fail("text", "is required");
    if (block.failed()) {
      fields.fail(block.error());
      return parts;
    }
    parts.push_back(text_part(*text));
  }
  return parts;
}

// One message of Anthropic becomes one of a chat, and one more for each result of a tool.
class MessageTranslation {
 public:
  MessageTranslation(const Json& message, std::size_t index, Json& out)
      : fields_(message, fmt::format("messages[{}].", index)), out_(out) {}

  std::optional<ApiError> run() {
    role_ = fields_.string("role").value_or("");
    if (role_ != "user" && role_ != "assistant" && role_ != "system") {
      fields_.fail("role", "must be user or assistant");
    }
    const Json* content = fields_.find("content");
    if (content == nullptr) {
      fields_.fail("content", "is required");
    } else if (content->is_string()) {
      out_.push_back({{"role", role_}, {"content", *content}});
    } else if (content->is_array()) {
      for (const Json& block : *content) {
        if (!fields_.failed()) add_block(block);
      }
      flush(content->empty());
    } else {
      fields_.fail("content", "must be a string or an array of content blocks");
    }
    if (fields_.failed()) return fields_.error();
    return std::nullopt;
  }

 private:
  void add_block(const Json& value) {
    FieldReader block(value, "content[].");
    const std::string type = block.string("type").value_or("");
    if (type == "text") {
      const auto text = block.string("text");
      if (!text) block.fail("text", "is required");
      if (text) parts_.push_back(text_part(*text));
    } else if (type == "tool_result" && role_ == "user") {
      add_result(block);
    } else if (type == "tool_use" && role_ == "assistant") {
      add_call(block);
    } else if (type == "thinking" && role_ == "assistant") {
      reasoning_ += block.string("thinking").value_or("");
    } else if (type == "redacted_thinking" && role_ == "assistant") {
      // Dropped: only the service that wrote this block can read it.
    } else if (!block.failed()) {
      refuse_block(fields_, type);
    }
    if (block.failed()) fields_.fail(block.error());
  }

  void add_result(FieldReader& block) {
    flush(false);
    const std::string id = block.string("tool_use_id").value_or("");
    if (id.empty()) block.fail("tool_use_id", "is required");
    Json content = text_content(block, "content");
    if (block.boolean("is_error").value_or(false)) {
      if (content.is_string()) content = Json::array({text_part(content.get<std::string>())});
      content.insert(content.begin(), text_part("Error: "));
    }
    out_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(content)}});
  }

  void add_call(FieldReader& block) {
    const auto id = block.string("id");
    const auto name = block.string("name");
    const Json* input = block.find("input");
    if (!id || !name) block.fail(id ? "name" : "id", "is required");
    if (input != nullptr && !input->is_object()) block.fail("input", "must be an object");
    if (block.failed()) return;
    const std::string arguments = input == nullptr ? "{}" : dump(OrderedJson(*input));
    calls_.push_back({{"id", *id},
                      {"type", "function"},
                      {"function", {{"name", *name}, {"arguments", arguments}}}});
  }

  // Adds the collected parts as a message. `always`: even when there are none.
  void flush(bool always) {
    if (parts_.empty() && calls_.empty() && reasoning_.empty() && !always) return;
    Json message = {{"role", role_}};
    message["content"] = parts_.empty() ? Json("") : std::move(parts_);
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    if (!reasoning_.empty()) message["reasoning_content"] = std::move(reasoning_);
    out_.push_back(std::move(message));
    parts_ = Json::array();
    calls_ = Json::array();
    reasoning_.clear();
  }

  FieldReader fields_;
  Json& out_;
  std::string role_;
  Json parts_ = Json::array();
  Json calls_ = Json::array();
  std::string reasoning_;
};

void translate_messages(FieldReader& fields, Json& chat) {
  Json& out = chat["messages"] = Json::array();
  if (fields.find("system") != nullptr) {
    out.push_back({{"role", "system"}, {"content", text_content(fields, "system")}});
  }
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.fail("messages", "must be a non-empty array of messages");
  }
  for (std::size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    const auto error = MessageTranslation((*messages)[i], i, out).run();
    if (error) fields.fail(*error);
  }
  if (fields.failed() || out.back()["role"] != "assistant") return;
  // The answer continues the last message.
  chat["add_generation_prompt"] = false;
  chat["continue_final_message"] = true;
}

void translate_tools(FieldReader& fields, Json& chat) {
  const Json* tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.fail("tools", "must be an array");
  Json& out = chat["tools"] = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    FieldReader tool((*tools)[i], fmt::format("tools[{}].", i));
    const std::string type = tool.string("type").value_or("custom");
    if (!tool.failed() && type != "custom") {
      tool.refuse("type", fmt::format("'{}' is a tool of Anthropic's servers, which Hearth does "
                                      "not have; pass a tool with an input_schema",
                                      shown(type)));
    }
    Json function = Json::object();
    const auto name = tool.string("name");
    if (!name) tool.fail("name", "is required");
    if (name) function["name"] = *name;
    if (const auto text = tool.string("description")) function["description"] = *text;
    if (const Json* schema = tool.find("input_schema")) function["parameters"] = *schema;
    if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
    if (tool.failed()) return fields.fail(tool.error());
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
}

void translate_tool_choice(FieldReader& fields, Json& chat) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  FieldReader inner(*choice, "tool_choice.");
  const std::string type = inner.string("type").value_or("");
  if (type == "auto" || type == "none") {
    chat["tool_choice"] = type;
  } else if (type == "any") {
    chat["tool_choice"] = "required";
  } else if (type == "tool") {
    chat["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", inner.string("name").value_or("")}}}};
  } else {
    inner.fail("type", "must be auto, any, tool or none");
  }
  if (inner.boolean("disable_parallel_tool_use").value_or(false)) {
    chat["parallel_tool_calls"] = false;
  }
  if (inner.failed()) fields.fail(inner.error());
}

void translate_thinking(FieldReader& fields, Json& chat) {
  if (const Json* thinking = fields.find("thinking")) {
    FieldReader inner(*thinking, "thinking.");
    const std::string type = inner.string("type").value_or("");
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      inner.fail("type", "must be enabled, disabled or adaptive");
    }
    if (inner.failed()) return fields.fail(inner.error());
    chat["chat_template_kwargs"]["enable_thinking"] = type != "disabled";
  }
  const Json* config = fields.find("output_config");
  if (config != nullptr) {
    FieldReader inner(*config, "output_config.");
    if (const auto effort = inner.string("effort")) {
      const bool most = *effort == "xhigh" || *effort == "max";
      chat["reasoning_effort"] = most ? "high" : *effort;
    }
    if (inner.failed()) return fields.fail(inner.error());
  }
  const Json* format = config != nullptr ? FieldReader(*config).find("format") : nullptr;
  if (format == nullptr) format = fields.find("output_format");
  if (format == nullptr) return;
  FieldReader inner(*format, "output_config.format.");
  const Json* schema = inner.find("schema");
  if (inner.string("type").value_or("") != "json_schema" || schema == nullptr) {
    inner.fail("type", "must be json_schema, with a 'schema'");
  }
  if (inner.failed()) return fields.fail(inner.error());
  chat["response_format"] = schema_format(*schema, {}, true);
}

void refuse_others(FieldReader& fields) {
  if (fields.find("container") != nullptr) fields.refuse("container", "is not supported; omit it");
  const Json* servers = fields.find("mcp_servers");
  if (servers != nullptr && !servers->empty()) {
    fields.refuse("mcp_servers", "is not supported: this server connects to no other; omit it");
  }
  const Json* management = fields.find("context_management");
  if (management == nullptr) return;
  FieldReader inner(*management, "context_management.");
  const Json* edits = inner.find("edits");
  for (const Json& each : edits == nullptr || !edits->is_array() ? Json::array() : *edits) {
    FieldReader edit(each, "context_management.edits[].");
    // The chat template decides which thinking a prompt keeps.
    if (edit.string("type").value_or("").starts_with("clear_thinking")) continue;
    edit.refuse("type", "is not supported: the prompt is rendered as it was sent; omit the edit");
    return fields.fail(edit.error());
  }
  if (inner.failed()) fields.fail(inner.error());
}

}  // namespace

ApiResult<TranslatedBody> translate_anthropic(const Json& body, bool counts) {
  FieldReader fields(body);
  TranslatedBody out;
  copy_others(body,
              {"messages", "system", "stop_sequences", "tools", "tool_choice", "thinking",
               "output_config", "output_format", "container", "mcp_servers", "context_management"},
              out.body);
  if (!counts && fields.find("max_tokens") == nullptr) {
    fields.fail("max_tokens", "is required: the most tokens that the answer may have");
  }
  translate_messages(fields, out.body);
  if (const Json* stop = fields.find("stop_sequences")) out.body["stop"] = *stop;
  translate_tools(fields, out.body);
  translate_tool_choice(fields, out.body);
  translate_thinking(fields, out.body);
  refuse_others(fields);
  if (fields.failed()) return fields.error();
  return out;
}

}  // namespace hearth::coordinator::http
