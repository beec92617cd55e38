#include "model/chat_template.h"

#include <algorithm>

#include "model/jinja/eval.h"
#include "model/jinja/parser.h"

namespace hearth::model {
namespace {

// Replaces the end of the last message while it is rendered, so that the prompt can be cut there
// even if a template adds or trims text.
constexpr std::string_view kContinuesHere = "\x02HERE THE MODEL CONTINUES\x03 ";

using Entries = std::vector<std::pair<jinja::Value, jinja::Value>>;

Status add(jinja::Meter& meter, Entries& entries, std::string_view key, jinja::Value value) {
  TRY(jinja::Value name, jinja::make_text(meter, key));
  entries.emplace_back(std::move(name), std::move(value));
  return ok_status();
}

Status add_text(jinja::Meter& meter, Entries& entries, std::string_view key,
                std::string_view text) {
  TRY(jinja::Value value, jinja::make_text(meter, text, true));
  return add(meter, entries, key, std::move(value));
}

// {"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}
Result<jinja::Value> call_value(jinja::Meter& meter, const ChatToolCall& call, bool objects) {
  Entries function;
  TRY_VOID(add_text(meter, function, "name", call.name));
  if (objects) {
    TRY(jinja::Value arguments, jinja::value_of_json(meter, call.arguments));
    TRY_VOID(add(meter, function, "arguments", std::move(arguments)));
  } else {
    TRY_VOID(add_text(meter, function, "arguments", call.arguments));
  }
  TRY(jinja::Value callee, jinja::make_dict(meter, std::move(function)));
  Entries out;
  TRY_VOID(add_text(meter, out, "id", call.id));
  TRY(jinja::Value type, jinja::make_text(meter, "function"));
  TRY_VOID(add(meter, out, "type", std::move(type)));
  TRY_VOID(add(meter, out, "function", std::move(callee)));
  return jinja::make_dict(meter, std::move(out));
}

Result<jinja::Value> message_value(jinja::Meter& meter, const ChatMessage& message,
                                   const ChatTemplateInput& input, bool continued) {
  Entries out;
  TRY_VOID(add_text(meter, out, "role", message.role));
  TRY_VOID(add_text(meter, out, "content",
                    message.content + std::string(continued ? kContinuesHere : "")));
  if (!message.name.empty()) TRY_VOID(add_text(meter, out, "name", message.name));
  if (!message.tool_call_id.empty()) {
    TRY_VOID(add_text(meter, out, "tool_call_id", message.tool_call_id));
  }
  // Templates expect it under different names.
  if (!message.reasoning.empty()) {
    for (const std::string_view key : {"reasoning_content", "reasoning", "thinking"}) {
      TRY_VOID(add_text(meter, out, key, message.reasoning));
    }
  }
  if (!message.tool_calls.empty()) {
    std::vector<jinja::Value> calls;
    for (const ChatToolCall& call : message.tool_calls) {
      TRY(jinja::Value value, call_value(meter, call, input.object_arguments));
      calls.push_back(std::move(value));
    }
    TRY(jinja::Value list, jinja::make_list(meter, std::move(calls)));
    TRY_VOID(add(meter, out, "tool_calls", std::move(list)));
  }
  return jinja::make_dict(meter, std::move(out));
}

Result<jinja::Value> message_list(jinja::Meter& meter, const ChatTemplateInput& input) {
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : input.messages) {
    const bool continued = input.continue_final_message && &message == &input.messages.back();
    TRY(jinja::Value dict, message_value(meter, message, input, continued));
    list.push_back(std::move(dict));
  }
  return jinja::make_list(meter, std::move(list));
}

Result<jinja::Value> tool_list(jinja::Meter& meter, const std::vector<ChatTool>& tools) {
  if (tools.empty()) return jinja::Value(jinja::None{});
  std::vector<jinja::Value> list;
  for (const ChatTool& tool : tools) {
    TRY(jinja::Value value, jinja::value_of_json(meter, tool.text));
    list.push_back(std::move(value));
  }
  return jinja::make_list(meter, std::move(list));
}

// The text up to the place where the model continues. If a template trims contents, it removes the
// space at the end of the mark; the text before the mark is then trimmed as well.
Result<jinja::Text> cut_at_end(jinja::Text text) {
  const std::string_view word = kContinuesHere.substr(0, kContinuesHere.size() - 1);
  std::size_t at = text.bytes.rfind(word);
  REQUIRE(at != std::string::npos,
          "the chat template does not write the last message, so it cannot be continued");
  if (text.bytes.compare(at, kContinuesHere.size(), kContinuesHere) != 0) {
    while (at > 0 && std::string_view(" \t\r\n").find(text.bytes[at - 1]) != std::string::npos)
      --at;
  }
  text.bytes.resize(at);
  while (!text.user.empty() && text.user.back().begin >= at) text.user.pop_back();
  if (!text.user.empty()) {
    text.user.back().end = std::min(text.user.back().end, static_cast<std::uint32_t>(at));
  }
  return text;
}

std::vector<PromptPiece> pieces_of(const jinja::Text& text) {
  std::vector<PromptPiece> pieces;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool from_user) {
    if (end > at) pieces.push_back({text.bytes.substr(at, end - at), from_user});
    at = end;
  };
  for (const jinja::Span& span : text.user) {
    add(span.begin, false);
    add(span.end, true);
  }
  add(text.bytes.size(), false);
  return pieces;
}

