// One round of the soak: many sequences of one model run together (the crowd), with randomly chosen
// batches, splits and kernels, and each is compared with a run of its own (the lone run).
//
// The lone run: one sequence at a time, its prompt in one chunk, one thread, one kernel table, and
// a stage for each layer, so that every boundary is hashed. The crowd: joins and leaves at any
// step, any chunk and batch size, any split, 1, 2 or 4 threads, and another kernel table at each
// step, or a card.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "node/engine/device.h"

namespace hearth::cli {

struct SoakModel {
  std::string name;
  std::shared_ptr<const model::GgufFile> file;
};

// What is drawn from: a table that stands there twice is drawn twice as often. None is empty.
struct SoakTables {
  std::vector<const kernels::Kernels*> lone;   // one a round
  std::vector<const kernels::Kernels*> crowd;  // one a step
  node::Device* device = nullptr;              // not null: it computes the crowd, no table does
};

// A token is a position of a sequence: what was compared of it is its hash at every boundary of the
// crowd's split and, where one was sampled, all logits and the token after it with its log
// probabilities; at the last position of a sequence that stayed also the keys and values of every
// layer.
struct SoakCount {
  std::uint64_t compared = 0;
  std::uint64_t sampled = 0;  // of those compared, the ones that a token was sampled from
  std::uint64_t unequal = 0;
  std::string first;  // where the first unequal one was
  void add(const SoakCount& other);
};

// The same state of `random` gives the same round. kCancelled once `stop` says so.
Result<SoakCount> soak_round(const SoakModel& model, const SoakTables& tables, SeededRandom random,
                             const std::function<bool()>& stop);

}  // namespace hearth::cli
