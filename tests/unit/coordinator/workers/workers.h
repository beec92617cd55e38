// Options of a small swarm and a worker that fits it.
#pragma once

#include <string>

#include "coordinator/coordinator.h"
#include "proto/control.pb.h"
#include "proto/frame.h"

namespace hearth::testing {

inline coordinator::CoordinatorOptions swarm_options(std::uint32_t stages) {
  coordinator::CoordinatorOptions options;
  options.stages = stages;
  options.model_fingerprint = "00ff";
  options.layers = 4;
  options.shape = {4, 100, 64, false};
  options.canonical_version = 1;
  return options;
}

inline control::v1::Register worker(const std::string& name) {
  control::v1::Register body;
  body.set_node(name);
  body.set_protocol_version(kProtocolVersion);
  body.set_canonical_version(1);
  body.set_model_fingerprint("00ff");
  body.set_layers(4);
  body.set_data_address(name + ":data");
  body.set_isa("avx2");
  body.set_threads(2);
  return body;
}

}  // namespace hearth::testing
