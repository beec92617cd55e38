#include "model/grammar/grammar_vocabulary.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "model/grammar/grammar.h"

namespace hearth::model {

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::build(const Tokenizer& tokenizer) {
  std::vector<std::string> texts(tokenizer.vocabulary());
  for (std::uint32_t i = 0; i < texts.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (tokenizer.is_special(token)) {
      texts[i] = control_token_bytes(token);
      continue;
    }
    texts[i] = tokenizer.token_bytes(token, false);
    // No byte of a text may begin the name of a control token.
    if (texts[i].find(static_cast<char>(kControlByte)) != std::string::npos) texts[i].clear();
  }
  return build(std::move(texts), tokenizer.end_tokens());
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::build(std::vector<std::string> texts,
                                                                  std::vector<TokenId> end_tokens) {
  auto out = std::make_shared<GrammarVocabulary>();
  out->texts_ = std::move(texts);
  for (const TokenId token : end_tokens) {
    const bool known = token >= 0 && static_cast<std::size_t>(token) < out->texts_.size();
    if (known) out->end_tokens_.push_back(token);
  }
  std::sort(out->end_tokens_.begin(), out->end_tokens_.end());
  for (const std::string& text : out->texts_) {
    INVARIANT(text.size() <= limits::kTokenBytes, "a tokenizer has read short texts only");
  }
  std::vector<TokenId> order(out->texts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return out->text(a) < out->text(b); });
  std::vector<std::uint32_t> path;  // the nodes of the text before
  std::string before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      Node& closed = out->nodes_[path.back()];
      closed.end = static_cast<std::uint32_t>(out->nodes_.size());
      if (path.size() == 1) continue;
      Node& parent = out->nodes_[path[path.size() - 2]];
      parent.reach = std::max(parent.reach, closed.reach);
    }
  };
  for (const TokenId token : order) {
    const std::string& text = out->text(token);
    if (text.empty() || out->is_end(token)) continue;
    const auto split = std::mismatch(text.begin(), text.end(), before.begin(), before.end());
    close(static_cast<std::size_t>(split.first - text.begin()));
    for (std::size_t i = path.size(); i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(out->nodes_.size()));
      const auto depth = static_cast<std::uint16_t>(i + 1);
      out->nodes_.push_back({0, static_cast<std::uint32_t>(out->tokens_.size()), depth, depth,
                             static_cast<std::uint8_t>(text[i]), 0});
    }
    out->tokens_.push_back(token);
    out->longest_ = std::max(out->longest_, text.size());
    before = text;
  }
  close(0);
  out->nodes_.push_back({0, static_cast<std::uint32_t>(out->tokens_.size()), 0, 0, 0, 0});
  out->find_runs();
  return out;
}

bool GrammarVocabulary::is_of(Run run, char32_t point) {
  const bool lower = 'a' <= point && point <= 'z';
  const bool word = lower || ('A' <= point && point <= 'Z') || ('0' <= point && point <= '9');
  switch (run) {
    case Run::kText: return point >= 0x20 && point != '"' && point != '\\';
    case Run::kWord: return word;
    case Run::kLower: return lower;
  }
  INVARIANT(false, "every kind of run has code points");
}

// A node is of a kind if its own texts and all nodes below it are.
void GrammarVocabulary::find_runs() {
  constexpr auto kEvery = static_cast<std::uint8_t>((1U << kRuns.size()) - 1);
  const std::size_t words = (texts_.size() + 63) / 64;
  for (auto& of_run : runs_) of_run.fill(TokenMask(words));
  std::vector<std::uint8_t> alike(tokens_.size(), kEvery);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& bytes = text(tokens_[i]);
    std::uint32_t points = 0;
    for (std::size_t at = 0; at < bytes.size() && alike[i] != 0; ++points) {
      const Utf8Char c = decode_utf8(bytes, at);
      for (std::size_t run = 0; run < kRuns.size(); ++run) {
        if (!c.valid || !is_of(kRuns[run], c.point)) alike[i] &= ~(1U << run);
      }
      at += std::max<std::uint32_t>(c.bytes, 1);
    }
    const auto token = static_cast<std::size_t>(tokens_[i]);
    for (std::size_t run = 0; run < kRuns.size(); ++run) {
      if ((alike[i] >> run & 1) == 0) continue;
      TokenMask& mask = runs_[run][std::min(points, kRunPoints + 1)];
      mask[token / 64] |= std::uint64_t{1} << (token % 64);
    }
  }
  for (auto& of_run : runs_) {
    for (std::size_t points = 1; points < of_run.size(); ++points) {
      for (std::size_t i = 0; i < words; ++i) of_run[points][i] |= of_run[points - 1][i];
    }
  }
  // From the last node backwards, because nodes below a node stand after it.
  for (std::size_t at = nodes_.size() - 1; at-- > 0;) {
    Node& node = nodes_[at];
    node.alike = kEvery;
    for (std::uint32_t i = node.tokens; i < nodes_[at + 1].tokens; ++i) node.alike &= alike[i];
    for (std::uint32_t child = static_cast<std::uint32_t>(at) + 1; child < node.end;
         child = nodes_[child].end) {
      node.alike &= nodes_[child].alike;
    }
  }
}

bool GrammarVocabulary::is_end(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

std::optional<TokenId> GrammarVocabulary::longest_beginning(std::string_view text) const {
  std::optional<TokenId> longest;
  std::uint32_t at = 0;
  auto end = static_cast<std::uint32_t>(nodes_.size() - 1);
  for (const char byte : text) {
    while (at < end && nodes_[at].byte != static_cast<std::uint8_t>(byte)) at = nodes_[at].end;
    if (at >= end) break;
    if (nodes_[at].tokens < nodes_[at + 1].tokens) longest = tokens_[nodes_[at].tokens];
    end = nodes_[at].end;
    ++at;
  }
  return longest;
}

}  // namespace hearth::model
