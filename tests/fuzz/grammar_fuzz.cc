// The encoded form of a grammar, as it comes from a peer: whatever is read is canonical, and no
// text of it runs into a state without a next byte.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "model/grammar/grammar.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;  // NOLINT
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto grammar = model::Grammar::parse(bytes);
  if (!grammar.ok()) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  if (!std::ranges::equal((*grammar)->bytes(), bytes)) std::abort();
  model::walk_grammar(**grammar, size);
  return 0;
}
