#include "ledger/policy.h"

#include <algorithm>
#include <iterator>

namespace hearth::ledger {
namespace {

constexpr PolicyRow kPolicyTable[] = {
    {"newcomer_audits", &Policy::newcomer_audits, "audits",
     "a newcomer's own results that must match before it serves; each is work done unpaid for now"},
    {"newcomer_seconds", &Policy::newcomer_seconds, "seconds",
     "and the time that must pass, so that a new key is never quick to get"},
    {"newcomer_days", &Policy::newcomer_days, "days", "on so many different days"},
    {"probation_full_windows", &Policy::probation_full_windows, "windows",
     "the first ones that it serves are all audited"},
    {"probation_rate", &Policy::probation_rate, "ppm", "share of its windows audited after that"},
    {"probation_withheld", &Policy::probation_withheld, "ppm",
     "of its pay that stays in escrow until it is a regular"},
    {"regular_windows", &Policy::regular_windows, "windows",
     "audited and right: where 25/n falls below the rate of probation"},
    {"regular_rate_floor", &Policy::regular_rate_floor, "ppm", "no regular is audited less"},
    {"regular_rate_product", &Policy::regular_rate_product, "windows",
     "over its audited right windows: its rate above the floor"},
    {"veteran_windows", &Policy::veteran_windows, "windows", "audited and right, to be a veteran"},
    {"veteran_seconds", &Policy::veteran_seconds, "seconds", "since it joined, and no fraud"},
    {"veteran_rate", &Policy::veteran_rate, "ppm", "no standing ends audits"},
    {"change_factor", &Policy::change_factor, "times",
     "its rate after a change of driver, build or address: a sold key is another node"},
    {"change_seconds", &Policy::change_seconds, "seconds", "for so long"},
    {"coordinator_rate", &Policy::coordinator_rate, "ppm",
     "audits by the coordinator's own referee, so that no coalition of nodes is everybody"},
    {"stake_margin", &Policy::stake_margin, "ppm",
     "of the rate at which a fault costs what a fake brings, in windows that pay much beside what "
     "is in escrow: a large one after small ones, the first after a pause, those of a slow node"},
    {"escrow_windows", &Policy::escrow_windows, "windows",
     "the pay of the latest ones is at stake: at 5 % an all-cheating streak survives as many with "
     "0.004 %"},
    {"escrow_seconds", &Policy::escrow_seconds, "seconds", "and at least for so long"},
    {"escrow_idle_seconds", &Policy::escrow_idle_seconds, "seconds",
     "and no longer than this: who leaves gets all of it, or its last windows would be free to "
     "fake"},
    {"audit_seconds", &Policy::audit_seconds, "seconds",
     "inputs of a window are kept so long; who cannot show them then is at fault"},
    {"canary_rate", &Policy::canary_rate, "ppm",
     "of the traffic is the swarm's own, so that newcomers have work that discloses no user's "
     "prompt"},
    {"fault_windows", &Policy::fault_windows, "windows",
     "whose pay a fault costs: more than cheating brings two neighbours until one of them is seen, "
     "so "
     "that conceding it is no way out; honest memory flips bits too rarely to feel it"},
    {"fault_limit", &Policy::fault_limit, "faults", "so many, and it is a newcomer again"},
    {"fault_seconds", &Policy::fault_seconds, "seconds", "within so long"},
    {"price_prefill", &Policy::price_prefill, "credits", "for a layer and a token of a prompt"},
    {"price_cached", &Policy::price_cached, "ppm",
     "of price_prefill, for a token of a prompt that was cached: its KV takes memory and no time"},
    {"price_decode", &Policy::price_decode, "credits",
     "for a layer and a generated token: at batch 8 prefill does a token in 19 % of the time"},
    {"price_fee", &Policy::price_fee, "ppm", "on top, which pays for audits"},
    {"assumed_gain", &Policy::assumed_gain, "ppm",
     "g: what a cheat saves of a window's pay (all of its cost, where cost is 70 % of it)"},
    {"assumed_collusion", &Policy::assumed_collusion, "ppm",
     "q: share of the audits that the cheat's friends do"},
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
