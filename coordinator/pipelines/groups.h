// Groups: chooses the workers that compute each stage together, and the part that each of them
// takes (kernels/CANONICAL.md, 13).
//
// Parts follow the measured speeds and memories (placement/parts.h). A pipeline has
// CoordinatorOptions::stages stages; for 0, and then only with measurements, the fewest whose
// groups hold their layers. Layers are split evenly. A worker with the loaded share of a stage
// keeps its place; the others are put together by machine, then by name. With receipts, all workers
// of a group have the same owner, because rank 0 answers for a false rank. Workers of unknown
// owners count as one owner's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/workers/link_book.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {

// One stage of a pipeline of groups.
struct GroupedStage {
  std::vector<Node*> nodes;          // by rank
  std::vector<std::uint32_t> parts;  // likewise
  LayerRange layers;
};

struct Grouping {
  std::vector<GroupedStage> stages;  // empty: these nodes form no pipeline
  std::string waiting;               // then the reason, a sentence
};

// `ways`: ranks dial each other directly, so workers that others cannot dial get no place.
Grouping choose_groups(const CoordinatorOptions& options, const LinkBook& ways,
                       const std::vector<Node*>& free);

}  // namespace hearth::coordinator
