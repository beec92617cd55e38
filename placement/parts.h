// The parts of a model's matrices that the ranks of a group take: by their speeds, and no more than
// their memories hold.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::placement {

// Of one rank.
struct RankFigures {
  double speed = 0.0;              // of any unit, above 0
  std::uint64_t memory_bytes = 0;  // for its part of the stage
};

// All parts together; a part is one of so many.
inline constexpr std::uint32_t kParts = 256;
// Speeds within this factor of the fastest rank's count as equal to it: measurements are not
// better.
inline constexpr double kAlikeSpeed = 1.15;

// The part of each rank, of kParts together, of a stage of `bytes` bytes. What a rank has no memory
// for goes to the others by their speeds. Empty: their memories together do not hold the stage.
std::vector<std::uint32_t> divide_parts(const std::vector<RankFigures>& ranks, std::uint64_t bytes);

}  // namespace hearth::placement
