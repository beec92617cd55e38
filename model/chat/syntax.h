// ChatSyntax: the form in which a model writes thoughts and tool calls. The parser of answers
// (parser.h) and the grammar that enforces calls (call_grammar.h) use the same description, so
// every generated call can be parsed. Probes of the chat template find the form: they render
// messages with calls and compare the text around them. The name of a model is never used.
// Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/chat_template.h"

namespace hearth::model {

enum class CallForm : std::uint8_t {
  kObject,    // {"name": "f", "arguments": {...}}
  kNamed,     // f, then the arguments in one bracketed value
  kTagged,    // f, then each argument between marks of its own
  kElements,  // f, then each argument between marks that name it, as are parts of lists and objects
  kHarmony,   // messages with channels and recipients (gpt-oss)
};
enum class ArgumentForm : std::uint8_t {
  kJson,
  kPython,  // (a=1, b='x')
  kQuoted,  // {a:1,b:<|"|>x<|"|>} with ChatSyntax::quote (Gemma 4)
};

struct ChatSyntax {
  CallForm form = CallForm::kObject;
  // The template renders no tools. A system message then describes them, and calls and results are
  // written as text.
  bool describes_tools = false;
  bool object_arguments = true;  // ChatTemplateInput::object_arguments

  // Marks as the template writes them. Parsers ignore the white space at their ends.
  std::string section_begin = {};  // around all calls of an answer; may be empty
  std::string section_end = {};
  std::string call_begin = {};  // around each call, before its object or name; may be empty
  std::string call_end = {};
  std::string separator = {};  // between calls

  // kObject
  std::string name_key = "name";
  std::string arguments_key = "arguments";
  std::string id_key = {};  // empty: no id
  // kNamed and kTagged: between the name and the arguments
  std::string name_end = {};
  std::string id_end = {};  // where an id follows the name: between id and arguments
  bool name_in_id = false;  // the name is written as functions.NAME:INDEX (Kimi K2)
  bool numbered = false;    // what stands between name and id_end is the call's number (Kimi K3)
  ArgumentForm arguments = ArgumentForm::kJson;
  std::string quote = {};
  // kTagged: KEY between parameter_begin and key_end, then its value up to value_end.
  // kElements: the same, then KEY and key_end once more.
  std::string parameter_begin = {};
  std::string key_end = {};
  std::string value_end = {};
  // kTagged: the word in key_end that says that the value is a text. Other values have another.
  std::string type_word = {};

  // The marks around thoughts, from the template; if it renders no thoughts, the usual marks.
  bool thinks = false;
  std::string think_begin = "<think>";
  std::string think_end = "</think>";

  // The marks that a model writes around content, and at the end of an answer; mostly empty.
  std::string content_begin = {};
  std::string content_end = {};
  std::string answer_end = {};

  // Every mark that a special token may spell; the tokens are then not hidden from the parser.
  std::vector<std::string> marks() const;
  // The texts that begin calls in an answer. For a mark that contains white space: its first word,
  // because models vary the space; also its last word if that is a tag, because models omit the tag
  // around it.
  std::vector<std::string> call_triggers() const;
  // The last word of call_begin, where it is a tag within another: "<function=" in Qwen3-Coder's.
  std::string inner_begin() const;
};

// Renders probes of the template. A template that refuses them all gets the generic form.
ChatSyntax find_chat_syntax(const ChatTemplate& chat_template);

// For a template that renders no tools: describes the tools in the system message, and writes calls
// and results as text. Other messages stay unchanged.
void describe_tools(const ChatSyntax& syntax, ChatTemplateInput& input);

}  // namespace hearth::model
