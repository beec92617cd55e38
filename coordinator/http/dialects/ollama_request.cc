// POST /api/chat and /api/generate of Ollama as a chat or a completion.
#include <spdlog/fmt/fmt.h>

#include <limits>

#include "coordinator/http/dialects/translate.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

// Messages differ in calls, whose arguments are objects, and in the names of some fields.
void translate_turn(const Json& message, Json& out) {
  Json turn = Json::object();
  copy_others(message, {"thinking", "tool_calls", "tool_name"}, turn);
  if (turn.find("content") == turn.end()) turn["content"] = "";
  if (message.contains("thinking")) turn["reasoning_content"] = message["thinking"];
  if (message.contains("tool_name") && !turn.contains("name")) turn["name"] = message["tool_name"];
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && calls->is_array() && !calls->empty()) {
    Json& told = turn["tool_calls"] = Json::array();
    for (const Json& each : *calls) {
      const Json call = each.is_object() ? each : Json::object();
      Json function = call.value("function", Json::object());
      const bool has_object = function.is_object() && function.contains("arguments") &&
                              !function["arguments"].is_string();
      if (has_object) function["arguments"] = dump(OrderedJson(function["arguments"]));
      const std::string number = fmt::format("call_{}", out.size() + told.size());
      told.push_back({{"id", call.value("id", Json(number))},
                      {"type", "function"},
                      {"function", std::move(function)}});
    }
  }
  out.push_back(std::move(turn));
}

// In Ollama's dialect, a tool's message does not name its call: the messages answer the calls in
// order.
void name_answered_calls(Json& messages) {
  std::vector<Json> open;
  for (Json& message : messages) {
    const Json role = message.value("role", Json());
    if (role == "assistant") open.clear();
    for (const Json& call : message.value("tool_calls", Json::array())) open.push_back(call["id"]);
    if (role != "tool" || message.contains("tool_call_id") || open.empty()) continue;
    message["tool_call_id"] = open.front();
    open.erase(open.begin());
  }
}

// keep_alive: 0, "0" or "0s" asks to unload the model.
bool keeps_no_time(const Json& body) {
  const auto keep = body.find("keep_alive");
  if (keep == body.end()) return false;
  if (keep->is_number()) return *keep == 0;
  if (!keep->is_string()) return false;
  const auto& text = keep->get_ref<const std::string&>();
  const std::size_t digits = text.find_first_not_of("0.");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  return digits != 0 && !text.empty() &&
         (unit.empty() || unit == "ms" || unit == "s" || unit == "m" || unit == "h");
}

void translate_turns(FieldReader& fields, TranslatedBody& out) {
  const Json* messages = fields.find("messages");
  Json turns = Json::array();
  if (messages != nullptr && !messages->is_array()) {
    return fields.fail("messages", "must be an array of messages");
  }
  for (const Json& message : messages == nullptr ? Json::array() : *messages) {
    if (!message.is_object()) return fields.fail("messages", "must hold objects");
    translate_turn(message, turns);
  }
  name_answered_calls(turns);
  out.only_loads = turns.empty();
  out.body["messages"] = std::move(turns);
}

void translate_prompt(FieldReader& fields, TranslatedBody& out) {
  const std::string prompt = fields.string("prompt").value_or("");
  const std::string system = fields.string("system").value_or("");
  out.only_loads = prompt.empty();
  for (const char* name : {"template", "suffix"}) {
    if (!fields.string(name).value_or("").empty()) {
      fields.refuse(name, "is not supported, and ignoring it would change the answer; omit it");
    }
  }
  const Json* context = fields.find("context");
  if (context != nullptr && !context->empty()) {
    fields.refuse("context", "is not supported; send the conversation to /api/chat");
  }
  if (fields.boolean("raw").value_or(false)) {
    out.chat = false;
    out.body["prompt"] = prompt;
    return;
  }
  Json& messages = out.body["messages"] = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
}

