// What a worker measured, as messages of the control plane.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "node/stage_options.h"
#include "proto/control.pb.h"

namespace hearth::node {

control::v1::WorkerMessage measured_message(const Measured& measured,
                                            std::uint64_t kv_budget_bytes);
// The link to `node`; an error is told as its text.
control::v1::WorkerMessage probed_message(const std::string& node, const Result<LinkRate>& rate);

}  // namespace hearth::node
