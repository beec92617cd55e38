// Bounds of joining, and of looking at a link.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::limits {

inline constexpr std::uint32_t kWaitingNodes = 32;        // that wait for a person to let them in
inline constexpr std::uint32_t kWaitingNodesAddress = 4;  // of those, from one address
inline constexpr std::uint32_t kWaitingSeconds = 60;      // after it has asked for the last time
inline constexpr std::size_t kFoundClusters = 64;         // that a network announces
inline constexpr std::size_t kPingBytes = 1024 * 1024;    // of a ping, and of its answer
inline constexpr std::uint32_t kDialBacks = 64;           // under way or remembered
inline constexpr std::uint32_t kDialBackSeconds = 10;     // that one is remembered

}  // namespace hearth::limits
