#include "coordinator/http/openai/tools.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::string_view kNameBytes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
constexpr std::string_view kAnyArguments = R"({"type": "object", "properties": {}})";

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= limits::kToolNameBytes &&
         name.find_first_not_of(kNameBytes) == name.npos;
}

model::ChatTool parse_tool(FieldReader& fields, const Json& value, std::size_t index) {
  model::ChatTool out;
  FieldReader tool(value, fmt::format("tools[{}].", index));
  const std::string type = tool.string("type").value_or("function");
  if (!tool.failed() && type != "function") {
    tool.refuse("type", fmt::format("is '{}'; only 'function' is supported", type.substr(0, 64)));
  }
  const Json* function = tool.find("function");
  if (function == nullptr) tool.fail("function", "is required");
  if (!tool.failed()) {
    FieldReader inner(*function, fmt::format("tools[{}].function.", index));
    out.name = inner.string("name").value_or("");
    if (!inner.failed() && !is_tool_name(out.name)) {
      inner.fail("name", fmt::format("must have 1 to {} letters, digits, '_', '-', '.', ':' or '/'",
                                     limits::kToolNameBytes));
    }
    out.description = inner.string("description").value_or("");
    out.strict = inner.boolean("strict").value_or(false);
    const Json* parameters = inner.find("parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      inner.fail("parameters", "must be a JSON schema, which is an object");
    }
    out.parameters = parameters != nullptr ? dump(*parameters) : std::string(kAnyArguments);
    if (inner.failed()) tool.fail(inner.error());
  }
  if (tool.failed()) fields.fail(tool.error());
  out.text = dump(value);
  return out;
}

void parse_tool_choice(FieldReader& fields, GenerationRequest& request) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    const auto& name = choice->get_ref<const std::string&>();
    if (name == "none") {
      request.tool_choice = ToolChoice::kNone;
    } else if (name == "required" || name == "any") {
      request.tool_choice = ToolChoice::kRequired;
    } else if (name != "auto") {
      return fields.fail("tool_choice",
                         "must be auto, none, required, or for one function {\"type\": "
                         "\"function\", \"function\": {\"name\": NAME}}");
    }
  } else {
    FieldReader inner(*choice, "tool_choice.");
    const std::string type = inner.string("type").value_or("function");
    if (!inner.failed() && type != "function") inner.refuse("type", "must be 'function'");
    const Json* function = inner.find("function");
    if (function != nullptr) {
      FieldReader named(*function, "tool_choice.function.");
      request.tool_name = named.string("name").value_or("");
      if (named.failed()) inner.fail(named.error());
    } else {
      inner.fail("function", "is required");
    }
    if (inner.failed()) return fields.fail(inner.error());
    request.tool_choice = ToolChoice::kNamed;
    const bool known = std::ranges::any_of(
        request.tools, [&](const auto& tool) { return tool.name == request.tool_name; });
    if (!known) return fields.fail("tool_choice", "names a function that 'tools' does not have");
  }
  if (request.tools.empty() && request.tool_choice == ToolChoice::kRequired) {
    fields.fail("tool_choice", "is 'required', but 'tools' is empty");
  }
}

model::ChatToolCall parse_tool_call(FieldReader& message, const Json& value) {
  model::ChatToolCall out;
  FieldReader call(value, "tool_calls[].");
  out.id = call.string("id").value_or("");
  const Json* function = call.find("function");
  if (function == nullptr) call.fail("function", "is required");
  if (!call.failed()) {
    FieldReader inner(*function, "tool_calls[].function.");
    out.name = inner.string("name").value_or("");
    if (!inner.failed() && !is_tool_name(out.name)) inner.fail("name", "must name a function");
    const Json* arguments = inner.find("arguments");
    if (arguments == nullptr) {
      out.arguments = "{}";
    } else if (arguments->is_object()) {
      out.arguments = dump(*arguments);
    } else if (arguments->is_string()) {
      out.arguments = arguments->get<std::string>();
      if (out.arguments.find_first_not_of(" \t\r\n") == std::string::npos) out.arguments = "{}";
      const auto parsed = parse_json(out.arguments);
      if (!parsed.ok() || !ApiResult<Json>(parsed)->is_object()) {
        inner.fail("arguments", "must be the text of a JSON object");
      }
    } else {
      inner.fail("arguments", "must be the text of a JSON object");
    }
    if (inner.failed()) call.fail(inner.error());
  }
  if (call.failed()) message.fail(call.error());
  return out;
}

using Kind = model::GrammarSource::Kind;

