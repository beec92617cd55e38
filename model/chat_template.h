// Messages to a prompt by the model's chat template: a bounded interpreter of the subset of Jinja
// that published templates use. No file's template can read, write, loop for ever or grow without
// bound; every error names the line and the construct.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::model {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatTemplateInput {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
};

// A piece of a rendered prompt. User text (message contents) can never become a special token:
// it is encoded with SpecialTokens::kText, the template's own text with kParse.
struct PromptPiece {
  std::string text;
  bool from_user = false;
};

class ChatTemplate {
 public:
  // Parses once; kInvalidInput names line and construct, kUnsupported what lies outside the subset.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  // The prompt as pieces whose texts, joined, are the rendered string. Limits: steps, depth and
  // output of base/limits.h. raise_exception(...) becomes kInvalidInput with its message.
  virtual Result<std::vector<PromptPiece>> render(const ChatTemplateInput& input) const = 0;
};

// Used when a model has no template of its own (ChatML).
std::string_view default_chat_template();

}  // namespace hearth::model
