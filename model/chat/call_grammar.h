// The grammar of an answer that calls tools. It is made from the ChatSyntax that also parses the
// answer, so every generated call can be parsed. Pure function.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/chat/syntax.h"
#include "model/grammar/grammar.h"

namespace hearth::model {

// A control token of the vocabulary that spells a part of a mark.
struct ControlToken {
  std::string text = {};
  TokenId token = 0;
  bool ends = false;  // it ends an answer, so nothing follows it
};

struct AnswerConstraint {
  std::optional<GrammarSource> content = {};  // the form of an answer without calls
  std::vector<ChatTool> tools = {};           // that may be called
  bool calls_required = false;                // at least one call
  bool parallel_calls = true;                 // false: at most one
  std::string prompt_tail = {};               // AnswerRules::prompt_tail
  // The control tokens of ChatSyntax::marks(). Where they spell a part of a mark, the token is
  // generated, never its text.
  std::vector<ControlToken> controls = {};
};

// Every call's arguments match its tool's schema. A thought that the prompt has begun comes first.
// kUnsupported: the syntax, or a schema in it, has no grammar; kInvalidInput: a schema is wrong.
Result<std::shared_ptr<const Grammar>> answer_grammar(const ChatSyntax& syntax,
                                                      const AnswerConstraint& constraint);

}  // namespace hearth::model
