// Whether a machine runs on its battery, as Linux says.
#pragma once

#include <filesystem>

namespace hearth::node {

// True when the machine's own battery discharges and no external supply is connected.
bool on_battery(const std::filesystem::path& folder = "/sys/class/power_supply");

}  // namespace hearth::node
