// Strategies at work: many members with the same one in one swarm, beside honest auditors and those
// who are their friends. What each life was worth is read from the ledger when it is over.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies.h"
#include "swarm.h"

namespace hearth::economy {

inline constexpr std::size_t kLives = 40;     // in one swarm
inline constexpr std::size_t kAuditors = 30;  // friends are the first of them

// Costs, in parts of the pay. A window's is what the policy assumes; a check computes it anew, as
// its worker did.
inline constexpr double kCost = 0.7;

struct Life {
  double gain = 0;    // over honesty in the windows that it worked, in the pay of usual windows
  double profit = 0;  // all that it has in the end, less what it had and what it spent
  double windows = 0;
  double first_cheat = -1;  // its window; -1: none
  double caught = -1;       // windows between that and its first verdict; -1: never
  bool convicted = false;   // of fraud, or equivocation
};

// A swarm that is where lives of this start begin, to be copied.
Swarm swarm_at(Start start, std::uint64_t seed);

std::vector<Life> play(const Strategy& strategy, Swarm swarm, std::uint64_t seed);

// Honest members that serve and audit, on machines whose memory flips bits.
struct Faults {
  double rate = 1e-5;  // of a window
  // Of them: a bit of a weight, wrong until somebody tells. Others change one window.
  double stuck = 0.5;
};
struct HonestRun {
  std::uint64_t windows = 0;
  std::uint64_t flips = 0;
  std::uint64_t wrong = 0;      // windows
  std::uint64_t faults = 0;     // verdicts, of workers and of auditors
  std::uint64_t demoted = 0;    // to newcomers, by faults
  std::uint64_t convicted = 0;  // of fraud: must be none
  double lost = 0;              // to faults, in parts of all pay
};
HonestRun run_honest(std::uint64_t windows, const Faults& faults, std::uint64_t seed);

}  // namespace hearth::economy
