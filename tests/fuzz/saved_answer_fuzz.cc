// Any bytes as a saved answer, with or without its request beside it: what has all that receipts
// are computed again from, or a refusal that says why.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "coordinator/client/saved_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  for (const std::string_view request : {"", "{\"prompt\":\"a\"}"}) {
    const auto read = client::read_saved_answer(text, request);
    if (!read.ok()) {
      INVARIANT(!read.error().message.empty(), "a refusal says why");
      continue;
    }
    INVARIANT(!read->request.empty() && !read->receipt.empty() && read->max_tokens > 0,
              "what is read is whole");
    INVARIANT(!read->choices.empty() && read->choices.rbegin()->first < client::kSavedChoices,
              "choices are as receipts number them");
    for (const auto& [index, choice] : read->choices) {
      if (!choice.token_ids) continue;
      for (const TokenId id : *choice.token_ids) INVARIANT(id >= 0, "a token is an id");
    }
  }
  return 0;
}
