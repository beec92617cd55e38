#include "cli/worker/known_answers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

TEST(KnownAnswers, ThisMachineGivesThemAndKernelsItLacksEndTheVerb) {
  const char* given = std::getenv("HEARTH_ISA");
  const std::string before = given != nullptr ? given : "";
  EXPECT_EQ(check_known_answers(), kExitDone);
  setenv("HEARTH_ISA", "none-such", 1);
  EXPECT_EQ(check_known_answers(), kExitFailed);
  given != nullptr ? setenv("HEARTH_ISA", before.c_str(), 1) : unsetenv("HEARTH_ISA");
}

}  // namespace
}  // namespace hearth::cli
