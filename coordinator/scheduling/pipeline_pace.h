// PipelinePace: how long a sequence on one pipeline waits for its next token, from the tokens of
// all that run there, in constant memory.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth::coordinator {

class PipelinePace {
 public:
  // A token came so long after the one before it of the same sequence, while so many sequences ran.
  // The mean forgets: a token counts for a sixteenth of it.
  void token(Duration waited, std::uint32_t running, TimePoint now);

  // Seconds a token with one more than so many: in proportion to what ran when it was measured.
  // That is too much where a batch costs little more than a row, and what is measured then corrects
  // it. Nothing before the first token.
  std::optional<double> with_one_more(std::uint32_t running) const;

  TimePoint last() const { return last_; }  // that a token came

 private:
  bool measured_ = false;
  double seconds_ = 0.0;
  double running_ = 1.0;
  TimePoint last_{};
};

}  // namespace hearth::coordinator
