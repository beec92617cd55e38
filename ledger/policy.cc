#include "ledger/policy.h"

#include <algorithm>
#include <iterator>

namespace hearth::ledger {
namespace {

constexpr PolicyRow kPolicyTable[] = {
    {"newcomer_audits", &Policy::newcomer_audits, "audits",
     "audits with the right result that a newcomer makes before it may serve; their pay is in "
     "escrow"},
    {"newcomer_seconds", &Policy::newcomer_seconds, "seconds",
     "time since it joined before a newcomer may serve, so that a new key is never quick to get"},
    {"newcomer_days", &Policy::newcomer_days, "days",
     "different days on which a newcomer must have audited before it may serve"},
    {"probation_full_windows", &Policy::probation_full_windows, "windows",
     "its first served windows, which are all audited"},
    {"probation_rate", &Policy::probation_rate, "ppm",
     "share of its later windows that are audited"},
    {"probation_withheld", &Policy::probation_withheld, "ppm",
     "share of its pay that stays in escrow until it is a regular"},
    {"regular_windows", &Policy::regular_windows, "windows",
     "right audited windows that make a regular; above them 25/n is below the rate of probation"},
    {"regular_rate_floor", &Policy::regular_rate_floor, "ppm", "lowest audit rate of a regular"},
    {"regular_rate_product", &Policy::regular_rate_product, "windows",
     "divided by its right audited windows: the audit rate of a regular above the floor"},
    {"veteran_windows", &Policy::veteran_windows, "windows",
     "right audited windows that make a veteran"},
    {"veteran_seconds", &Policy::veteran_seconds, "seconds",
     "time since it joined that makes a veteran"},
    {"veteran_rate", &Policy::veteran_rate, "ppm",
     "audit rate of a veteran; no standing ends audits"},
    {"change_factor", &Policy::change_factor, "times",
     "factor of the audit rate after a change of driver, build or address: the key may have been "
     "sold"},
    {"change_seconds", &Policy::change_seconds, "seconds",
     "how long the rate stays raised after a change"},
    {"coordinator_rate", &Policy::coordinator_rate, "ppm",
     "share of windows that the coordinator's own referee recomputes, so that no coalition of "
     "nodes does all audits"},
    {"stake_margin", &Policy::stake_margin, "ppm",
     "the average cost of a fault must be this multiple of what faking the window brings; it "
     "raises the audit rate of windows that pay much beside the escrow, for example after a pause "
     "or on a slow node"},
    {"escrow_windows", &Policy::escrow_windows, "windows",
     "pay stays in escrow until this many later windows are served; at an audit rate of 5 %, a "
     "node that only cheats passes as many with a probability of 0.004 %"},
    {"escrow_seconds", &Policy::escrow_seconds, "seconds",
     "least time for which pay stays in escrow"},
    {"escrow_idle_seconds", &Policy::escrow_idle_seconds, "seconds",
     "after this time pay is released without later windows, also to a node that has left; it "
     "could otherwise fake its last windows without a loss"},
    {"audit_seconds", &Policy::audit_seconds, "seconds",
     "how long the inputs of a window are kept; a node that cannot show them in this time is at "
     "fault"},
    {"canary_rate", &Policy::canary_rate, "ppm",
     "share of the traffic that the swarm makes itself, so that newcomers get work that discloses "
     "no user's prompt"},
    {"fault_windows", &Policy::fault_windows, "windows",
     "a fault costs the pay of this many windows: more than two neighbours gain by cheating until "
     "one is seen, so that conceding does not help; memory errors of honest nodes are too rare to "
     "matter"},
    {"fault_limit", &Policy::fault_limit, "faults", "faults that make a node a newcomer again"},
    {"fault_seconds", &Policy::fault_seconds, "seconds", "time in which faults count together"},
    {"price_prefill", &Policy::price_prefill, "credits", "for each layer and prompt token"},
    {"price_cached", &Policy::price_cached, "ppm",
     "share of price_prefill for a cached prompt token, whose KV takes memory and no time"},
    {"price_decode", &Policy::price_decode, "credits",
     "for each layer and generated token; at batch 8, prefill takes 19 % of the time for a token"},
    {"price_fee", &Policy::price_fee, "ppm", "added to the price; it pays for audits"},
    {"assumed_gain", &Policy::assumed_gain, "ppm",
     "g: share of a window's pay that a cheat saves (all of its cost, if the cost is 70 % of the "
     "pay)"},
    {"assumed_collusion", &Policy::assumed_collusion, "ppm",
     "q: share of audits that colluding nodes do"},
};

static_assert(std::size(kPolicyTable) * sizeof(std::int64_t) == sizeof(Policy),
              "every field has its row");

}  // namespace

std::span<const PolicyRow> policy_table() { return kPolicyTable; }

Hash256 policy_hash(const Policy& policy) {
  std::string text;
  for (const PolicyRow& row : kPolicyTable) {
    text += std::string(row.name) + " " + std::to_string(policy.*row.field) + "\n";
  }
  return blake2b(as_bytes(text));
}

std::string_view level_name(Level level) {
  constexpr std::string_view kNames[] = {"newcomer", "probation", "regular", "veteran"};
  return kNames[static_cast<std::size_t>(level)];
}

std::int64_t lowest_audit_rate(const Policy& policy, Level level) {
  const std::int64_t rates[] = {kMillion, policy.probation_rate, policy.regular_rate_floor,
                                policy.veteran_rate};
  return rates[static_cast<std::size_t>(level)];
}

std::int64_t stake_rate(const Policy& policy, std::int64_t pay, std::int64_t escrow) {
  if (pay <= 0) return 0;
  const std::int64_t stake = std::min(escrow, policy.fault_windows * pay);
  if (stake <= 0 || policy.assumed_collusion >= kMillion) return kMillion;
  const std::int64_t at_one =
      policy.stake_margin * policy.assumed_gain / (kMillion - policy.assumed_collusion);
  const auto rate = static_cast<__int128>(at_one) * pay / stake;
  return static_cast<std::int64_t>(std::min<__int128>(rate, kMillion));
}

Deterrence deterrence(const Policy& policy, Level level) {
  Deterrence found;
  found.level = level;
  found.rate = lowest_audit_rate(policy, level);
  const double p = static_cast<double>(found.rate) / kMillion;
  const double g = static_cast<double>(policy.assumed_gain) / kMillion;
  const double q = static_cast<double>(policy.assumed_collusion) / kMillion;
  found.required = std::max(0.0, g / (p * (1 - q)) - 1);
  found.required_fault = g / (p * (1 - q));
  found.fault = policy.fault_windows;
  // A node at probation's rate has served the fully audited windows, and their pay is still in
  // escrow.
  found.stake = level == Level::kProbation
                    ? std::min(policy.escrow_windows, policy.probation_full_windows)
                    : policy.escrow_windows;
  return found;
}

}  // namespace hearth::ledger
