// Assignment: a worker's part in one pipeline, read from the coordinator's Assign and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "proto/control.pb.h"

namespace hearth::node {

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
  std::uint32_t batches_in_flight = 0;
  std::optional<Duration> itl_target;  // nothing: the batcher's default
  std::uint32_t protocol = 0;          // known to all stages and the coordinator
  std::optional<Hash256> model;        // as its receipts name it; nothing: no receipts

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
};

// `model_layers`: layers of the model that this worker holds. kInvalidInput names field and limit.
Result<Assignment> read_assignment(const control::v1::Assign& assign, std::uint32_t model_layers);

}  // namespace hearth::node
