#include "model/chat_template.h"

#include <utility>

#include "base/limits.h"
#include "model/jinja/eval.h"
#include "model/jinja/parser.h"

namespace hearth::model {
namespace {

Result<jinja::Value> message_list(jinja::Meter& meter, const std::vector<ChatMessage>& messages) {
  TRY(const jinja::Value role_key, jinja::make_text(meter, "role"));
  TRY(const jinja::Value content_key, jinja::make_text(meter, "content"));
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : messages) {
    TRY(jinja::Value role, jinja::make_text(meter, message.role, true));
    TRY(jinja::Value content, jinja::make_text(meter, message.content, true));
    TRY(jinja::Value dict,
        jinja::make_dict(meter, {{role_key, std::move(role)}, {content_key, std::move(content)}}));
    list.push_back(std::move(dict));
  }
  return jinja::make_list(meter, std::move(list));
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
    TRY(jinja::Value messages, message_list(meter, input.messages));
    TRY(jinja::Value bos, jinja::make_text(meter, input.bos_token));
    TRY(jinja::Value eos, jinja::make_text(meter, input.eos_token));
    environment.variables = {
        {"messages", std::move(messages)}, {"add_generation_prompt", input.add_generation_prompt},
        {"bos_token", std::move(bos)},     {"eos_token", std::move(eos)},
        {"tools", jinja::None{}},          {"documents", jinja::None{}}};
    for (const auto& [name, token] : input.named_tokens) {
      TRY(jinja::Value text, jinja::make_text(meter, token));
      environment.variables.emplace_back(name, std::move(text));
    }
    TRY(const jinja::Text text, jinja::run_program(*program_, environment, meter));
    return pieces_of(text);
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