void set_format(FieldReader& fields, GenerationRequest& request, const char* name, Kind kind,
                std::string text) {
  if (fields.failed()) return;
  if (request.format) {
    return fields.fail(name, fmt::format("and '{}' both fix the form of the answer; send only one",
                                         request.format_field));
  }
  request.format = model::GrammarSource{kind, std::move(text)};
  request.format_field = name;
}

// A schema: an object or a boolean, or the text of one.
void set_schema(FieldReader& fields, GenerationRequest& request, const char* name,
                const Json& schema) {
  if (schema.is_string()) {
    return set_format(fields, request, name, Kind::kJsonSchema, schema.get<std::string>());
  }
  if (!schema.is_object() && !schema.is_boolean()) {
    return fields.fail(name, "must be a JSON schema");
  }
  set_format(fields, request, name, Kind::kJsonSchema, dump(schema));
}

void set_choice(FieldReader& fields, GenerationRequest& request, const char* name,
                const Json& list) {
  const bool texts = list.is_array() && !list.empty() &&
                     std::ranges::all_of(list, [](const Json& each) { return each.is_string(); });
  if (!texts) return fields.fail(name, "must be an array of strings");
  set_format(fields, request, name, Kind::kChoice, dump(list));
}

void set_text(FieldReader& fields, GenerationRequest& request, const char* name, Kind kind,
              const Json& text) {
  if (!text.is_string()) return fields.fail(name, "must be a string");
  if (text.get_ref<const std::string&>().empty()) return;
  set_format(fields, request, name, kind, text.get<std::string>());
}

bool is_off(const Json& value) {
  return value == Json(false) || value == Json(0) || value == Json("") ||
         (value.is_structured() && value.empty());
}

void parse_response_format(FieldReader& fields, GenerationRequest& request) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  FieldReader inner(*format, "response_format.");
  const std::string type = inner.string("type").value_or("");
  const Json* schema = inner.find("schema");  // llama.cpp's place for it
  if (const Json* named = inner.find("json_schema"); named != nullptr && type == "json_schema") {
    schema = named->is_object() ? FieldReader(*named).find("schema") : nullptr;
    if (schema == nullptr) inner.fail("json_schema", "must be an object with a 'schema'");
  }
  if (inner.failed()) return fields.fail(inner.error());
  if (type == "text") return;
  if (type == "json_object" && schema == nullptr) {
    return set_format(fields, request, "response_format", Kind::kJsonObject, {});
  }
  if (type == "json_object" || (type == "json_schema" && schema != nullptr)) {
    return set_schema(fields, request, "response_format", *schema);
  }
  fields.fail("response_format", "has a type that is not text, json_object or json_schema");
}

void parse_one_format(FieldReader& fields, GenerationRequest& request, std::string_view kind,
                      const char* name, const Json& value) {
  if (kind == "json") return set_schema(fields, request, name, value);
  if (kind == "regex") return set_text(fields, request, name, Kind::kRegex, value);
  if (kind == "choice") return set_choice(fields, request, name, value);
  if (kind == "grammar") return set_text(fields, request, name, Kind::kGbnf, value);
  if (value == Json(true)) set_format(fields, request, name, Kind::kJsonObject, {});
}

// {"effort", "enabled", "summary"} of OpenRouter and of OpenAI's Responses. `summary` has no
// effect: the whole thought is always sent.
struct Reasoning {
  std::optional<std::string> effort;
  std::optional<bool> enabled;
};

Reasoning parse_reasoning(FieldReader& fields) {
  Reasoning out;
  const Json* value = fields.find("reasoning");
  if (value == nullptr) return out;
  FieldReader inner(*value, "reasoning.");
  out.effort = inner.string("effort");
  out.enabled = inner.boolean("enabled");
  for (const char* name : {"max_tokens", "exclude"}) {
    const Json* other = inner.find(name);
    if (other != nullptr && *other != Json(false)) {
      inner.refuse(name, "is not supported yet, and ignoring it would change the answer; omit it");
    }
  }
  if (inner.failed()) fields.fail(inner.error());
  return out;
}

}  // namespace

void parse_tools(FieldReader& fields, GenerationRequest& request) {
  if (const Json* tools = fields.find("tools")) {
    if (!tools->is_array() || tools->size() > limits::kTools) {
      return fields.fail("tools", fmt::format("must be an array of at most {}", limits::kTools));
    }
    for (std::size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
      request.tools.push_back(parse_tool(fields, (*tools)[i], i));
      const std::string& name = request.tools.back().name;
      const auto same = std::ranges::count(request.tools, name, &model::ChatTool::name);
      if (same > 1) fields.fail("tools", fmt::format("has two functions named '{}'", name));
    }
  }
  parse_tool_choice(fields, request);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
}

