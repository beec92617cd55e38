// available_memory: the bytes that this process may still take without swapping, within the memory
// limits of its control groups (containers, systemd units).
#pragma once

#include <cstdint>
#include <string>

namespace hearth {

// Bytes. `root`: where /proc and /sys are, for tests. The largest number if nothing is known.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace hearth
