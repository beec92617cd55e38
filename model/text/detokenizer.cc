#include <utility>

#include "base/check.h"
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"

namespace hearth::model {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool show_special)
    : tokenizer_(std::move(tokenizer)), show_special_(show_special) {}

std::string Detokenizer::push(TokenId token) {
  const std::string bytes = tokenizer_->token_bytes(token, show_special_, first_);
  // Tokens without text, such as BOS, leave the first space to the first token with text.
  if (first_ && !tokenizer_->is_special(token)) first_ = false;
  held_ += bytes;
  std::string text;
  std::size_t at = 0;
  while (at < held_.size()) {
    const Utf8Char c = decode_utf8(held_, at);
    if (c.cut) break;
    text += c.valid ? std::string_view(held_).substr(at, c.bytes) : kReplacementUtf8;
    at += c.bytes;
  }
  held_.erase(0, at);
  INVARIANT(held_.size() < 4, "only the beginning of one character is held");
  return text;
}

std::string Detokenizer::finish() {
  // The held bytes are the beginning of one character that will not be completed.
  const bool broken = !held_.empty();
  held_.clear();
  first_ = true;
  return broken ? std::string(kReplacementUtf8) : std::string();
}

}  // namespace hearth::model
