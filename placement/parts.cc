#include "placement/parts.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hearth::placement {
namespace {

// The most parts for which a rank has memory.
std::uint32_t room_of(const RankFigures& rank, std::uint64_t bytes) {
  if (bytes == 0 || rank.memory_bytes >= bytes) return kParts;
  const double share = static_cast<double>(rank.memory_bytes) / static_cast<double>(bytes);
  return static_cast<std::uint32_t>(share * kParts);
}

double speed_of(const RankFigures& rank, double fastest) {
  return rank.speed * kAlikeSpeed >= fastest ? fastest : rank.speed;
}

}  // namespace

std::vector<std::uint32_t> divide_parts(const std::vector<RankFigures>& ranks,
                                        std::uint64_t bytes) {
  INVARIANT(!ranks.empty(), "a group has ranks");
  double fastest = 0.0;
  for (const RankFigures& rank : ranks) fastest = std::max(fastest, rank.speed);
  if (!(fastest > 0.0) || !std::isfinite(fastest)) return {};
  std::vector<std::uint32_t> parts(ranks.size());
  std::vector<bool> full(ranks.size());
  std::uint32_t left = kParts;
  // Each pass gives the rest to the ranks with memory by their speeds, and fills one rank at least.
  while (true) {
    double speeds = 0.0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (!full[i]) speeds += speed_of(ranks[i], fastest);
    }
    if (!(speeds > 0.0)) return {};
    bool filled = false;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (full[i]) continue;
      const double wanted = left * speed_of(ranks[i], fastest) / speeds;
      const std::uint32_t room = room_of(ranks[i], bytes);
      if (wanted <= room) continue;
      parts[i] = room;
      full[i] = true;
      filled = true;
    }
    if (filled) {
      left = kParts;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (full[i]) left -= std::min(left, parts[i]);
      }
      if (left == 0) return parts;
      continue;
    }
    // Each end is rounded, so that the parts are together the whole.
    double end = 0.0;
    std::uint32_t given = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (full[i]) continue;
      end += left * speed_of(ranks[i], fastest) / speeds;
      const auto until = static_cast<std::uint32_t>(std::lround(end));
      parts[i] = until - given;
      given = until;
    }
    return parts;
  }
}

}  // namespace hearth::placement
