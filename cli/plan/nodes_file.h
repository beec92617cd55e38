// The nodes and links of `hearth plan --nodes FILE`, in JSON; a running server says its own in the
// same form. Bytes and seconds throughout:
//
//   {"batch_rows": 16,
//    "nodes": [{"name": "den", "memory_bytes": 21000000000,
//               "kv_budget_bytes": 4000000000,
//               "layer_seconds": [0.0011, 0.004], "head_seconds": [0.002, 0.003],
//               "step_seconds": 0.00005},
//              {"name": "attic", "memory_bytes": 8000000000,
//               "weight_bytes_per_second": [30e9, 9e9]}],
//    "links": [{"from": "den", "to": "attic", "seconds": 0.0001, "bytes_per_second": 110e6}],
//    "link": {"seconds": 0.0001, "bytes_per_second": 110e6}}
//
// memory_bytes is for weights and KV: what a worker takes beside them (buffers of its steps, and 32
// MiB) is not of it. Pairs are of a step of one row and one of batch_rows rows. A node says either
// what a layer of mean size and the head of this very model take, or how fast it reads weights.
// step_seconds, batch_rows and kv_budget_bytes (of the memory, for KV at most) may be absent;
// "link" is of every pair that "links" does not name, and without it such a pair has none.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::cli {

// Nodes, links and batch_rows of a problem whose model is given. kInvalidInput names the field and
// the limit. A key that is not above, the same key twice in an object and the same link twice are
// refused: a slip would else be a figure that nobody sees.
Result<placement::Problem> read_plan_nodes(const std::string& json, placement::Model model);

}  // namespace hearth::cli
