#include "coordinator/audit_outcome.h"

namespace hearth::coordinator {

std::string_view verify_name(Verify verify) {
  switch (verify) {
    case Verify::kNone: return "none";
    case Verify::kSpot: return "spot";
    case Verify::kFull: return "full";
  }
  return "none";
}

std::optional<Verify> verify_named(std::string_view name) {
  for (const Verify one : {Verify::kNone, Verify::kSpot, Verify::kFull}) {
    if (verify_name(one) == name) return one;
  }
  return std::nullopt;
}

std::optional<ledger::Level> level_named(std::string_view name) {
  using ledger::Level;
  for (const Level one : {Level::kNewcomer, Level::kProbation, Level::kRegular, Level::kVeteran}) {
    if (ledger::level_name(one) == name) return one;
  }
  return std::nullopt;
}

}  // namespace hearth::coordinator
