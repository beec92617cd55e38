// Runs grammars for the oracle beside it. Each line of stdin is an object: `kind` (schema, object,
// gbnf, regex, choice; control: `text` is the id of the control token), `text`, and `cases`, a list
// of texts. The line of stdout that answers it has `error` with its `code`, or `bytes` of the
// compiled form and for each case whether it is a text of the grammar.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/hex.h"
#include "model/grammar/grammar.h"
#include "model/grammar/grammar_state.h"

using hearth::model::GrammarBuilder;
using hearth::model::GrammarSource;
using hearth::model::GrammarState;

namespace {

// "a", the control token once or twice, "b".
auto control_grammar(hearth::TokenId token) {
  GrammarBuilder g;
  return g.build(g.sequence({g.literal("a"), g.repeat(g.control(token), 1, 2), g.literal("b")}));
}

}  // namespace

int main() {
  const std::map<std::string, GrammarSource::Kind> kinds{
      {"schema", GrammarSource::Kind::kJsonSchema},
      {"object", GrammarSource::Kind::kJsonObject},
      {"gbnf", GrammarSource::Kind::kGbnf},
      {"regex", GrammarSource::Kind::kRegex},
      {"choice", GrammarSource::Kind::kChoice}};
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = nlohmann::json::parse(line);
    const auto kind = request.at("kind").get<std::string>();
    const auto text = request.at("text").get<std::string>();
    nlohmann::json answer;
    const auto grammar = kind == "control" ? control_grammar(std::stoi(text))
                                           : hearth::model::compile_grammar({kinds.at(kind), text});
    if (!grammar.ok()) {
      answer["error"] = grammar.error().message;
      answer["code"] = hearth::error_code_name(grammar.error().code);
    } else {
      answer["bytes"] = hearth::to_hex((*grammar)->bytes());
      answer["accepted"] = nlohmann::json::array();
      for (const auto& one : request.at("cases")) {
        GrammarState state(**grammar);
        const bool read = state.accept(one.get<std::string>());
        answer["accepted"].push_back(read && state.may_end());
      }
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