std::vector<model::ChatToolCall> parse_tool_calls(FieldReader& message) {
  std::vector<model::ChatToolCall> out;
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr) return out;
  if (!calls->is_array() || calls->size() > limits::kToolCalls) {
    message.fail("tool_calls", fmt::format("must be an array of at most {}", limits::kToolCalls));
    return out;
  }
  for (const Json& call : *calls) {
    out.push_back(parse_tool_call(message, call));
    if (message.failed()) break;
  }
  return out;
}

void parse_format(FieldReader& fields, GenerationRequest& request) {
  parse_response_format(fields, request);
  struct Named {
    const char* name;
    std::string_view kind;
  };
  constexpr std::array kNames = {
      Named{"json_schema", "json"},     Named{"grammar", "grammar"},
      Named{"guided_json", "json"},     Named{"guided_regex", "regex"},
      Named{"guided_choice", "choice"}, Named{"guided_grammar", "grammar"},
      Named{"regex", "regex"},          Named{"ebnf", "grammar"},
  };
  for (const auto& [name, kind] : kNames) {
    const Json* value = fields.find(name);
    if (value != nullptr && !is_off(*value)) parse_one_format(fields, request, kind, name, *value);
  }
  const Json* outputs = fields.find("structured_outputs");
  if (outputs == nullptr || is_off(*outputs)) return;
  FieldReader inner(*outputs, "structured_outputs.");
  for (const char* kind : {"json", "regex", "choice", "grammar", "json_object"}) {
    if (const Json* value = inner.find(kind)) {
      parse_one_format(fields, request, kind, "structured_outputs", *value);
    }
  }
  if (inner.find("structural_tag") != nullptr) {
    inner.refuse("structural_tag", "is not supported; send 'json' or 'grammar' instead");
  }
  if (inner.failed()) fields.fail(inner.error());
}

void parse_template_fields(FieldReader& fields, GenerationRequest& request) {
  auto& variables = request.template_variables;
  const auto set = [&](const std::string& name, std::string json) {
    std::erase_if(variables, [&](const auto& each) { return each.first == name; });
    variables.emplace_back(name, std::move(json));
  };
  const Reasoning reasoning = parse_reasoning(fields);
  auto effort = fields.string("reasoning_effort");
  if (!effort) effort = reasoning.effort;
  if (effort) {
    set("reasoning_effort", dump(*effort));
    if (*effort == "none") set("enable_thinking", "false");
  }
  if (reasoning.enabled) set("enable_thinking", *reasoning.enabled ? "true" : "false");
  if (const auto thinks = fields.boolean("enable_thinking")) {
    set("enable_thinking", *thinks ? "true" : "false");
  }
  if (const Json* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object() || kwargs->size() > limits::kTools) {
      return fields.fail("chat_template_kwargs", "must be a JSON object");
    }
    for (const auto& [name, value] : kwargs->items()) {
      for (const char* own : {"messages", "tools", "documents", "bos_token", "eos_token"}) {
        if (name == own) {
          return fields.fail(
              "chat_template_kwargs",
              fmt::format("must not set '{}': other fields of the request set it", name));
        }
      }
      set(name, dump(value));
    }
  }
  if (const auto format = fields.string("reasoning_format")) {
    request.separate_reasoning = *format != "none";
  }
  request.separate_reasoning =
      fields.boolean("separate_reasoning").value_or(request.separate_reasoning);
  const auto continues = fields.boolean("continue_final_message");
  const auto adds = fields.boolean("add_generation_prompt");
  // The answer continues a last message of the assistant.
  const bool last = !request.messages.empty() && request.messages.back().role == "assistant" &&
                    request.messages.back().tool_calls.empty();
  request.continue_final_message = continues.value_or(last && !adds.value_or(false));
  request.add_generation_prompt = adds.value_or(!request.continue_final_message);
  if (request.continue_final_message && request.add_generation_prompt) {
    fields.fail("continue_final_message", "and 'add_generation_prompt' exclude each other");
  }
}

const char* field_that_needs_mask(const GenerationRequest& request) {
  if (request.format) return request.format_field.c_str();
  if (request.tools.empty() || request.tool_choice == ToolChoice::kNone) return nullptr;
  if (request.tool_choice != ToolChoice::kAuto) return "tool_choice";
  const bool strict = std::ranges::any_of(request.tools, &model::ChatTool::strict);
  return strict ? "tools" : nullptr;
}

}  // namespace hearth::coordinator::http
