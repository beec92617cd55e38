// The input of placement: the measured figures of nodes and links, and the sizes of a model.
//
// Seconds of a stage are linear in its layers (a step's fixed cost, each layer by the bytes it
// reads, the head on the last stage) and in its rows between one row and a batch. A row of one
// stream travels the ring: it waits for every stage and every link. With many streams several steps
// are in flight (placement/steps.h), and the slowest stage or link sets the pace.
//
// A stage is computed by one node, or by a group of them (placement/groups.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "placement/steps.h"

namespace hearth::placement {

enum class Objective : std::uint8_t {
  // The fewest stages with which a single stream is within kAutoMargin of the best and KV has room
  // for kAutoPositions. The remaining nodes form more pipelines or are spares.
  kAuto,
  kLatency,     // maximise the tokens a second of a single stream
  kThroughput,  // maximise those of all streams together
};

// As the flag --optimise spells it.
constexpr std::string_view name_of(Objective objective) {
  switch (objective) {
    case Objective::kAuto: return "auto";
    case Objective::kLatency: return "latency";
    case Objective::kThroughput: return "throughput";
  }
  return "";
}

// Under kAuto a pipeline with fewer stages may take this factor of the best one's seconds. A
// running plan is replaced only by one that gains more than this factor.
constexpr double kAutoMargin = 1.1;

// Eight requests of the usual length, or one long conversation of an agent. Two GPUs may hold a
// model with next to no room for KV; more pipelines of such pairs have no more for any request.
constexpr std::uint64_t kAutoPositions = 8 * limits::kDefaultMaxTokens;

// What sequences keep in layers.
struct KvBytes {
  std::uint64_t position = 0;  // of each position
  std::uint64_t state = 0;     // of a sequence, whatever its positions

  std::uint64_t of(std::uint64_t positions) const { return position * positions + state; }
  friend bool operator==(const KvBytes&, const KvBytes&) = default;
};

// What the ranks of a group exchange for one row, all ranks together.
struct Exchanges {
  std::uint32_t of_layer = 0;     // exchanges of a layer; 0: no group computes this model
  std::uint64_t layer_bytes = 0;  // in these
  std::uint64_t head_bytes = 0;   // that rank 0 gathers on the last stage
  double whole_part = 0.0;        // of a layer, that every rank computes in whole; below 1
};

struct Model {
  std::vector<std::uint64_t> layer_bytes;  // of weights in memory, of each layer
  std::uint64_t embedding_bytes = 0;       // on the first stage
  std::uint64_t head_bytes = 0;            // on the last stage
  std::uint64_t activation_bytes = 0;      // of one row, from a stage to the next
  std::uint64_t kv_bytes = 0;              // of one position in each layer, where all are equal
  // What sequences keep in each layer, where layers differ: in the size of keys and values, or
  // because some have a state in place of them. Else empty.
  std::vector<KvBytes> layer_kv = {};
  // Bytes of each layer that a step of one row reads, for a mixture of experts; else empty. Memory
  // uses layer_bytes, time uses these.
  std::vector<std::uint64_t> layer_read_bytes = {};
  bool is_whole = false;  // one stage must hold all layers
  Exchanges exchanges = {};

