// Runs answers of models through our chat syntaxes for the oracle beside it. Each line of stdin is
// an object: `template`, `messages`, `tools` (OpenAI's form), `required`, `parallel_calls`,
// `variables`, `add_generation_prompt`, `continue_final_message`, `separate_reasoning`, `schema`
// (of the content, or null), `partial` and `answer`, the text of a model. The line of stdout that
// answers it has `content`, `reasoning` and `calls`, as they come when the text comes byte by byte,
// `tail` of the prompt, and `grammar`: whether the answer is a text of its grammar, or why there is
// none.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/limits.h"
#include "model/chat/call_grammar.h"
#include "model/chat/parser.h"
#include "model/grammar/grammar_state.h"

namespace {

using json = nlohmann::ordered_json;
using namespace hearth;         // NOLINT
using namespace hearth::model;  // NOLINT

json failed(const char* where, const Error& error) {
  return {{"error", std::string(where) + ": " + error.message}};
}

ChatMessage message_of(const json& from) {
  ChatMessage out{from.at("role"), from.at("content")};
  out.name = from.at("name");
  out.tool_call_id = from.at("tool_call_id");
  out.reasoning = from.at("reasoning");
  for (const json& call : from.at("calls")) {
    out.tool_calls.push_back({call.at("id"), call.at("name"), call.at("arguments")});
  }
  return out;
}

ChatTool tool_of(const json& from) {
  const json& function = from.at("function");
  return {function.at("name"), function.at("description"), function.at("parameters").dump(), false,
          from.dump()};
}

// As the API makes its input of a request.
ChatTemplateInput input_of(const json& request) {
  ChatTemplateInput input;
  for (const json& each : request.at("messages")) input.messages.push_back(message_of(each));
  for (const json& each : request.at("tools")) input.tools.push_back(tool_of(each));
  for (const auto& [name, value] : request.at("variables").items()) {
    input.variables.emplace_back(name, value.dump());
  }
  input.add_generation_prompt = request.at("add_generation_prompt");
  input.continue_final_message = request.at("continue_final_message");
  input.unix_seconds = 1'700'000'000;
  return input;
}

std::string tail_of(const std::vector<PromptPiece>& pieces, bool continued) {
  std::string text = pieces.empty() ? "" : pieces.back().text;
  if (!pieces.empty() && pieces.back().from_user) {
    if (!continued) return {};
    if (pieces.size() > 1) text.insert(0, pieces[pieces.size() - 2].text);
  }
  return text.substr(text.size() - std::min(text.size(), limits::kPromptTailBytes));
}

void add_part(const AnswerPart& part, json& reply) {
  reply["content"] = reply["content"].get<std::string>() + part.content;
  reply["reasoning"] = reply["reasoning"].get<std::string>() + part.reasoning;
  for (const ChatToolCall& call : part.calls) {
    reply["calls"].push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
}

json grammar_of(const json& request, const ChatSyntax& syntax, const std::vector<ChatTool>& tools,
                const std::string& tail) {
  AnswerConstraint asked{.tools = tools,
                         .calls_required = request.at("required"),
                         .parallel_calls = request.at("parallel_calls"),
                         .prompt_tail = tail};
  if (!request.at("schema").is_null()) {
    asked.content = GrammarSource{GrammarSource::Kind::kJsonSchema, request.at("schema")};
  }
  if (tools.empty() && !asked.content) return nullptr;
  const auto grammar = answer_grammar(syntax, asked);
  if (!grammar.ok()) return grammar.error().message;
  GrammarState state(**grammar);
  const std::string answer = request.at("answer");
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (!state.accept(answer.substr(i, 1))) return "stops at byte " + std::to_string(i);
  }
  return state.may_end() ? json(true) : json("expects more");
}

json run(const json& request) {
  const auto parsed = ChatTemplate::parse(request.at("template").get<std::string>());
  if (!parsed.ok()) return failed("template", parsed.error());
  const auto syntax = std::make_shared<const ChatSyntax>(find_chat_syntax(**parsed));
  ChatTemplateInput input = input_of(request);
  AnswerRules rules{.tools = input.tools,
                    .parallel_calls = request.at("parallel_calls"),
                    .separate_reasoning = request.at("separate_reasoning")};
  input.object_arguments = syntax->object_arguments;
  describe_tools(*syntax, input);
  const auto pieces = (*parsed)->render(input);
  if (!pieces.ok()) return failed("prompt", pieces.error());
  rules.prompt_tail = tail_of(*pieces, input.continue_final_message);
  json reply = {{"content", ""}, {"reasoning", ""}, {"calls", json::array()}};
  reply["tail"] = rules.prompt_tail;
  reply["grammar"] = grammar_of(request, *syntax, rules.tools, rules.prompt_tail);
  AnswerParser parser(syntax, std::move(rules));
  const std::string answer = request.at("answer");
  for (std::size_t i = 0; i < answer.size(); ++i) add_part(parser.push(answer.substr(i, 1)), reply);
  if (!request.at("partial").get<bool>()) add_part(parser.finish(), reply);
  return reply;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << run(json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}
