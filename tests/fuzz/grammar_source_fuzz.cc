// A hostile schema, GBNF, regular expression or choice: the first byte says which. Whatever it is,
// compiling ends, within the limits, in an error of a person's words or in a grammar that works.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/limits.h"
#include "model/grammar/grammar.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;  // NOLINT
  using Kind = model::GrammarSource::Kind;
  if (size == 0) return 0;
  model::GrammarSource source;
  switch (data[0]) {
    case 's': source.kind = Kind::kJsonSchema; break;
    case 'g': source.kind = Kind::kGbnf; break;
    case 'r': source.kind = Kind::kRegex; break;
    case 'c': source.kind = Kind::kChoice; break;
    default: return 0;
  }
  source.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = model::compile_grammar(source);
  if (!grammar.ok()) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  if ((*grammar)->bytes().size() > limits::kGrammarBytes) std::abort();
  const auto again = model::Grammar::parse((*grammar)->bytes());
  if (!again.ok() || (*again)->hash() != (*grammar)->hash()) std::abort();
  model::walk_grammar(**grammar, size);
  return 0;
}
