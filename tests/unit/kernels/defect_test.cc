#include "kernels/defect.h"

#include <gtest/gtest.h>

namespace hearth::kernels {
namespace {

// What is tested, and released, is the canonical function. tests/defects/run leaves this test out.
TEST(PlantedDefect, IsNone) { EXPECT_EQ(planted_defect(), Defect::kNone); }

}  // namespace
}  // namespace hearth::kernels
