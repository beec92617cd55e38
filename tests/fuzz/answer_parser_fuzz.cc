// A hostile answer in every syntax: the first byte picks the syntax, the second how it is cut.
// Whatever comes, the cuts change nothing, arguments are JSON objects, and nothing is told twice.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/parser.h"

namespace {

using namespace hearth::model;  // NOLINT

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<ChatSyntax> syntaxes() {
  std::vector<ChatSyntax> out(10);
  out[0].call_begin = "<tool_call>\n";
  out[0].call_end = "\n</tool_call>";
  out[1].name_key = "name";
  out[1].arguments_key = "parameters";
  out[2].section_begin = "[TOOL_CALLS][";
  out[2].section_end = "]";
  out[2].id_key = "id";
  out[3].form = CallForm::kNamed;
  out[3].call_begin = "[TOOL_CALLS]";
  out[3].name_end = "[CALL_ID]";
  out[3].id_end = "[ARGS]";
  out[4].form = CallForm::kTagged;
  out[4].call_begin = "<tool_call>\n<function=";
  out[4].name_end = ">\n";
  out[4].parameter_begin = "<parameter=";
  out[4].key_end = ">\n";
  out[4].value_end = "\n</parameter>\n";
  out[4].call_end = "</function>\n</tool_call>";
  out[5].form = CallForm::kNamed;
  out[5].arguments = ArgumentForm::kPython;
  out[6].form = CallForm::kNamed;
  out[6].arguments = ArgumentForm::kQuoted;
  out[6].quote = "<|\"|>";
  out[6].call_begin = "<|tool_call>call:";
  out[6].call_end = "<tool_call|>";
  out[7].form = CallForm::kHarmony;
  out[8].form = CallForm::kElements;
  out[8].section_begin = "[<calls>\n";
  out[8].section_end = "[</calls>";
  out[8].call_begin = "[<call name=\"";
  out[8].name_end = "\">";
  out[8].parameter_begin = "[<";
  out[8].key_end = ">";
  out[8].value_end = "[</";
  out[8].call_end = "[</call>\n";
  out[9].form = CallForm::kTagged;
  out[9].section_begin = "<|open|>tools<|sep|>";
  out[9].section_end = "<|close|>tools<|sep|>";
  out[9].call_begin = "<|open|>call tool=\"";
  out[9].name_end = "\" index=\"";
  out[9].id_end = "\"<|sep|>";
  out[9].numbered = true;
  out[9].parameter_begin = "<|open|>argument key=\"";
  out[9].key_end = "\" type=\"string\"<|sep|>";
  out[9].type_word = "string";
  out[9].value_end = "<|close|>argument<|sep|>";
  out[9].call_end = "<|close|>call<|sep|>";
  out[9].content_begin = "<|open|>response<|sep|>";
  out[9].content_end = "<|close|>response<|sep|>";
  out[9].answer_end = "<|close|>message<|sep|>";
  return out;
}

std::string parse(const ChatSyntax& syntax, std::string_view text, std::size_t piece) {
  AnswerRules rules;
  for (const char* name : {"f", "g"}) {
    rules.tools.emplace_back().name = name;
    rules.tools.back().parameters = R"({"properties":{"a":{"type":"string"}}})";
  }
  AnswerParser parser(std::make_shared<ChatSyntax>(syntax), std::move(rules));
  std::string content;
  std::string reasoning;
  std::string calls;
  const auto add = [&](const AnswerPart& part) {
    content += part.content;
    reasoning += part.reasoning;
    for (const ChatToolCall& call : part.calls) {
      require(!call.name.empty() && read_literal_object(call.arguments, '{', '}').has_value());
      calls += call.name + '\n' + call.id + '\n' + call.arguments + '\n';
    }
  };
  for (std::size_t at = 0; at < text.size(); at += piece) add(parser.push(text.substr(at, piece)));
  add(parser.finish());
  require(content.size() + reasoning.size() <= text.size());
  return content + '\1' + reasoning + '\1' + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<ChatSyntax> kSyntaxes = syntaxes();
  if (size < 2) return 0;
  const ChatSyntax& syntax = kSyntaxes[data[0] % kSyntaxes.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = parse(syntax, text, text.size() + 1);
  require(parse(syntax, text, 1) == whole);
  require(parse(syntax, text, 1 + data[1]) == whole);
  return 0;
}
