#include "model/grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::model {
namespace {

using StackFrame = GrammarState::Frame;

// The stacks of a walk's state, one after the other, with the end of each; or a byte's outcome.
struct Stacks {
  std::vector<StackFrame> frames;
  std::vector<std::uint32_t> ends;
  friend auto operator<=>(const Stacks&, const Stacks&) = default;
};

constexpr std::int32_t kNotStepped = -1;
constexpr std::int32_t kDead = -2;
constexpr std::int32_t kBelow = -3;  // the byte leaves the frames that are known
constexpr std::size_t kWalkStates = 8'192;
// Stacks that differ only in omitted frames count as one. This far from the limits, the whole
// stacks would be kept as well.
constexpr std::size_t kCutStacks = 4;
constexpr std::size_t kCutRoom = limits::kGrammarStacks / kCutStacks;
constexpr std::size_t kCutVisits = limits::kGrammarVisits / kCutStacks;
static_assert(kCutStacks * kCutRoom <= limits::kGrammarStacks);

// A count nearer to its bound than this is not treated as far.
constexpr std::uint32_t kNear = 9;

bool stands_for_several(const Stacks& stacks) {
  return std::ranges::any_of(stacks.frames, [](const StackFrame& frame) {
    return frame == GrammarStep::kCut || frame.count >= GrammarStep::kFarInside;
  });
}

}  // namespace

struct TokenMasks::Cache {
  // The part of a mask that the upper frames of some stacks decide.
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
      : grammar(of), vocabulary(over), step(of, limits::kGrammarDepth) {
    std::array<bool, 257> begins{};
    begins[256] = true;
    for (const Grammar::ByteEdge& edge : of.byte_edges()) {
      begins[edge.low] = begins[std::size_t{edge.high} + 1] = true;
    }
    for (std::size_t byte = 256; byte-- > 0;) {
      last_alike[byte] = begins[byte + 1] ? static_cast<std::uint8_t>(byte) : last_alike[byte + 1];
    }
  }

  struct Top {
    Stacks stacks;
    // A text of so many bytes leaves no far count's range.
    std::uint32_t settled = 0xFFFFFFFF;
  };
  // The first frames from the top of each stack, at most this many. `far`: with far counts.
  Top top_of(const GrammarState& state, std::size_t frames, bool far) const;
  void set_far(StackFrame& frame, Top& top) const;
  // From `upper`, which has fewer frames of the same stacks, by `more`; null: from nothing.
  std::shared_ptr<Entry> decide(const Stacks& from, const Entry* upper, std::uint32_t more);
  // Made from an entry with far counts, which leaves texts longer than `settled` undecided.
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
  // All bytes up to this one lead to the same state.
  std::array<std::uint8_t, 256> last_alike{};
  std::map<Stacks, std::uint32_t> numbers;
  std::vector<std::unique_ptr<Walked>> walked;
  std::map<Stacks, std::shared_ptr<Entry>> entries;
  std::size_t bytes = 0;  // of the entries
  std::shared_ptr<const TokenMask> ended;
};

