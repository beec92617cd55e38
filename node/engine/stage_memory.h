// StageMemory: the memory that a stage takes on this machine, computed before any weight is read,
// and the check that the budget holds it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"

namespace hearth::node {

// Memory of a process beside its stages: program, sockets, stacks, the file's header.
inline constexpr std::uint64_t kProcessBytes = 32 << 20;

// Memory for the rows that a worker's stage keeps for replay, if the machine has it: 30,000
// positions of a 70B model.
inline constexpr std::uint64_t kReplayBytes = 512 << 20;

struct StageMemory {
  std::uint64_t weights = 0;      // packed
  std::uint64_t buffers = 0;      // of steps of batch_rows rows, all of them used
  std::uint64_t page = 0;         // one KV page of all layers of the stage; 0: no layer has any
  std::uint32_t pages = 0;        // pages of the KV budget
  std::uint32_t pages_least = 0;  // of one sequence: the context, or limits::kDefaultMaxTokens
  std::uint64_t state = 0;        // of one sequence in all layers of the stage; 0: none keeps one
  std::uint32_t states = 0;       // that the KV budget asks for
  // Of the KV of one sequence.
  std::uint64_t kv_least() const { return page * pages_least + state; }
  // Without kProcessBytes.
  std::uint64_t least() const { return weights + buffers + kv_least(); }
};

// What a stage takes for KV.
struct KvShare {
  std::uint32_t pages = 0;
  std::uint32_t states = 0;
  std::uint64_t page_bytes(const StageMemory& stage) const { return stage.page * pages; }
  std::uint64_t bytes(const StageMemory& stage) const {
    return page_bytes(stage) + stage.state * states;
  }
};

// The KV budget of a stage that holds so many pages, and states of so many sequences.
std::uint64_t kv_budget_of(const model::ModelSpec& spec, LayerRange layers, std::uint64_t pages,
                           std::uint64_t sequences);
// The pages and states that a stage's KV budget asks for. kNoCapacity when it is under one page.
Result<KvShare> kv_asked(const model::ModelSpec& spec, const EngineOptions& options);

// Also checks shapes and types of the range's tensors. kNoCapacity when the KV budget is under one
// page.
Result<StageMemory> stage_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                 const EngineOptions& options);

// The most that the buffers of a stage take, whatever its layers: of one that has the head, and
// states where sequences keep them.
std::uint64_t most_buffer_bytes(const model::ModelSpec& spec, EngineOptions options);

// Checks the stages of one process. kNoCapacity, with every figure, when `budget` does not hold
// their least() and kProcessBytes.
Status check_memory(const std::vector<StageMemory>& stages, std::uint64_t budget);

// KV of a stage within a budget that holds its least(): what was asked for, or what fits.
KvShare kv_within(const StageMemory& stage, std::uint64_t budget);

// The part of options.replay_bytes that fits the machine's memory beside the stage. kNoCapacity for
// a rank whose memory does not hold all: ranks keep the same rows.
Result<std::uint64_t> replay_within(const model::GgufFile& file, const model::ModelSpec& spec,
                                    const EngineOptions& options);

// `given`, or the available memory of the machine if that is 0.
std::uint64_t memory_budget(std::uint64_t given);

}  // namespace hearth::node
