// Which layers a worker holds and is asked to hold, as messages of the control plane.
#pragma once

#include <cstdint>

#include "base/crypto.h"
#include "base/result.h"
#include "node/holding.h"
#include "proto/control.pb.h"

namespace hearth::node {

void write_holding(const Holding& holding, control::v1::Holding& message);

struct HoldMessage {
  HoldPlan plan;
  Hash256 model;  // zero: not known
};
// `model_layers`: layers of the model. kInvalidInput names field and limit.
Result<HoldMessage> read_hold(const control::v1::Hold& message, std::uint32_t model_layers);

}  // namespace hearth::node
