#include "model/grammar/grammar_state.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::model {
namespace {

std::uint64_t mix_of(std::span<const GrammarState::Frame> frames) {
  std::uint64_t mix = frames.size();
  for (const GrammarState::Frame& frame : frames) {
    mix = (mix ^ (std::uint64_t{frame.at} << 32 | frame.count)) * 0x9E3779B97F4A7C15;
    mix ^= mix >> 29;
  }
  return mix;
}

bool is_far(std::uint32_t count) { return count >= GrammarStep::kFarInside; }

}  // namespace

GrammarStep::GrammarStep(const Grammar& grammar, std::uint32_t depth)
    : grammar_(grammar), depth_(depth) {}

void GrammarStep::clear() {
  frames_.clear();
  ends_.clear();
  visited_.clear();
  visited_ends_.clear();
  mixes_.clear();
  may_end_ = reached_cut_ = lost_count_ = false;
  deepest_ = 0;
}

// Whether a rule in this state, above so many frames, can still end within the depth.
bool GrammarStep::fits(std::size_t frames, std::uint32_t state) {
  const std::uint32_t height = grammar_.states()[state].height;
  if (height > limits::kGrammarStates) return false;  // it never ends
  const auto needed = static_cast<std::uint32_t>(frames) + height;
  deepest_ = std::max(deepest_, needed);
  return needed <= depth_;
}

// Whether the stack was followed before in this step; or too many were.
bool GrammarStep::seen() {
  if (visited_ends_.size() >= limits::kGrammarVisits) return true;
  const std::uint64_t mix = mix_of(at_);
  for (std::size_t i = 0; i < mixes_.size(); ++i) {
    if (mixes_[i] != mix) continue;
    const std::size_t begin = i == 0 ? 0 : visited_ends_[i - 1];
    if (std::ranges::equal(std::span(visited_).subspan(begin, visited_ends_[i] - begin), at_)) {
      lost_count_ = lost_count_ || std::ranges::any_of(at_, is_far, &Frame::count);
      return true;
    }
  }
  mixes_.push_back(mix);
  visited_.insert(visited_.end(), at_.begin(), at_.end());
  visited_ends_.push_back(static_cast<std::uint32_t>(visited_.size()));
  return false;
}

void GrammarStep::enter(std::span<const Frame> calls, std::uint32_t state) {
  if (!fits(calls.size(), state)) return;
  at_.assign(calls.begin(), calls.end());
  at_.push_back({state, 0});
  follow();
}

void GrammarStep::read(std::span<const Frame> stack, std::uint8_t byte) {
  INVARIANT(!stack.empty(), "a stack has the state that reads");
  const std::uint32_t state = stack.back().at;
  const auto& states = grammar_.states();
  const auto begin = grammar_.byte_edges().begin() + states[state].bytes;
  const auto end = grammar_.byte_edges().begin() + states[state + 1].bytes;
  const auto edge = std::partition_point(
      begin, end, [&](const Grammar::ByteEdge& one) { return one.high < byte; });
  if (edge == end || edge->low > byte) return;
  enter(stack.first(stack.size() - 1), edge->next);
}

// The top of `at_` is a state that was found to fit. Keeps the stack where the state reads bytes;
// then follows its calls in order; then leaves the rule, if it may end. Restores `at_`.
void GrammarStep::follow() {
  if (seen()) return;
  const std::uint32_t state = at_.back().at;
  const Grammar::State& from = grammar_.states()[state];
  const Grammar::State& end = grammar_.states()[state + 1];
  if (from.bytes != end.bytes && ends_.size() < limits::kGrammarStacks) {
    frames_.insert(frames_.end(), at_.begin(), at_.end());
    ends_.push_back(static_cast<std::uint32_t>(frames_.size()));
  }
  for (std::uint32_t call = from.calls; call < end.calls; ++call) {
    at_.pop_back();
    begin_repeat(call, 1);
    const Grammar::CallEdge& edge = grammar_.call_edges()[call];
    if (edge.min == 0 && fits(at_.size(), edge.next)) {
      at_.push_back({edge.next, 0});
      follow();
      at_.pop_back();
    }
    at_.push_back({state, 0});
  }
  if (from.final) leave();
}

// Begins the call's rule for the count-th time, above `at_`, whose frames are those below the call.
void GrammarStep::begin_repeat(std::uint32_t call, std::uint32_t count) {
  const Grammar::CallEdge& edge = grammar_.call_edges()[call];
  const auto& states = grammar_.states();
  const bool bounded = edge.max != Grammar::kNoLimit && !is_far(count);
  if (bounded && count > edge.max) return;
  // After the minimum, an unbounded call need not count further.
  if (!bounded && !is_far(count)) count = std::min(count, std::max<std::uint32_t>(edge.min, 1));
  // Nothing follows the last repeat but the end of the calling rule: its frame is left out.
  const Grammar::State& next = states[edge.next];
  const Grammar::State& after = states[edge.next + 1];
  const bool tail = bounded && count == edge.max && next.final && next.bytes == after.bytes &&
                    next.calls == after.calls;
  if (!tail) {
    if (!fits(at_.size(), edge.next) || !fits(at_.size() + 1, edge.start)) return;
    at_.push_back({call, count});
  } else if (!fits(at_.size(), edge.start)) {
    return;
  }
  at_.push_back({edge.start, 0});
  follow();
  at_.pop_back();
  if (!tail) at_.pop_back();
}

// The rule at the top of `at_` ends. Restores `at_`.
void GrammarStep::leave() {
  const Frame state = at_.back();
  at_.pop_back();
  if (at_.empty()) {
    may_end_ = true;
  } else if (at_.back() == kCut) {
    reached_cut_ = true;
  } else {
    const Frame frame = at_.back();
    at_.pop_back();
    const Grammar::CallEdge& edge = grammar_.call_edges()[frame.at];
    begin_repeat(frame.at, is_far(frame.count) ? frame.count : frame.count + 1);
    const bool enough = frame.count >= edge.min && frame.count != kFarBelow;
    if (enough && fits(at_.size(), edge.next)) {
      at_.push_back({edge.next, 0});
      follow();
      at_.pop_back();
    }
    at_.push_back(frame);
  }
  at_.push_back(state);
}

void GrammarStep::give(GrammarState& state) {
  state.frames_.assign(frames_.begin(), frames_.end());
  state.ends_.assign(ends_.begin(), ends_.end());
  state.may_end_ = may_end_;
}

void GrammarStep::take(const GrammarState& state, std::uint8_t byte) {
  clear();
  for (std::size_t i = 0; i < state.stacks(); ++i) read(state.stack(i), byte);
}

GrammarState::GrammarState(const Grammar& grammar) : grammar_(&grammar) {
  GrammarStep step(grammar, limits::kGrammarDepth);
  step.enter({}, 0);
  step.give(*this);
}

bool GrammarState::accept(std::uint8_t byte) { return accept({reinterpret_cast<char*>(&byte), 1}); }

bool GrammarState::accept(std::string_view bytes) {
  GrammarStep step(*grammar_, limits::kGrammarDepth);
  for (const char byte : bytes) {
    step.take(*this, static_cast<std::uint8_t>(byte));
    step.give(*this);
  }
  return !broken();
}

}  // namespace hearth::model
