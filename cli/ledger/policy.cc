#include "ledger/policy.h"

#include <nlohmann/json.hpp>

#include "cli/ledger/standings.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/table.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ledger::Deterrence;
using ledger::Level;
using ledger::Policy;

constexpr Level kServing[] = {Level::kProbation, Level::kRegular, Level::kVeteran};

std::string decimals(double value) { return fmt::format("{:.1f}", value); }

double share(std::int64_t ppm) { return static_cast<double>(ppm) / ledger::kMillion; }

std::int64_t rate_of_a_tenth(const Policy& policy) { return ledger::stake_rate(policy, 1, 10); }

void print_policy_json(const Policy& policy) {
  OrderedJson json;
  json["hash"] = ledger::policy_hash(policy).hex();
  for (const ledger::PolicyRow& row : ledger::policy_table()) {
    json["policy"].push_back(
        {{"name", row.name}, {"value", policy.*row.field}, {"unit", row.unit}, {"why", row.why}});
  }
  json["assumed"] = {{"g", share(policy.assumed_gain)},
                     {"d", 1.0},
                     {"q", share(policy.assumed_collusion)},
                     {"rate_of_a_tenth_of_escrow_ppm", rate_of_a_tenth(policy)}};
  for (const Level level : kServing) {
    const Deterrence found = ledger::deterrence(policy, level);
    json["deterrence"].push_back({{"level", ledger::level_name(level)},
                                  {"audit_rate_ppm", found.rate},
                                  {"required_windows", found.required},
                                  {"at_stake_windows", found.stake},
                                  {"margin", found.margin()},
                                  {"required_fault_windows", found.required_fault},
                                  {"fault_windows", found.fault}});
  }
  print_line("{}", json.dump());
}

void print_text(const Policy& policy) {
  Table rules({"RULE", "VALUE", "UNIT", "WHY"});
  for (const ledger::PolicyRow& row : ledger::policy_table()) {
    rules.add({std::string(row.name), std::to_string(policy.*row.field), std::string(row.unit),
               std::string(row.why)});
  }
  for (const std::string& line : rules.lines()) print_line("{}", line);
  print_line(
      "\nCheating loses when the node's stake, in windows' pay, is above g / (p d (1-q)) - 1:\n"
      "g = {:.2f} is the part of a window's pay that a cheat saves, q = {:.2f} the part of audits\n"
      "that colluding nodes do, p the audit rate, and d = 1 the part of false results that an\n"
      "audit finds. A fault that a node concedes must cost more than g / (p d (1-q)).\n",
      share(policy.assumed_gain), share(policy.assumed_collusion));
  Table margins(
      {"LEVEL", "AUDITED", "MUST BE ABOVE", "AT STAKE", "MARGIN", "FAULT ABOVE", "FAULT"});
  for (const Level level : kServing) {
    const Deterrence found = ledger::deterrence(policy, level);
    margins.add({std::string(ledger::level_name(level)),
                 decimals(static_cast<double>(found.rate) * 100 / ledger::kMillion) + " %",
                 decimals(found.required), std::to_string(found.stake),
                 decimals(found.margin()) + " times", decimals(found.required_fault),
                 std::to_string(found.fault)});
  }
  for (const std::string& line : margins.lines()) print_line("{}", line);
  print_line(
      "\nAt any level a window is audited at {:.1f} % when its pay is a tenth of its worker's "
      "escrow,\n"
      "and always when its pay is the whole escrow.",
      100 * share(rate_of_a_tenth(policy)));
  print_line("\nhash of these rules: {}", ledger::policy_hash(policy).hex());
}

}  // namespace

int run_ledger_policy(const LedgerPolicyOptions& options) {
  const Policy policy;
  options.json ? print_policy_json(policy) : print_text(policy);
  return kExitDone;
}

}  // namespace hearth::cli
