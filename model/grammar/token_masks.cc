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

// A count that is nearer to its bound than this is not taken for a far one.
constexpr std::uint32_t kNear = 9;

bool stands_for_several(const Stacks& stacks) {
  return std::ranges::any_of(stacks.frames, [](const StackFrame& frame) {
    return frame == GrammarStep::kCut || frame.count >= GrammarStep::kFarInside;
  });
}

}  // namespace

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
                             static_cast<std::uint8_t>(text[i])});
    }
    out->tokens_.push_back(token);
    out->longest_ = std::max(out->longest_, text.size());
    before = text;
  }
  close(0);
  out->nodes_.push_back({0, static_cast<std::uint32_t>(out->tokens_.size()), 0, 0, 0});
  return out;
}

bool GrammarVocabulary::is_end(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

struct TokenMasks::Cache {
  // What the upper frames of some stacks decide.
  struct Entry {
    std::shared_ptr<const TokenMask> inside;  // what surely may come
    std::shared_ptr<const TokenMask> with_end;
    // The nodes, in order, whose texts leave these frames: they and those below them are open.
    std::vector<std::uint32_t> open;
    std::uint32_t deepest = 0;  // the most frames that a decision needed
  };
  struct Walked {
    Stacks stacks;
    std::array<std::int32_t, 256> next;
    std::uint32_t deepest = 0;  // of the steps from here
    bool is_several = false;    // its stacks may stand for more
  };

  Cache(const Grammar& of, const GrammarVocabulary& over)
      : grammar(of), vocabulary(over), step(of, limits::kGrammarDepth) {}

  struct Top {
    Stacks stacks;
    // A text of so many bytes leaves no far count's range.
    std::uint32_t settled = 0xFFFFFFFF;
  };
  // The first frames from the top of each stack, at most so many. `far`: with far counts.
  Top top_of(const GrammarState& state, std::size_t frames, bool far) const;
  void set_far(StackFrame& frame, Top& top) const;
  // From `upper`, which has fewer frames of the same stacks, by `more`; null: from nothing.
  std::shared_ptr<Entry> decide(const Stacks& from, const Entry* upper, std::uint32_t more);
  // From one with far counts, where texts longer than `settled` are still to be decided.
  std::shared_ptr<Entry> decide_long(const Stacks& from, const Entry& far, std::uint32_t settled);
  std::uint32_t number_of(Stacks stacks);
  std::int32_t step_from(std::uint32_t state, std::uint8_t byte);
  std::shared_ptr<Entry> entry_of(const GrammarState& state);
  // The entry of a key, null where it is new. Where masks take too much memory, all others go.
  std::shared_ptr<Entry>& kept(const Stacks& key) {
    const auto found = entries.find(key);
    if (found != entries.end()) return found->second;
    if (bytes > limits::kGrammarMaskBytes) {
      entries.clear();
      bytes = 0;
    }
    return entries[key];
  }
  std::size_t mask_bytes() const { return (vocabulary.size() + 63) / 64 * sizeof(std::uint64_t); }
  std::size_t bytes_of(const Entry& entry) const {
    return mask_bytes() + entry.open.size() * sizeof(std::uint32_t);
  }
  TokenMask empty_mask() const { return TokenMask((vocabulary.size() + 63) / 64); }
  void add_end_tokens(TokenMask& mask) const {
    for (const TokenId token : vocabulary.end_tokens()) set(mask, token);
  }
  static void set(TokenMask& mask, TokenId token) {
    mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
  static void clear(TokenMask& mask, TokenId token) {
    mask[static_cast<std::size_t>(token) / 64] &= ~(std::uint64_t{1} << (token % 64));
  }

  const Grammar& grammar;
  const GrammarVocabulary& vocabulary;
  GrammarStep step;
  std::map<Stacks, std::uint32_t> numbers;
  std::vector<std::unique_ptr<Walked>> walked;
  std::map<Stacks, std::shared_ptr<Entry>> entries;
  std::size_t bytes = 0;  // of the entries
  std::shared_ptr<const TokenMask> ended;
};

// A repeat that no short text brings to a bound is like others. Each byte ends one repeat at most.
void TokenMasks::Cache::set_far(StackFrame& frame, Top& top) const {
  const Grammar::CallEdge& edge = grammar.call_edges()[frame.at];
  const bool below = frame.count < edge.min;
  if (grammar.states()[edge.start].empty || (!below && edge.max == Grammar::kNoLimit)) return;
  const std::uint32_t room = (below ? edge.min : edge.max) - frame.count;
  if (room < kNear) return;
  top.settled = std::min(top.settled, room - 3);
  frame.count = below ? GrammarStep::kFarBelow : GrammarStep::kFarInside;
}

TokenMasks::Cache::Top TokenMasks::Cache::top_of(const GrammarState& state, std::size_t frames,
                                                 bool far) const {
  Top out;
  Stacks& stacks = out.stacks;
  for (std::size_t i = 0; i < state.stacks(); ++i) {
    const auto stack = state.stack(i);
    const std::size_t skipped = stack.size() > frames ? stack.size() - frames : 0;
    if (skipped > 0) stacks.frames.push_back(GrammarStep::kCut);
    for (const StackFrame& frame : stack.subspan(skipped)) {
      stacks.frames.push_back(frame);
      if (far && &frame != &stack.back()) set_far(stacks.frames.back(), out);
    }
    stacks.ends.push_back(static_cast<std::uint32_t>(stacks.frames.size()));
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
    one->is_several = stands_for_several(one->stacks);
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
  const bool crowded =
      from.is_several && (step.ends().size() > kCutRoom || step.visits() > kCutVisits);
  std::int32_t to = kDead;
  if (step.reached_cut() || step.lost_count() || crowded) {
    to = kBelow;
  } else if (!step.ends().empty() || step.may_end()) {
    to = static_cast<std::int32_t>(number_of({step.frames(), step.ends()}));
  }
  walked[state]->next[byte] = to;
  return to;
}

// A walk over the tree of the vocabulary's texts, from some stacks.
class TokenMasks::Walk {
 public:
  Walk(Cache& cache, const Stacks& from) : cache_(cache) {
    if (cache_.walked.size() > kWalkStates) {
      cache_.numbers.clear();
      cache_.walked.clear();
    }
    path_.push_back({0, cache_.number_of(from)});
  }

  // The texts at the nodes from `begin` up to `end`, which stand below the path.
  void below(std::uint32_t begin, std::uint32_t end, TokenMask& mask) {
    const auto& nodes = cache_.vocabulary.nodes();
    const std::size_t root = path_.size();
    for (std::uint32_t at = begin; at < end;) {
      while (path_.size() > root && path_.back().end <= at) path_.pop_back();
      const std::int32_t to = next(nodes[at].byte);
      if (to == kBelow) open.push_back(at);
      if (to == kBelow || to == kDead) {
        at = nodes[at].end;
        continue;
      }
      accept(at, mask);
      path_.push_back({nodes[at].end, static_cast<std::uint32_t>(to)});
      ++at;
    }
    path_.resize(root);
  }

  // The same of one node and all below it.
  void at(std::uint32_t node, TokenMask& mask) {
    const std::string_view text = cache_.vocabulary.text_to(node);
    for (const char byte : text) {
      const std::int32_t to = next(static_cast<std::uint8_t>(byte));
      if (to < 0) {
        if (to == kBelow) open.push_back(node);
        path_.resize(1);
        return;
      }
      path_.push_back({0, static_cast<std::uint32_t>(to)});
    }
    accept(node, mask);
    below(node + 1, cache_.vocabulary.nodes()[node].end, mask);
    path_.resize(1);
  }

  // The texts that are longer than `settled`, of all; the mask has the others.
  void beyond(std::uint32_t settled, TokenMask& mask) {
    const auto& nodes = cache_.vocabulary.nodes();
    const auto count = static_cast<std::uint32_t>(nodes.size() - 1);
    for (std::uint32_t at = 0; at < count;) {
      while (path_.size() > 1 && path_.back().end <= at) path_.pop_back();
      if (nodes[at].reach <= settled) {
        at = nodes[at].end;
        continue;
      }
      const std::int32_t to = next(nodes[at].byte);
      if (to == kBelow) open.push_back(at);
      if (to == kBelow || to == kDead) {
        for (std::uint32_t i = nodes[at].tokens; i < nodes[nodes[at].end].tokens; ++i) {
          Cache::clear(mask, cache_.vocabulary.tokens()[i]);
        }
        at = nodes[at].end;
        continue;
      }
      accept(at, mask);
      path_.push_back({nodes[at].end, static_cast<std::uint32_t>(to)});
      ++at;
    }
    path_.resize(1);
  }

  std::vector<std::uint32_t> open;
  std::uint32_t deepest = 0;

 private:
  struct Step {
    std::uint32_t end;  // of the node's subtree
    std::uint32_t state;
  };

  void accept(std::uint32_t node, TokenMask& mask) {
    const auto& nodes = cache_.vocabulary.nodes();
    for (std::uint32_t i = nodes[node].tokens; i < nodes[node + 1].tokens; ++i) {
      Cache::set(mask, cache_.vocabulary.tokens()[i]);
    }
  }

  std::int32_t next(std::uint8_t byte) {
    auto& walked = cache_.walked;
    const std::uint32_t state = path_.back().state;
    std::int32_t to = walked[state]->next[byte];
    if (to == kNotStepped) {
      to = cache_.step_from(state, byte);
      if (walked.size() > 2 * kWalkStates) to = forget_but_path(to);
    }
    deepest = std::max(deepest, walked[path_.back().state]->deepest);
    return to;
  }

  // What lies on the path, and the state that was reached, are all that is still needed.
  std::int32_t forget_but_path(std::int32_t to) {
    auto& walked = cache_.walked;
    std::vector<Stacks> kept;
    for (const Step& step : path_) kept.push_back(walked[step.state]->stacks);
    Stacks reached;
    if (to >= 0) reached = walked[static_cast<std::size_t>(to)]->stacks;
    for (const auto& one : walked) deepest = std::max(deepest, one->deepest);
    cache_.numbers.clear();
    walked.clear();
    for (std::size_t i = 0; i < path_.size(); ++i) {
      path_[i].state = cache_.number_of(std::move(kept[i]));
    }
    return to >= 0 ? static_cast<std::int32_t>(cache_.number_of(std::move(reached))) : to;
  }

  Cache& cache_;
  std::vector<Step> path_;
};

// What fewer frames decided holds with more of them.
std::shared_ptr<TokenMasks::Cache::Entry> TokenMasks::Cache::decide(const Stacks& from,
                                                                    const Entry* upper,
                                                                    std::uint32_t more) {
  auto out = std::make_shared<Entry>();
  Walk walk(*this, from);
  TokenMask mask = upper != nullptr ? *upper->inside : empty_mask();
  if (upper != nullptr) {
    INVARIANT(!upper->open.empty(), "frames are added where fewer do not suffice");
    for (const std::uint32_t node : upper->open) walk.at(node, mask);
    walk.deepest = std::max(walk.deepest, upper->deepest + more);
  } else {
    walk.below(0, static_cast<std::uint32_t>(vocabulary.nodes().size() - 1), mask);
  }
  out->inside = std::make_shared<const TokenMask>(std::move(mask));
  out->open = std::move(walk.open);
  out->deepest = walk.deepest;
  return out;
}

std::shared_ptr<TokenMasks::Cache::Entry> TokenMasks::Cache::decide_long(const Stacks& from,
                                                                         const Entry& far,
                                                                         std::uint32_t settled) {
  INVARIANT(far.open.empty(), "far counts have decided all that is short");
  auto out = std::make_shared<Entry>();
  Walk walk(*this, from);
  TokenMask mask = *far.inside;
  walk.beyond(settled, mask);
  out->inside = std::make_shared<const TokenMask>(std::move(mask));
  out->open = std::move(walk.open);
  out->deepest = std::max(walk.deepest, far.deepest);
  return out;
}

// The entry that decides every text: of as few frames and as few counts as do.
std::shared_ptr<TokenMasks::Cache::Entry> TokenMasks::Cache::entry_of(const GrammarState& state) {
  std::size_t deepest = 0;
  for (std::size_t i = 0; i < state.stacks(); ++i) {
    deepest = std::max(deepest, state.stack(i).size());
  }
  std::shared_ptr<Entry> entry;
  for (std::size_t before = 0, frames = 1; state.stacks() <= kCutStacks;
       before = frames, frames *= 2) {
    const bool whole = frames >= deepest;
    const std::size_t skipped = whole ? 0 : deepest - frames;
    // What the left out frames may put beyond the depth is decided by whole stacks.
    const auto fits = [&](const Entry& one) {
      return whole || one.deepest + skipped <= limits::kGrammarDepth;
    };
    const Top top = top_of(state, frames, true);
    std::shared_ptr<Entry>& found = kept(top.stacks);
    if (found == nullptr) {
      found = decide(top.stacks, entry.get(), static_cast<std::uint32_t>(frames - before));
      bytes += bytes_of(*found);
    }
    entry = found;
    if (!fits(*entry) || (whole && !entry->open.empty())) break;
    if (!entry->open.empty()) continue;
    if (top.settled >= vocabulary.longest()) return entry;
    const Stacks counted = top_of(state, frames, false).stacks;
    std::shared_ptr<Entry>& near = kept(counted);
    if (near == nullptr) {
      near = decide_long(counted, *entry, top.settled);
      bytes += bytes_of(*near);
    }
    if (near->open.empty() && fits(*near)) return near;
    break;
  }
  const Stacks all = top_of(state, deepest, false).stacks;
  std::shared_ptr<Entry>& found = kept(all);
  if (found == nullptr) {
    found = decide(all, nullptr, 0);
    bytes += bytes_of(*found);
  }
  INVARIANT(found->open.empty(), "whole stacks leave nothing open");
  return found;
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
  const std::shared_ptr<Cache::Entry> entry = cache.entry_of(state.text);
  if (!state.text.may_end()) return entry->inside;
  if (entry->with_end == nullptr) {
    TokenMask with_end = *entry->inside;
    cache.add_end_tokens(with_end);
    entry->with_end = std::make_shared<const TokenMask>(std::move(with_end));
    cache.bytes += cache.mask_bytes();
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
