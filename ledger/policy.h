// Policy: the rules of standing and credit, as one table of numbers. All are integers, so every
// fold of a log gives the same result. kPolicyTable (policy.cc) says what each number is for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/crypto.h"

namespace hearth::ledger {

inline constexpr std::int64_t kMillion = 1'000'000;  // rates are in parts of a million

struct Policy {
  // Newcomers, level 0.
  std::int64_t newcomer_audits = 100;
  std::int64_t newcomer_seconds = 7 * 24 * 3'600;
  std::int64_t newcomer_days = 3;
  // Probation, level 1.
  std::int64_t probation_full_windows = 50;
  std::int64_t probation_rate = 300'000;
  std::int64_t probation_withheld = 500'000;
  // Regulars, level 2, and veterans, level 3.
  std::int64_t regular_windows = 84;
  std::int64_t regular_rate_floor = 50'000;
  std::int64_t regular_rate_product = 25;
  std::int64_t veteran_windows = 2'000;
  std::int64_t veteran_seconds = 60 * 24 * 3'600;
  std::int64_t veteran_rate = 30'000;
  // Raised rates.
  std::int64_t change_factor = 3;
  std::int64_t change_seconds = 24 * 3'600;
  std::int64_t coordinator_rate = 5'000;
  std::int64_t stake_margin = 2'200'000;
  // Escrow.
  std::int64_t escrow_windows = 200;
  std::int64_t escrow_seconds = 72 * 3'600;
  std::int64_t escrow_idle_seconds = 30 * 24 * 3'600;
  std::int64_t audit_seconds = 3'600;
  // What keeps checkers honest.
  std::int64_t canary_rate = 20'000;
  // Faults.
  std::int64_t fault_windows = 80;
  std::int64_t fault_limit = 3;
  std::int64_t fault_seconds = 30 * 24 * 3'600;
  // Prices, in credits for a layer and a token.
  std::int64_t price_prefill = 1;
  std::int64_t price_cached = 100'000;
  std::int64_t price_decode = 5;
  std::int64_t price_fee = 100'000;
  // What the inequality assumes of a cheat.
  std::int64_t assumed_gain = 700'000;
  std::int64_t assumed_collusion = 330'000;
};

struct PolicyRow {
  std::string_view name;
  std::int64_t Policy::*field;
  std::string_view unit;  // "ppm", "seconds", "windows", ...
  std::string_view why;
};
std::span<const PolicyRow> policy_table();

// Hash of all names and values in the order of the table. A log's first entry names it.
Hash256 policy_hash(const Policy& policy);

enum class Level : std::uint8_t { kNewcomer = 0, kProbation = 1, kRegular = 2, kVeteran = 3 };
std::string_view level_name(Level level);

// The lowest audit rate of a node of this level, in parts of a million. A newcomer serves no
// request, so its rate is 1,000,000.
std::int64_t lowest_audit_rate(const Policy& policy, Level level);

// The lowest audit rate, in parts of a million, for a window with this pay whose worker has
// `escrow` at stake, this pay included. At this rate a fault costs on average stake_margin times
// what faking the window brings. The margin is above 2, because two neighbours who fake a window
// share one fault. 1,000,000 when the escrow is empty; 0 when the window is not paid.
std::int64_t stake_rate(const Policy& policy, std::int64_t pay, std::int64_t escrow);

// How many windows' pay must be at stake so that a cheat loses, and how many are:
// S/r > g / (p d (1-q)) - 1, with d = 1 because equality of bits misses nothing.
//
// A cheat that is caught may concede and call it a fault. So a fault must cost more than the
// undetected cheating before it brought: g / (p d (1-q)).
struct Deterrence {
  Level level = Level::kProbation;
  std::int64_t rate = 0;      // p, in parts of a million
  double required = 0;        // least S/r
  std::int64_t stake = 0;     // S/r: windows whose pay is in escrow
  double required_fault = 0;  // least cost of a fault, in windows' pay
  std::int64_t fault = 0;     // what a fault costs, in windows' pay
  double margin() const { return required > 0 ? static_cast<double>(stake) / required : 0; }
};
Deterrence deterrence(const Policy& policy, Level level);

}  // namespace hearth::ledger