void translate_options(FieldReader& fields, Json& chat) {
  const Json* options = fields.find("options");
  if (options == nullptr) return;
  FieldReader inner(*options, "options.");
  if (inner.failed()) return fields.fail(inner.error());
  copy_others(*options,
              {"num_predict", "num_ctx", "num_keep", "num_batch", "num_gpu", "num_thread",
               "repeat_last_n", "repeat_penalty", "stop"},
              chat);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (const auto most = inner.integer("num_predict", -2, kMost)) {
    // -1: until the answer ends; -2: until the context is full. Here both end at the context.
    chat["max_tokens"] = *most < 0 ? -1 : *most;
  }
  if (const Json* stop = inner.find("stop")) chat["stop"] = *stop;
  const auto last = inner.integer("repeat_last_n", -1, kMost);
  if (const Json* penalty = inner.find("repeat_penalty"); penalty != nullptr && last != 0) {
    if (last.value_or(-1) != -1 && *penalty != Json(1)) {
      inner.refuse("repeat_last_n",
                   "must be -1 (the whole text) or 0 (off) where 'repeat_penalty' is not 1");
    }
    chat["repetition_penalty"] = *penalty;
  }
  if (inner.failed()) fields.fail(inner.error());
}

void translate_format(FieldReader& fields, Json& chat) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    chat["response_format"] = {{"type", "json_object"}};
  } else if (format->is_object()) {
    chat["response_format"] = schema_format(*format, {}, {});
  } else {
    fields.fail("format", "must be \"json\" or a JSON schema");
  }
}

void translate_think(FieldReader& fields, Json& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    chat["chat_template_kwargs"]["enable_thinking"] = *think;
  } else if (think->is_string()) {
    chat["reasoning_effort"] = *think;
  } else {
    fields.fail("think", "must be true, false, low, medium or high");
  }
}

}  // namespace

ApiResult<TranslatedRequest> translate_ollama_embed(const Json& body, bool one,
                                                    const ModelBounds& bounds) {
  FieldReader fields(body);
  if (fields.failed()) return fields.error();
  TranslatedRequest out;
  const char* const name = one ? "prompt" : "input";
  const Json* input = fields.find(name);
  const bool is_text = input == nullptr || input->is_string() || (!one && input->is_array());
  if (!is_text) {
    fields.fail(name, one ? "must be a string" : "must be a string or an array of strings");
  }
  if (fields.failed()) return fields.error();
  if (input == nullptr || input->empty() || *input == "") {
    out.only_loads = true;
    out.unloads = keeps_no_time(body);
    out.request.model = fields.string("model").value_or("");
    if (fields.failed()) return fields.error();
    return out;
  }
  // Fields about the model's memory, which change no embedding.
  Json translated = Json::object();
  copy_others(body, {"prompt", "input", "options", "keep_alive", "encoding_format", "truncate"},
              translated);
  translated["input"] = *input;
  translated["truncate"] = fields.boolean("truncate").value_or(true);
  if (fields.failed()) return fields.error();
  TRY(out.request, parse_embedding_request(translated, bounds));
  out.request.embedding->one = one;
  return out;
}

ApiResult<TranslatedBody> translate_ollama(const Json& body, bool chat) {
  FieldReader fields(body);
  TranslatedBody out;
  // Fields that have a meaning in Ollama and change no answer here: keep_alive and options of
  // memory.
  copy_others(body,
              {"messages", "prompt", "system", "template", "suffix", "context", "raw", "options",
               "format", "think", "keep_alive", "stream", "name"},
              out.body);
  if (const Json* name = fields.find("name"); name != nullptr && !out.body.contains("model")) {
    out.body["model"] = *name;
  }
  translate_options(fields, out.body);
  if (chat) {
    translate_turns(fields, out);
  } else {
    translate_prompt(fields, out);
  }
  out.unloads = out.only_loads && keeps_no_time(body);
  if (!out.chat && !out.body.contains("max_tokens")) out.body["max_tokens"] = -1;
  translate_format(fields, out.body);
  translate_think(fields, out.body);
  out.body["stream"] = fields.boolean("stream").value_or(true);
  if (fields.failed()) return fields.error();
  return out;
}

}  // namespace hearth::coordinator::http