  const std::vector<std::uint64_t>& read_bytes() const {
    return layer_read_bytes.empty() ? layer_bytes : layer_read_bytes;
  }
  // Here, because the engine's tests ask it where this library is not built.
  KvBytes kv_of(LayerRange layers) const {
    INVARIANT(layers.begin <= layers.end && layers.end <= layer_bytes.size(),
              "a stage's layers are the model's");
    if (layer_kv.empty()) return {kv_bytes * layers.size(), 0};
    KvBytes kv;
    for (std::uint32_t layer = layers.begin; layer < layers.end; ++layer) {
      kv.position += layer_kv[layer].position;
      kv.state += layer_kv[layer].state;
    }
    return kv;
  }
  double mean_layer_bytes() const;
  double mean_read_bytes() const;
};

struct Node {
  std::string name;
  double step_seconds = 0.0;       // of every step, whatever its rows and layers
  RowSeconds layer;                // of a layer of mean size, `batch` of Problem::batch_rows rows
  RowSeconds head;                 // of the last stage alone: norm, head and sampling
  std::uint64_t memory_bytes = 0;  // for weights and KV
  // The part of memory_bytes that KV may take.
  std::uint64_t kv_budget_bytes = std::numeric_limits<std::uint64_t>::max();
};

struct Link {
  double delay_seconds = 0.0;     // one way, of a small frame
  double bytes_per_second = 0.0;  // 0: there is no link
};

// Nodes of the same island may form groups; a node of no island computes alone.
constexpr std::uint32_t kNoIsland = std::numeric_limits<std::uint32_t>::max();

struct Problem {
  Model model;
  std::vector<Node> nodes;
  std::vector<Link> links;  // [from * nodes + to]; a node's link to itself is ignored
  std::vector<std::uint32_t> islands = {};  // by node; empty: stages have one node each
  std::uint32_t batch_rows = 16;
  std::uint64_t kv_tokens = 0;  // positions of all sequences that every stage must hold
  std::uint32_t stages = 0;     // 0: the number that is best
  Objective objective = Objective::kLatency;

  const Link& link(std::uint32_t from, std::uint32_t to) const {
    return links[std::size_t{from} * nodes.size() + to];
  }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(model.layer_bytes.size()); }
};

// Every number is in its range; the error names node or link, field and limit.
Status check(const Node& node);
Status check(const Link& link, const std::string& from, const std::string& to);
Status check(const Problem& problem);

// A node of a group, and its part of every matrix, of kParts (placement/parts.h) together.
struct Rank {
  std::uint32_t node = 0;
  std::uint32_t part = 0;
  friend bool operator==(const Rank&, const Rank&) = default;
};

struct Stage {
  std::uint32_t node = 0;  // of Problem::nodes; of a group, rank 0
  LayerRange layers;
  std::vector<Rank> group = {};  // by rank, `node` first; empty: the node computes alone

  // Calls of(node) for each node of the stage.
  template <typename Of>
  void for_each_node(const Of& of) const {
    if (group.empty()) of(node);
    for (const Rank& rank : group) of(rank.node);
  }
  friend bool operator==(const Stage&, const Stage&) = default;
};

// Weights, and what one sequence of kv_tokens positions keeps.
std::uint64_t stage_bytes(const Problem& problem, LayerRange layers);
bool fits(const Problem& problem, const Stage& stage);

// Seconds of a step of `rows` rows.
double stage_seconds(const Problem& problem, const Stage& stage, double rows);
// Seconds of a hop from one stage to the next: of the delay, and of the bytes.
double delay_seconds(const Problem& problem, const std::vector<Stage>& stages, std::size_t from);
double bytes_seconds(const Problem& problem, const std::vector<Stage>& stages, std::size_t from,
                     double rows);

// Seconds of a step of `rows` rows, once round the ring.
double ring_seconds(const Problem& problem, const std::vector<Stage>& stages, double rows);
// The same by rows, with the seconds of each stage and link.
StepTimes step_times(const Problem& problem, const std::vector<Stage>& stages);
// Seconds between two steps of `rows` rows, with S + 1 steps in flight: the load for which a search
// compares pipelines.
double pace_seconds(const Problem& problem, const std::vector<Stage>& stages, double rows);
// Seconds that the objective minimises: the ring of one row, or the pace of a batch.
double cost_seconds(const Problem& problem, const std::vector<Stage>& stages);

struct Prediction {
  double tokens_per_second = 0.0;         // of one stream with a short context
  double all_tokens_per_second = 0.0;     // of `streams` streams together
  std::uint32_t streams = 0;              // S + 1 times batch_rows
  double prompt_tokens_per_second = 0.0;  // of a long prompt alone
  std::uint64_t kv_tokens = 0;            // positions that the fullest stage holds
};
Prediction predict(const Problem& problem, const std::vector<Stage>& stages);
// The rate that the objective maximises.
double rate_of(const Problem& problem, const Prediction& prediction);

}  // namespace hearth::placement
