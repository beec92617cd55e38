// Renders chat templates for the oracle test: JSON lines in (template, messages,
// add_generation_prompt, bos, eos, now), JSON lines out (pieces, or error and code).
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/chat_template.h"

namespace {

using nlohmann::json;
using namespace hearth;  // NOLINT

json render(const json& request) {
  json reply;
  const auto parsed = model::ChatTemplate::parse(request.at("template").get<std::string>());
  if (!parsed.ok()) {
    return {{"error", parsed.error().message}, {"code", error_code_name(parsed.error().code)}};
  }
  model::ChatTemplateInput input;
  for (const json& message : request.at("messages")) {
    input.messages.push_back({message.at("role"), message.at("content")});
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
