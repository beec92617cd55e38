// The nodes and links of `hearth plan --nodes FILE`, in JSON; a running server gives its own in the
// same form. All values are in bytes and seconds:
//
//   {"batch_rows": 16,
//    "nodes": [{"name": "den", "memory_bytes": 21000000000,
//               "kv_budget_bytes": 4000000000,
//               "layer_seconds": [0.0011, 0.004], "head_seconds": [0.002, 0.003],
//               "step_seconds": 0.00005},
//              {"name": "attic", "memory_bytes": 8000000000, "island": "house",
//               "weight_bytes_per_second": [30e9, 9e9]}],
//    "links": [{"from": "den", "to": "attic", "seconds": 0.0001, "bytes_per_second": 110e6}],
//    "link": {"seconds": 0.0001, "bytes_per_second": 110e6}}
//
// memory_bytes is for weights and KV; it excludes step buffers and another 32 MiB of each worker.
// Pairs are for a step of one row and for one of batch_rows rows. A node has either the times of a
// layer of mean size and of the head of this model, or the rate at which it reads weights.
// step_seconds, batch_rows and kv_budget_bytes (the most memory for KV) are optional. "link"
// applies to each pair that "links" does not name; without it such a pair has no link. Nodes with
// the same "island" may form groups (placement/groups.h); a node without one computes alone.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::cli {

// Nodes, links and batch_rows of a problem whose model is given. kInvalidInput names the field and
// the limit. A key that is not above, the same key twice in an object and the same link twice are
// refused: a misspelt name would otherwise be ignored silently.
Result<placement::Problem> read_plan_nodes(const std::string& json, placement::Model model);

}  // namespace hearth::cli
