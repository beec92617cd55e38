// How much memory this process may still take: what the kernel would give without swapping, and no
// more than any memory limit of the control groups it lives in (containers, systemd units) leaves.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::node {

// Bytes. `root`: where /proc and /sys are, for tests. The largest number where nothing is known.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace hearth::node
