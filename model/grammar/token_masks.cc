#include "model/grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::model {
namespace {

using StackFrame = GrammarState::Frame;

// Of a walk's states: their stacks one after the other, with where each ends, or a byte's outcome.
struct Stacks {
  std::vector<StackFrame> frames;
  std::vector<std::uint32_t> ends;
  friend auto operator<=>(const Stacks&, const Stacks&) = default;
};

constexpr std::int32_t kNotStepped = -1;
constexpr std::int32_t kDead = -2;
constexpr std::int32_t kBelow = -3;  // the byte leaves the frames that are known
constexpr std::size_t kWalkStates = 8'192;
// Where frames are left out, stacks that differ in them count as one. So far from the limits, the
// whole stacks keep them as well.
constexpr std::size_t kCutStacks = 4;
constexpr std::size_t kCutRoom = limits::kGrammarStacks / kCutStacks;
constexpr std::size_t kCutVisits = limits::kGrammarVisits / kCutStacks;
static_assert(kCutStacks * kCutRoom <= limits::kGrammarStacks);

bool has_cut(const Stacks& stacks) {
  std::size_t begin = 0;
  for (const std::uint32_t end : stacks.ends) {
    if (stacks.frames[begin] == GrammarStep::kCut) return true;
    begin = end;
  }
  return false;
}

}  // namespace

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::build(const Tokenizer& tokenizer) {
  std::vector<std::string> texts(tokenizer.vocabulary());
  for (std::uint32_t i = 0; i < texts.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (!tokenizer.is_special(token)) texts[i] = tokenizer.token_bytes(token, false);
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
  std::vector<TokenId> order(out->texts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return out->text(a) < out->text(b); });
  std::vector<std::uint32_t> path;  // the nodes of the text before
  std::string before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      out->nodes_[path.back()].end = static_cast<std::uint32_t>(out->nodes_.size());
    }
  };
  for (const TokenId token : order) {
    const std::string& text = out->text(token);
    if (text.empty() || out->is_end(token)) continue;
    const auto split = std::mismatch(text.begin(), text.end(), before.begin(), before.end());
    close(static_cast<std::size_t>(split.first - text.begin()));
    for (std::size_t i = path.size(); i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(out->nodes_.size()));
      out->nodes_.push_back(
          {0, static_cast<std::uint32_t>(out->tokens_.size()), static_cast<std::uint8_t>(text[i])});
    }
    out->tokens_.push_back(token);
    out->longest_ = std::max(out->longest_, text.size());
    before = text;
  }
  close(0);
  out->nodes_.push_back({0, static_cast<std::uint32_t>(out->tokens_.size()), 0});
  return out;
}

