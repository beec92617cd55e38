#include "model/same_vocabulary.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

using Texts = std::span<const std::string_view>;

Result<Texts> token_texts(const GgufFile& file) {
  const GgufValue* value = file.find("tokenizer.ggml.tokens");
  const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  const auto* texts =
      array == nullptr ? nullptr : std::get_if<std::vector<std::string_view>>(&array->items);
  REQUIRE(
      texts != nullptr, file.path(),
      ": key 'tokenizer.ggml.tokens' must be an array of strings: drafts need the vocabularies of "
      "both models");
  return Texts(*texts);
}

std::string text_at(Texts texts, std::size_t at) {
  return at < texts.size() ? quote(texts[at]) : "missing";
}

}  // namespace

Status check_same_vocabulary(const GgufFile& draft, const GgufFile& target) {
  TRY(const Texts ours, token_texts(draft));
  TRY(const Texts theirs, token_texts(target));
  const auto [mine, other] = std::ranges::mismatch(ours, theirs);
  if (mine == ours.end() && other == theirs.end()) return ok_status();
  const auto at = static_cast<std::size_t>(mine - ours.begin());
  return Error::invalid("the draft model ", draft.path(), " has another vocabulary than ",
                        target.path(), ": token ", at, " is ", text_at(ours, at), " of ",
                        ours.size(), " in the draft model and ", text_at(theirs, at), " of ",
                        theirs.size(),
                        " in the model; give a draft model of the same tokenizer, or omit --draft");
}

}  // namespace hearth::model