// Repeats that no short text brings to a bound behave alike. Each byte ends one repeat at most.
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
  for (unsigned same = byte; same <= last_alike[byte]; ++same) walked[state]->next[same] = to;
  for (unsigned same = byte; same-- > 0 && last_alike[same] == last_alike[byte];) {
    walked[state]->next[same] = to;
  }
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
    push(0, static_cast<std::int32_t>(cache_.number_of(from)));
  }

  // Before the others: the runs that are known to go on come into the mask, and those that are
  // known to end go; neither is walked. `settled`: bytes of texts that the mask has already.
  void take_runs(std::uint32_t settled, TokenMask& mask) {
    decided_.fill(settled);
    clears_ = settled > 0;
    if (settled >= GrammarVocabulary::kRunPoints) return;  // few are longer
    for (std::size_t run = 0; run < GrammarVocabulary::kRuns.size(); ++run) {
      const Reach reach = reach_of(path_.back().state, GrammarVocabulary::kRuns[run]);
      if (reach.points == 0 && !reach.ends) continue;
      const auto& vocabulary = cache_.vocabulary;
      const TokenMask& on = vocabulary.runs(GrammarVocabulary::kRuns[run], reach.points);
      const TokenMask& all = vocabulary.runs(GrammarVocabulary::kRuns[run], kAnyRun);
      for (std::size_t i = 0; i < mask.size(); ++i) {
        if (reach.ends && clears_) mask[i] &= ~all[i];
        mask[i] |= on[i];
      }
      for (std::size_t alike = 0; alike < decided_.size(); ++alike) {
        if ((alike >> run & 1) == 0) continue;
        decided_[alike] = std::max(decided_[alike], reach.ends ? kAnyRun : reach.points);
      }
    }
  }

  // All texts that are not decided.
  void all(TokenMask& mask) { below(0, node_count(), mask); }

  // One node and all below it.
  void at(std::uint32_t node, TokenMask& mask) {
    const GrammarVocabulary::Node& first = cache_.vocabulary.nodes()[node];
    if (first.reach <= decided_[first.alike]) return;
    for (const char byte : cache_.vocabulary.text_to(node)) {
      const std::int32_t to = step(static_cast<std::uint8_t>(byte));
      if (to < 0) {
        if (to == kBelow) open.push_back(node);
        path_.resize(1);
        return;
      }
      push(0, to);
    }
    accept(node, mask);
    below(node + 1, first.end, mask);
    path_.resize(1);
  }

  std::vector<std::uint32_t> open;
  std::uint32_t deepest = 0;

 private:
  struct Step {
    std::uint32_t end;  // of the node's subtree
    std::uint32_t state;
    const Cache::Walked* walked;  // of the state
  };

  std::uint32_t node_count() const {
    return static_cast<std::uint32_t>(cache_.vocabulary.nodes().size() - 1);
  }

  struct Reach {
    std::uint32_t points = 0;  // of every run that goes on; kAnyRun: all go on
    bool ends = false;         // no longer one does
  };
  Reach reach_of(std::uint32_t state, GrammarVocabulary::Run run) {
    for (std::uint32_t points = 0; points < GrammarVocabulary::kRunPoints; ++points) {
      const std::int32_t to = step_run(state, run);
      if (to < 0) return {points, to == kDead};
      if (static_cast<std::uint32_t>(to) == state) return {kAnyRun, false};
      state = static_cast<std::uint32_t>(to);
    }
    return {GrammarVocabulary::kRunPoints, false};
  }
  // Where every code point of the run leads, kDead where none goes on; kBelow: that differs, or is
  // not known.
  std::int32_t step_run(std::uint32_t state, GrammarVocabulary::Run run) {
    std::int32_t to = kNotStepped;
    for (unsigned byte = 0; byte < 0x80; ++byte) {
      if (!GrammarVocabulary::is_of(run, byte)) continue;
      if (!agrees(step_at(state, static_cast<std::uint8_t>(byte)), to)) return kBelow;
    }
    if (run != GrammarVocabulary::Run::kText) return to;
    for (const auto& bytes : kBeyondAscii) {
      if (!leads(state, bytes, to)) return kBelow;
    }
    return to;
  }
  static bool agrees(std::int32_t next, std::int32_t& to) {
    if (to == kNotStepped) to = next;
    return next != kBelow && next == to;
  }
  struct ByteRange {
    std::uint8_t low;
    std::uint8_t high;
  };
  // RFC 3629, 4: the code points past ASCII.
  static constexpr ByteRange kTail{0x80, 0xBF};
  static constexpr std::array<std::array<ByteRange, 4>, 8> kBeyondAscii{{
      {{{0xC2, 0xDF}, kTail, {}, {}}},
      {{{0xE0, 0xE0}, {0xA0, 0xBF}, kTail, {}}},
      {{{0xE1, 0xEC}, kTail, kTail, {}}},
      {{{0xED, 0xED}, {0x80, 0x9F}, kTail, {}}},
      {{{0xEE, 0xEF}, kTail, kTail, {}}},
      {{{0xF0, 0xF0}, {0x90, 0xBF}, kTail, kTail}},
      {{{0xF1, 0xF3}, kTail, kTail, kTail}},
      {{{0xF4, 0xF4}, {0x80, 0x8F}, kTail, kTail}},
  }};
  // Whether all texts of these bytes lead to `to`, which they set where it is not set yet.
  bool leads(std::uint32_t state, std::span<const ByteRange> bytes, std::int32_t& to) {
    const bool last = bytes.size() == 1 || bytes[1].high == 0;
    std::int32_t seen = kNotStepped;
    for (unsigned byte = bytes[0].low; byte <= bytes[0].high; ++byte) {
      const std::int32_t next = step_at(state, static_cast<std::uint8_t>(byte));
      if (next == seen) continue;
      seen = next;
      const bool same = last || next < 0
                            ? agrees(next, to)
                            : leads(static_cast<std::uint32_t>(next), bytes.subspan(1), to);
      if (!same) return false;
    }
    return true;
  }
  // The states stay: these are few, and no path is forgotten between two of them.
  std::int32_t step_at(std::uint32_t state, std::uint8_t byte) {
    std::int32_t to = cache_.walked[state]->next[byte];
    if (to == kNotStepped) to = cache_.step_from(state, byte);
    deepest = std::max(deepest, cache_.walked[state]->deepest);
    return to;
  }

  // The texts at the nodes from `begin` up to `end`, which stand below the path, but those that are
  // decided. Most nodes of a large vocabulary have nothing below them, so they never come on the
  // path.
  void below(std::uint32_t begin, std::uint32_t end, TokenMask& mask) {
    const GrammarVocabulary::Node* const nodes = cache_.vocabulary.nodes().data();
    const std::size_t root = path_.size();
    for (std::uint32_t at = begin; at < end;) {
      while (path_.size() > root && path_.back().end <= at) path_.pop_back();
      const GrammarVocabulary::Node& node = nodes[at];
      if (node.reach <= decided_[node.alike]) {
        at = node.end;
        continue;
      }
      const std::int32_t to = step(node.byte);
      if (to < 0) {
        if (to == kBelow) open.push_back(at);
        if (clears_) clear(at, mask);
        at = node.end;
        continue;
      }
      accept(at, mask);
      if (node.end > ++at) push(node.end, to);
    }
    path_.resize(root);
  }

  void accept(std::uint32_t node, TokenMask& mask) {
    const GrammarVocabulary::Node* const nodes = cache_.vocabulary.nodes().data();
    for (std::uint32_t i = nodes[node].tokens; i < nodes[node + 1].tokens; ++i) {
      Cache::set(mask, cache_.vocabulary.tokens()[i]);
    }
  }
  // The texts of a node and of all below it.
  void clear(std::uint32_t node, TokenMask& mask) {
    const auto& nodes = cache_.vocabulary.nodes();
    for (std::uint32_t i = nodes[node].tokens; i < nodes[nodes[node].end].tokens; ++i) {
      Cache::clear(mask, cache_.vocabulary.tokens()[i]);
    }
  }

  void push(std::uint32_t end, std::int32_t to) {
    INVARIANT(to >= 0, "the path has states");
    const auto state = static_cast<std::uint32_t>(to);
    path_.push_back({end, state, cache_.walked[state].get()});
    deepest = std::max(deepest, path_.back().walked->deepest);
  }

  // From the end of the path.
  std::int32_t step(std::uint8_t byte) {
    const std::int32_t to = path_.back().walked->next[byte];
    return to != kNotStepped ? to : first_step(byte);
  }
  std::int32_t first_step(std::uint8_t byte) {
    auto& walked = cache_.walked;
    const Step from = path_.back();
    std::int32_t to = cache_.step_from(from.state, byte);
    deepest = std::max(deepest, from.walked->deepest);
    if (walked.size() > 2 * kWalkStates) to = forget_but_path(to);
    return to;
  }

  // Only the path and the reached state are still needed.
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
      path_[i].walked = walked[path_[i].state].get();
    }
    return to >= 0 ? static_cast<std::int32_t>(cache_.number_of(std::move(reached))) : to;
  }

  static constexpr std::uint32_t kAnyRun = 0xFFFFFFFF;

  Cache& cache_;
  std::vector<Step> path_;
  // Bytes of the longest texts that are decided, by GrammarVocabulary::Node::alike.
  std::array<std::uint32_t, 1U << GrammarVocabulary::kRuns.size()> decided_{};
  bool clears_ = false;  // the mask may contain texts that do not continue
};

// Decisions made with fewer frames hold with more frames.
std::shared_ptr<TokenMasks::Cache::Entry> TokenMasks::Cache::decide(const Stacks& from,
                                                                    const Entry* upper,
                                                                    std::uint32_t more) {
  auto out = std::make_shared<Entry>();
  Walk walk(*this, from);
  TokenMask mask = upper != nullptr ? *upper->inside : empty_mask();
  walk.take_runs(0, mask);
  if (upper != nullptr) {
    INVARIANT(!upper->open.empty(), "frames are added where fewer do not suffice");
    for (const std::uint32_t node : upper->open) walk.at(node, mask);
    walk.deepest = std::max(walk.deepest, upper->deepest + more);
  } else {
    walk.all(mask);
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
  walk.take_runs(settled, mask);
  walk.all(mask);
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
    // Texts for which the omitted frames may exceed the depth are decided with whole stacks.
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