bool GrammarVocabulary::is_end(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

struct TokenMasks::Cache {
  struct Entry {
    // Nothing: the frames of the key do not suffice.
    std::shared_ptr<const TokenMask> inside;
    std::shared_ptr<const TokenMask> with_end;
    std::uint32_t deepest = 0;
  };
  struct Walked {
    Stacks stacks;
    std::array<std::int32_t, 256> next;
    std::uint32_t deepest = 0;  // of the steps from here
    bool cut = false;
  };

  Cache(const Grammar& of, const GrammarVocabulary& over)
      : grammar(of), vocabulary(over), step(of, limits::kGrammarDepth) {}

  // The first frames from the top of each stack, at most so many.
  Stacks top_of(const GrammarState& state, std::size_t frames) const;
  StackFrame alike(StackFrame frame) const;
  Entry walk(const Stacks& from);
  std::uint32_t number_of(Stacks stacks);
  std::int32_t step_from(std::uint32_t state, std::uint8_t byte);
  TokenMask empty_mask() const { return TokenMask((vocabulary.size() + 63) / 64); }
  void add_end_tokens(TokenMask& mask) const {
    for (const TokenId token : vocabulary.end_tokens()) set(mask, token);
  }
  static void set(TokenMask& mask, TokenId token) {
    mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }

  const Grammar& grammar;
  const GrammarVocabulary& vocabulary;
  GrammarStep step;
  std::map<Stacks, std::uint32_t> numbers;
  std::vector<std::unique_ptr<Walked>> walked;
  std::map<Stacks, Entry> entries;
  std::size_t bytes = 0;  // of the entries' masks
  std::shared_ptr<const TokenMask> ended;
};

// A repeat whose bounds no single token reaches is like others.
StackFrame TokenMasks::Cache::alike(StackFrame frame) const {
  const Grammar::CallEdge& edge = grammar.call_edges()[frame.at];
  if (grammar.states()[edge.start].empty) return frame;
  const std::uint64_t reach = vocabulary.longest() + 2;
  const std::uint32_t least = std::max<std::uint32_t>(edge.min, 1);
  if (frame.count + reach < edge.min) {
    frame.count = 1;
  } else if (frame.count >= edge.min && frame.count + reach < edge.max) {
    frame.count = std::min(frame.count, least);
  }
  return frame;
}

Stacks TokenMasks::Cache::top_of(const GrammarState& state, std::size_t frames) const {
  Stacks out;
  for (std::size_t i = 0; i < state.stacks(); ++i) {
    const auto stack = state.stack(i);
    const std::size_t skipped = stack.size() > frames ? stack.size() - frames : 0;
    if (skipped > 0) out.frames.push_back(GrammarStep::kCut);
    for (const StackFrame& frame : stack.subspan(skipped)) {
      out.frames.push_back(&frame == &stack.back() ? frame : alike(frame));
    }
    out.ends.push_back(static_cast<std::uint32_t>(out.frames.size()));
  }
  return out;
}

std::uint32_t TokenMasks::Cache::number_of(Stacks stacks) {
  const auto [found, added] =
      numbers.try_emplace(std::move(stacks), static_cast<std::uint32_t>(walked.size()));
  if (added) {
    auto one = std::make_unique<Walked>();
    one->stacks = found->first;
    one->next.fill(kNotStepped);
    one->cut = has_cut(one->stacks);
    walked.push_back(std::move(one));
  }
  return found->second;
}

std::int32_t TokenMasks::Cache::step_from(std::uint32_t state, std::uint8_t byte) {
  Walked& from = *walked[state];
  step.clear();
  std::size_t begin = 0;
  for (const std::uint32_t end : from.stacks.ends) {
    step.read(std::span(from.stacks.frames).subspan(begin, end - begin), byte);
    begin = end;
  }
  from.deepest = std::max(from.deepest, step.deepest());
  const bool crowded = from.cut && (step.ends().size() > kCutRoom || step.visits() > kCutVisits);
  std::int32_t to = kDead;
  if (step.reached_cut() || crowded) {
    to = kBelow;
  } else if (!step.ends().empty() || step.may_end()) {
    to = static_cast<std::int32_t>(number_of({step.frames(), step.ends()}));
  }
  walked[state]->next[byte] = to;
  return to;
}

// Follows the tree of the vocabulary's texts.
TokenMasks::Cache::Entry TokenMasks::Cache::walk(const Stacks& from) {
  struct Open {
    std::uint32_t end;
    std::uint32_t state;
  };
  Entry out;
  TokenMask mask = empty_mask();
  const auto& nodes = vocabulary.nodes();
  const auto count = static_cast<std::uint32_t>(nodes.size() - 1);
  if (walked.size() > kWalkStates) {
    numbers.clear();
    walked.clear();
  }
  std::vector<Open> path{{count, number_of(from)}};
  for (std::uint32_t at = 0; at < count;) {
    while (path.back().end <= at) path.pop_back();
    const std::uint32_t state = path.back().state;
    std::int32_t to = walked[state]->next[nodes[at].byte];
    if (to == kNotStepped) {
      to = step_from(state, nodes[at].byte);
      if (walked.size() > 2 * kWalkStates) {
        // What lies on the path is all that is still needed.
        std::vector<Stacks> kept;
        for (const Open& open : path) kept.push_back(walked[open.state]->stacks);
        Stacks reached;
        if (to >= 0) reached = walked[static_cast<std::size_t>(to)]->stacks;
        for (const auto& one : walked) out.deepest = std::max(out.deepest, one->deepest);
        numbers.clear();
        walked.clear();
        for (std::size_t i = 0; i < path.size(); ++i) path[i].state = number_of(std::move(kept[i]));
        if (to >= 0) to = static_cast<std::int32_t>(number_of(std::move(reached)));
      }
    }
    if (to == kBelow) return {};
    out.deepest = std::max(out.deepest, walked[path.back().state]->deepest);
    if (to == kDead) {
      at = nodes[at].end;
      continue;
    }
    for (std::uint32_t i = nodes[at].tokens; i < nodes[at + 1].tokens; ++i) {
      set(mask, vocabulary.tokens()[i]);
    }
    path.push_back({nodes[at].end, static_cast<std::uint32_t>(to)});
    ++at;
  }
  out.inside = std::make_shared<const TokenMask>(std::move(mask));
  return out;
}

TokenMasks::TokenMasks(std::shared_ptr<const Grammar> grammar,
                       std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {
  INVARIANT(grammar_ != nullptr && vocabulary_ != nullptr, "masks are of a grammar and its tokens");
  cache_ = std::make_unique<Cache>(*grammar_, *vocabulary_);
  TokenMask ended = cache_->empty_mask();
  cache_->add_end_tokens(ended);
  cache_->ended = std::make_shared<const TokenMask>(std::move(ended));
}

TokenMasks::~TokenMasks() = default;

void TokenMasks::accept(TokenState& state, TokenId token) const {
  if (state.over) return;
  const bool known = token >= 0 && static_cast<std::size_t>(token) < vocabulary_->size();
  const bool plain = known && !vocabulary_->is_end(token) && !vocabulary_->text(token).empty();
  state.over = !plain || !state.text.accept(vocabulary_->text(token));
}

std::shared_ptr<const TokenMask> TokenMasks::mask(const TokenState& state) {
  const MutexLock lock(mutex_);
  Cache& cache = *cache_;
  if (state.over || !state.text.can_go_on()) return cache.ended;
  std::size_t deepest = 0;
  for (std::size_t i = 0; i < state.text.stacks(); ++i) {
    deepest = std::max(deepest, state.text.stack(i).size());
  }
  Cache::Entry* entry = nullptr;
  for (std::size_t frames = state.text.stacks() <= kCutStacks ? 2 : deepest; entry == nullptr;
       frames *= 2) {
    const bool whole = frames >= deepest;
    Stacks key = cache.top_of(state.text, frames);
    auto found = cache.entries.find(key);
    if (found == cache.entries.end()) {
      if (cache.bytes > limits::kGrammarMaskBytes) {
        cache.entries.clear();
        cache.bytes = 0;
      }
      Cache::Entry made = cache.walk(key);
      cache.bytes += 2 * 8 * cache.ended->size();
      found = cache.entries.emplace(std::move(key), std::move(made)).first;
    }
    const std::size_t skipped = whole ? 0 : deepest - frames;
    const bool fits = found->second.deepest + skipped <= limits::kGrammarDepth || whole;
    if (found->second.inside != nullptr && fits) entry = &found->second;
    INVARIANT(entry != nullptr || !whole, "whole stacks leave nothing open");
  }
  if (!state.text.may_end()) return entry->inside;
  if (entry->with_end == nullptr) {
    TokenMask with_end = *entry->inside;
    cache.add_end_tokens(with_end);
    entry->with_end = std::make_shared<const TokenMask>(std::move(with_end));
  }
  return entry->with_end;
}

std::optional<TokenId> TokenMasks::only(const TokenMask& mask) {
  std::optional<TokenId> token;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (token || std::popcount(mask[i]) > 1) return std::nullopt;
    token = static_cast<TokenId>(64 * i + static_cast<std::size_t>(std::countr_zero(mask[i])));
  }
  return token;
}

std::string TokenMasks::forced_bytes(const TokenState& state, std::size_t most) const {
  std::string out;
  GrammarState at = state.text;
  while (!state.over && out.size() < most && !at.may_end()) {
    std::optional<std::uint8_t> byte;
    for (std::size_t i = 0; i < at.stacks(); ++i) {
      const std::uint32_t top = at.stack(i).back().at;
      const std::uint32_t begin = grammar_->states()[top].bytes;
      const std::uint32_t end = grammar_->states()[top + 1].bytes;
      for (std::uint32_t e = begin; e < end; ++e) {
        const Grammar::ByteEdge& edge = grammar_->byte_edges()[e];
        if (edge.low != edge.high || (byte && *byte != edge.low)) return out;
        byte = edge.low;
      }
    }
    if (!byte || !at.accept(*byte)) return out;
    out += static_cast<char>(*byte);
  }
  return out;
}

}  // namespace hearth::model
