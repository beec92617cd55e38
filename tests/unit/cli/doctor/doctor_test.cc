#include "cli/doctor/doctor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hearth::cli {
namespace {

const std::vector<Finding> kFindings = {
    {"clock", Health::kOk, "right", ""},
    {"mtu", Health::kWarning, "small\x1b[2J", "sudo ip link\nsudo ip \x1b[2J"},
    {"permissions", Health::kFailed, "open", "chmod 600 x"},
    {"coordinator", Health::kSkipped, "none", ""},
};

TEST(Doctor, LinesForPeople) {
  EXPECT_EQ(doctor_lines(kFindings),
            (std::vector<std::string>{
                "ok       clock        right", "warning  mtu          small\\x1b[2J",
                "                      mend: sudo ip link",
                "                      mend: sudo ip \\x1b[2J", "failed   permissions  open",
                "                      mend: chmod 600 x", "skipped  coordinator  none",
                "1 failed, 1 warning"}));
}

TEST(Doctor, JsonForPrograms) {
  const auto json = nlohmann::json::parse(doctor_json(kFindings, "1.2"));
  EXPECT_EQ(json["version"], "1.2");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["warnings"], 1);
  ASSERT_EQ(json["findings"].size(), 4U);
  EXPECT_EQ(json["findings"][1]["health"], "warning");
  EXPECT_EQ(json["findings"][1]["mend"], "sudo ip link\nsudo ip \x1b[2J");
  EXPECT_FALSE(json["findings"][0].contains("mend"));
  EXPECT_NO_THROW(doctor_json({{"disk", Health::kOk, "\xff", ""}}, "1"));
}

}  // namespace
}  // namespace hearth::cli
