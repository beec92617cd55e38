// What a member of a swarm may do for its profit: the attacks of the catalogue that are a choice
// between cost and risk. What they meet is in lives.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "ledger/dispute/verdict.h"
#include "swarm.h"

namespace hearth::economy {

double chance(SeededRandom& random);  // uniform, from 0 to below 1

// Where a life begins. Regulars and veterans have earned that with windows that were all audited.
enum class Start : std::uint8_t { kNewcomer, kProbation, kRegular, kVeteran };

// What it knows when it decides about a window.
struct Situation {
  ledger::Level level = ledger::Level::kNewcomer;
  std::int64_t served = 0;  // of this life, before this window
  std::int64_t left = 0;    // of this life, with this window
  std::int64_t faults = 0;  // that count
  std::int64_t caught = 0;  // times, in this life
  double stake = 0;         // its escrow, in the pay of usual windows
  Size size = Size::kUsual;
};
using Choice = std::function<bool(const Situation&, SeededRandom&)>;

enum class Work : std::uint8_t {
  kServes,
  kChecks,  // nothing but others' windows
  kBoth,    // serves, and checks as much of others' as is drawn of its own
  kWashes,  // serves what it pays for itself
};

// Where an auditor has from what it would have to compute.
enum class Leak : std::uint8_t {
  kNone,
  kLog,         // roots alone, in which there is no row and no token
  kClient,      // tokens, of clients that are friends; it is a last stage
  kAccomplice,  // all rows, where its worker or who stood behind that is a friend
  kAudit,       // that it is one, and it does nothing
};

struct Strategy {
  std::string name;
  std::string attack;  // of the catalogue; empty: honesty
  Start start = Start::kRegular;
  Choice cheats = {};  // gives what cost nothing; empty: never
  double friends = 0;  // share of the auditors who agree with whatever it says
  // When it is caught. Who concedes says that its weights were damaged, whatever is true.
  ledger::Plea plea = ledger::Plea::kContested;
  bool same_again = true;         // asked to compute the window again, it gives the same
  bool returns = false;           // when its key has ended, under a new one
  bool is_sold = false;           // its key has another owner from the first window on
  bool is_mixed = false;          // one window of 50 is a large one
  bool in_pairs = false;          // of neighbouring stages that skip the same windows
  bool has_referee = false;       // the coordinator audits with a model of its own
  std::int64_t idle_seconds = 0;  // that it stays away first, and takes out what it may
  std::int64_t flood = 0;         // windows at once that it orders of others, so that audits tire
  Work work = Work::kServes;
  Swarm::Says says = Swarm::Says::kTruth;  // of windows that it checks
  Leak leak = Leak::kNone;                 // else it is honest where nothing leaks
  bool is_prompts = false;                 // its windows have prompts and nothing generated
  bool is_free = false;                    // its own windows cost it nothing: all are cached
  bool is_idle_else = false;  // honesty would do nothing at all, and have no dues to pay
  bool equivocates = false;   // once
  std::int64_t windows = 1'500;
  std::int64_t slot_seconds = 150;  // between two windows
  int swarms = 1;                   // of kLives lives each
  // Empty: it must lose. Else why no number of the policy can make it.
  std::string undefended = {};
};

std::vector<Strategy> strategies();

}  // namespace hearth::economy
