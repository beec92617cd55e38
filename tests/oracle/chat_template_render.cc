// Renders chat templates for the oracle test: JSON lines in (template, messages,
// add_generation_prompt, bos, eos, now), JSON lines out (pieces, or error and code).
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/chat_template.h"

namespace {

using json = nlohmann::ordered_json;
using namespace hearth;  // NOLINT

json render(const json& request) {
  json reply;
  const auto parsed = model::ChatTemplate::parse(request.at("template").get<std::string>());
  if (!parsed.ok()) {
    return {{"error", parsed.error().message}, {"code", error_code_name(parsed.error().code)}};
  }
  model::ChatTemplateInput input;
  for (const json& message : request.at("messages")) {
    model::ChatMessage& out = input.messages.emplace_back();
    out.role = message.at("role");
    out.content = message.at("content");
    out.name = message.value("name", "");
    out.tool_call_id = message.value("tool_call_id", "");
    for (const json& call : message.value("tool_calls", json::array())) {
      const json& function = call.at("function");
      const json& arguments = function.at("arguments");
      input.object_arguments = arguments.is_object();
      out.tool_calls.push_back(
          {call.at("id"), function.at("name"),
           arguments.is_string() ? arguments.get<std::string>() : arguments.dump()});
    }
  }
  for (const json& tool : request.value("tools", json::array())) {
    input.tools.emplace_back().text = tool.dump();
  }
  const json variables = request.value("variables", json::object());
  for (const auto& [name, value] : variables.items()) {
    input.variables.emplace_back(name, value.dump());
  }
  input.add_generation_prompt = request.at("add_generation_prompt");
  input.bos_token = request.at("bos");
  input.eos_token = request.at("eos");
  input.unix_seconds = request.at("now").get<std::int64_t>();
  const auto pieces = parsed.value()->render(input);
  if (!pieces.ok()) {
    return {{"error", pieces.error().message}, {"code", error_code_name(pieces.error().code)}};
  }
  reply["pieces"] = json::array();
  for (const model::PromptPiece& piece : pieces.value()) {
    reply["pieces"].push_back(json::array({piece.text, piece.from_user}));
  }
  return reply;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << render(json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace)
              << '\n'
              << std::flush;
  }
  return 0;
}
