// Gives the stages of hearth-liar the mistake whose number is in HEARTH_DEFECT
// (tests/defects/liar.patch).
#include <cstdlib>

#include "proto/defect.h"

namespace hearth {
namespace {

[[maybe_unused]] const bool is_planted = [] {
  if (const char* number = std::getenv("HEARTH_DEFECT")) {
    planted_swarm_defect = static_cast<SwarmDefect>(std::atoi(number));
  }
  return true;
}();

}  // namespace
}  // namespace hearth
