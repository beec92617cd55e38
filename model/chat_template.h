// Renders messages to a prompt with the model's chat template. The interpreter supports the subset
// of Jinja that published templates use. A template can neither read nor write files, loop for
// ever, or grow without bound. Every error names the line and the construct.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/text/tokenizer.h"

namespace hearth::model {

// A call that an assistant's message made.
struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object
};

struct ChatMessage {
  std::string role;  // system, user, assistant or tool
  std::string content;
  std::string name = {};                      // of the tool that answers, or of a participant
  std::vector<ChatToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};              // tool: the call that it answers
  std::string reasoning = {};                 // assistant: what it thought before the content
};

// A function that a model may call.
struct ChatTool {
  std::string name;
  std::string description;
  std::string parameters;  // JSON text of the schema of its arguments
  bool strict = false;     // a call's arguments match the schema
  std::string text;        // JSON text of the whole tool in OpenAI's form, as the request wrote it
  friend bool operator==(const ChatTool&, const ChatTool&) = default;
};

struct ChatTemplateInput {
  std::vector<ChatMessage> messages;
  std::vector<ChatTool> tools = {};
  bool add_generation_prompt = true;
  // Arguments of calls are dicts; false: their JSON text, which some templates write as it is
  // (ChatSyntax says which a template expects).
  bool object_arguments = true;
  // The prompt ends inside the last message, which the model continues; needs a last message and no
  // generation prompt.
  bool continue_final_message = false;
  // chat_template_kwargs: names and JSON texts ("enable_thinking", "false").
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::string bos_token;
  std::string eos_token;
  // Others that transformers defines where the vocabulary has them: ("pad_token", "<pad>").
  std::vector<std::pair<std::string_view, std::string>> named_tokens;
  // The time for strftime_now, which templates that write the date call: the request's time, in UTC
  // and with English names, so that every machine renders the same prompt. Without a time the
  // function is undefined.
  std::optional<std::int64_t> unix_seconds;
};

// A piece of a rendered prompt. User text (message contents and roles, and all that the template
// makes of them) can never become a special token:
// it is encoded with SpecialTokens::kText, the template's own text with kParse.
struct PromptPiece {
  std::string text;
  bool from_user = false;
};

class ChatTemplate {
 public:
  // Parses once; kInvalidInput names line and construct, kUnsupported what lies outside the subset.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  // The file's template, or default_chat_template() if it has none or a blank one. A key that is
  // not a string is refused: another template would give prompts that the model was not trained on.
  static Result<std::shared_ptr<const ChatTemplate>> load(const GgufFile& file,
                                                          const Tokenizer& tokenizer);
  virtual ~ChatTemplate() = default;
  // The prompt as pieces whose texts, joined, are the rendered string; no two neighbours are of one
  // kind and none is empty. Limits: steps, depth, output and work of base/limits.h.
  // raise_exception(...) becomes kInvalidInput with its message. Documents, and tools if there are
  // none, have the value none, as in Hugging Face's library. Safe to call from several threads.
  virtual Result<std::vector<PromptPiece>> render(const ChatTemplateInput& input) const = 0;
};

// The kind of marks that begin and end the turns of a prompt.
enum class ChatMarks : std::uint8_t {
  kChatMl,  // <|im_start|>role ... <|im_end|>
  kTurns,   // <start_of_turn>role ... <end_of_turn>, the assistant being called "model" (Gemma)
};
std::string_view chat_template_of(ChatMarks marks);

// The template for a model without one: it uses the marks that the vocabulary has, and ChatML's if
// it has neither kind.
std::string_view default_chat_template(const Tokenizer& tokenizer);

}  // namespace hearth::model
