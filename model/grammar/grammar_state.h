// GrammarState: where a text stands in a grammar. A function of the grammar and the bytes alone
// (kernels/CANONICAL.md, 10a, is normative). A copy costs one allocation.
//
// A stack is a way to read the text so far: frames of calls that are under way, and above them the
// state that reads the next byte. Ambiguous grammars have several stacks at a time, at most
// limits::kGrammarStacks; of more, the first ones are followed. A state is entered only if the text
// can be completed from it within limits::kGrammarDepth frames. So where a state may not end and no
// stack was dropped, some stack has a next byte; another stack may have none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/grammar/grammar.h"

namespace hearth::model {

class GrammarState {
 public:
  // `at`: a call that is under way, or, as the last of a stack, the state that reads next. `count`:
  // which repeat of the call it is, from 1 on; 0 of the last.
  struct Frame {
    std::uint32_t at = 0;
    std::uint32_t count = 0;
    friend auto operator<=>(const Frame&, const Frame&) = default;
  };

  // `grammar` must outlive the state.
  explicit GrammarState(const Grammar& grammar);

  // False when the byte does not continue any text of the grammar; the state is then broken.
  bool accept(std::uint8_t byte);
  bool accept(std::string_view bytes);
  // A text of the grammar may end here.
  bool may_end() const { return may_end_; }
  // A stack is kept. Where none of its bytes leads to an end, the text may end here (may_end()).
  bool can_go_on() const { return !ends_.empty(); }
  // Neither: the bytes so far begin no text.
  bool broken() const { return !may_end_ && ends_.empty(); }

  std::size_t stacks() const { return ends_.size(); }
  std::span<const Frame> stack(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(frames_).subspan(begin, ends_[i] - begin);
  }
  friend bool operator==(const GrammarState& a, const GrammarState& b) {
    return a.may_end_ == b.may_end_ && a.frames_ == b.frames_ && a.ends_ == b.ends_;
  }

 private:
  friend class GrammarStep;
  std::vector<Frame> frames_;  // of all stacks, one after the other, each from its lowest frame up
  std::vector<std::uint32_t> ends_;
  bool may_end_ = false;
  const Grammar* grammar_ = nullptr;
};

// One step: from stacks and a byte to stacks. For masks, a stack may stand on an unknown bottom;
// a step that would pop it says so.
class GrammarStep {
 public:
  using Frame = GrammarState::Frame;
  // The lowest frame of a stack whose lower frames are left out.
  static constexpr Frame kCut{0xFFFFFFFF, 0};
  // Counts of repeats that stay as far from their bounds as they are: at least the least number,
  // and below it.
  static constexpr std::uint32_t kFarInside = 0xFFFFFFFD;
  static constexpr std::uint32_t kFarBelow = 0xFFFFFFFE;

  // `depth`: of frames in one stack.
  explicit GrammarStep(const Grammar& grammar, std::uint32_t depth);

  void clear();
  // Follows the state without a byte, from a stack of calls.
  void enter(std::span<const Frame> calls, std::uint32_t state);
  // All of a stack's continuations by the byte.
  void read(std::span<const Frame> stack, std::uint8_t byte);

  const std::vector<Frame>& frames() const { return frames_; }
  const std::vector<std::uint32_t>& ends() const { return ends_; }
  bool may_end() const { return may_end_; }
  bool reached_cut() const { return reached_cut_; }
  // Two stacks with a far count became one, though they may be two by their counts.
  bool lost_count() const { return lost_count_; }
  // The most frames that something needed to be kept; more than the depth: it was not.
  std::uint32_t deepest() const { return deepest_; }
  // The stacks that were followed without a byte.
  std::size_t visits() const { return visited_ends_.size(); }

  // The step's result as the state's.
  void give(GrammarState& state);
  void take(const GrammarState& state, std::uint8_t byte);

 private:
  bool fits(std::size_t frames, std::uint32_t state);
  void follow();
  void leave();
  void begin_repeat(std::uint32_t call, std::uint32_t count);
  bool seen();

  const Grammar& grammar_;
  std::uint32_t depth_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> ends_;
  std::vector<Frame> visited_;
  std::vector<std::uint32_t> visited_ends_;
  std::vector<std::uint64_t> mixes_;  // of the visited stacks, to compare few
  std::vector<Frame> at_;             // the stack that is being followed
  bool may_end_ = false;
  bool reached_cut_ = false;
  bool lost_count_ = false;
  std::uint32_t deepest_ = 0;
};

}  // namespace hearth::model
