// available_memory: the bytes that this process may still take without swapping, within the memory
// limits of its control groups (containers, systemd units). held_memory: what a process has taken.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hearth {

// Bytes. `root`: where /proc and /sys are, for tests. The largest number if nothing is known.
std::uint64_t available_memory(const std::string& root = "");

// Bytes that a process holds, without the pages of files. Nothing if it is not known.
std::optional<std::uint64_t> held_memory(pid_t process, const std::string& root = "");

}  // namespace hearth
