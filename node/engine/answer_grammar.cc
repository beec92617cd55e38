#include "node/engine/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/text/tokenizer.h"

namespace hearth::node {
namespace {

constexpr std::size_t kForcedBytes = 8;  // of a token, for as far as forced text is looked up

}  // namespace

Result<std::shared_ptr<const model::GrammarVocabulary>> read_vocabulary(
    const model::GgufFile& file) {
  auto tokenizer = model::Tokenizer::load(file);
  if (!tokenizer.ok()) {
    return Error::of(ErrorCode::kUnsupported,
                     "a grammar needs the model's tokenizer: ", tokenizer.error().message);
  }
  return model::GrammarVocabulary::build(**tokenizer);
}

Result<std::shared_ptr<model::TokenMasks>> GrammarStore::masks_of(ByteSpan grammar) {
  const Hash256 hash = blake2b(grammar);
  const auto found = std::ranges::find(kept_, hash, &Kept::hash);
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    return kept_.back().masks;
  }
  TRY(auto parsed, model::Grammar::parse(grammar));
  if (vocabulary_ == nullptr) {
    TRY(vocabulary_, reader_ != nullptr ? reader_->get() : read_vocabulary(file_));
  }
  if (kept_.size() == kKept) kept_.erase(kept_.begin());
  kept_.push_back({hash, std::make_shared<model::TokenMasks>(std::move(parsed), vocabulary_)});
  return kept_.back().masks;
}

AnswerGrammar::AnswerGrammar(std::shared_ptr<model::TokenMasks> masks)
    : masks_(std::move(masks)), state_(masks_->start()), marks_{Mark{0, state_}, Mark{0, state_}} {}

void AnswerGrammar::add(TokenId token) {
  masks_->accept(state_, token);
  tokens_.push_back(token);
  if (tokens_.size() % kStride != 0) return;
  marks_[0] = std::move(marks_[1]);
  marks_[1] = {tokens_.size(), state_};
}

std::vector<TokenId> AnswerGrammar::forced(model::TokenState state, TokenId drawn,
                                           std::size_t most) const {
  std::vector<TokenId> out;
  masks_->accept(state, drawn);
  const model::GrammarVocabulary& vocabulary = masks_->vocabulary();
  const std::string bytes = masks_->forced_bytes(state, most * kForcedBytes);
  for (std::string_view rest = bytes; !rest.empty() && out.size() < most;) {
    const std::optional<TokenId> token = vocabulary.longest_beginning(rest);
    if (!token) return out;
    out.push_back(*token);
    rest.remove_prefix(vocabulary.text(*token).size());
  }
  if (!out.empty()) return out;
  // The next step needs this mask anyway.
  const std::optional<TokenId> only = model::TokenMasks::only(*masks_->mask(state));
  if (only && !vocabulary.is_end(*only)) out.push_back(*only);
  return out;
}

void AnswerGrammar::keep(std::size_t count) {
  if (count >= tokens_.size()) return;
  const std::vector<TokenId> kept(tokens_.begin(),
                                  tokens_.begin() + static_cast<std::ptrdiff_t>(count));
  if (marks_[1].tokens > count) marks_[1] = marks_[0];
  if (marks_[1].tokens > count) marks_[1] = {0, masks_->start()};
  if (marks_[0].tokens > marks_[1].tokens) marks_[0] = {0, masks_->start()};
  const std::size_t from = marks_[1].tokens;
  INVARIANT(from <= count, "a mark stands ahead of what is kept");
  state_ = marks_[1].state;
  tokens_.assign(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(from));
  for (std::size_t i = from; i < count; ++i) add(kept[i]);
}

}  // namespace hearth::node
