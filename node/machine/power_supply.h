// Whether a machine runs on its battery, as Linux says.
#pragma once

#include <filesystem>

namespace hearth::node {

// A battery of the machine itself is being emptied, and no supply from outside is connected.
bool on_battery(const std::filesystem::path& folder = "/sys/class/power_supply");

}  // namespace hearth::node
