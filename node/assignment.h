// Assignment: a worker's part in one pipeline, read from the coordinator's Assign and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "placement/steps.h"
#include "proto/control.pb.h"

namespace hearth::node {

// One worker of a group that computes a stage together (node/engine/ranks).
struct AssignedRank {
  std::string node;
  std::string address;     // where RankLinks of the other ranks reach it
  std::uint32_t part = 0;  // of every matrix, of the sum of all parts
  friend bool operator==(const AssignedRank&, const AssignedRank&) = default;
};

struct Assignment {
  Epoch epoch;
  std::uint32_t stage = 0;
  std::uint32_t stages = 1;
  LayerRange layers;
  std::string next_address;  // unused where a pipeline has one stage, like the names
  std::string next_node;
  std::string previous_node;
  std::string coordinator_address;  // dialled by the last stage
  std::uint32_t batch_rows = 0;
  std::uint32_t batches_in_flight = 0;        // at most
  std::optional<placement::StepTimes> times;  // nothing: unmeasured
  std::optional<Duration> itl_target;         // nothing: the batcher's default
  std::uint32_t protocol = 0;                 // known to all stages and the coordinator
  std::optional<Hash256> model;               // as its receipts name it; nothing: no receipts

  std::vector<AssignedRank> group;  // rank 0 first; empty: this worker alone
  std::uint32_t rank = 0;           // of this worker in the group; rank 0 has the stage's links

  bool leads() const { return rank == 0; }
  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
};

// `model_layers`: layers of the model that this worker holds. kInvalidInput names field and limit.
Result<Assignment> read_assignment(const control::v1::Assign& assign, std::uint32_t model_layers);

}  // namespace hearth::node