class JinjaChatTemplate final : public ChatTemplate {
 public:
  explicit JinjaChatTemplate(std::unique_ptr<const jinja::Program> program)
      : program_(std::move(program)) {}

  Result<std::vector<PromptPiece>> render(const ChatTemplateInput& input) const override {
    jinja::Meter meter(input.messages.size());
    jinja::Environment environment;
    environment.unix_seconds = input.unix_seconds;
    REQUIRE(
        !input.continue_final_message || (!input.messages.empty() && !input.add_generation_prompt),
        "to continue the last message, send one, and no generation prompt");
    TRY(jinja::Value messages, message_list(meter, input));
    TRY(jinja::Value tools, tool_list(meter, input.tools));
    TRY(jinja::Value bos, jinja::make_text(meter, input.bos_token));
    TRY(jinja::Value eos, jinja::make_text(meter, input.eos_token));
    environment.variables = {
        {"messages", std::move(messages)}, {"add_generation_prompt", input.add_generation_prompt},
        {"bos_token", std::move(bos)},     {"eos_token", std::move(eos)},
        {"tools", std::move(tools)},       {"documents", jinja::None{}}};
    for (const auto& [name, token] : input.named_tokens) {
      TRY(jinja::Value text, jinja::make_text(meter, token));
      environment.variables.emplace_back(name, std::move(text));
    }
    for (const auto& variable : input.variables) {
      TRY(jinja::Value value, jinja::value_of_json(meter, variable.second));
      std::erase_if(environment.variables,
                    [&](const auto& each) { return each.first == variable.first; });
      environment.variables.emplace_back(variable.first, std::move(value));
    }
    TRY(jinja::Text text, jinja::run_program(*program_, environment, meter));
    if (!input.continue_final_message) return pieces_of(text);
    TRY(const jinja::Text begun, cut_at_end(std::move(text)));
    return pieces_of(begun);
  }

 private:
  std::unique_ptr<const jinja::Program> program_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  TRY(std::unique_ptr<const jinja::Program> program, jinja::parse_program(source));
  return std::shared_ptr<const ChatTemplate>(
      std::make_shared<const JinjaChatTemplate>(std::move(program)));
}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::load(const GgufFile& file,
                                                               const Tokenizer& tokenizer) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (file.find(kKey) == nullptr) return parse(default_chat_template(tokenizer));
  TRY(const std::string source, file.get_string(kKey));
  const bool blank = source.find_first_not_of(" \t\r\n") == std::string::npos;
  return parse(blank ? default_chat_template(tokenizer) : source);
}

std::string_view chat_template_of(ChatMarks marks) {
  if (marks == ChatMarks::kTurns) {
    return "{% set system = '' %}"
           "{% if messages and messages[0]['role'] == 'system' %}"
           "{% set system = messages[0]['content'] + '\n\n' %}{% set messages = messages[1:] %}"
           "{% endif %}"
           "{% for message in messages %}"
           "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role'])"
           " + '\n' + (system if loop.first else '') + message['content'] + '<end_of_turn>\n' }}"
           "{% endfor %}"
           "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}";
  }
  return "{% for message in messages %}"
         "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
}

std::string_view default_chat_template(const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view mark) {
    const auto ids = tokenizer.encode(mark, SpecialTokens::kParse, false);
    return ids.ok() && ids->size() == 1 && tokenizer.is_special(ids->front());
  };
  const bool turns = has("<start_of_turn>") && !has("<|im_start|>");
  return chat_template_of(turns ? ChatMarks::kTurns : ChatMarks::kChatMl);
}

}  // namespace hearth::model
