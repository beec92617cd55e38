// The models that a server offers: read from their files, checked against this machine, and named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/serve/serve.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/api/options.h"

namespace hearth::cli {

// A model with all that its coordinator needs.
struct OfferedModel {
  std::string path;  // absolute
  coordinator::http::ServedModel served;
  std::optional<coordinator::MeasuredPlacement> placement;  // where layers are placed by figures
  std::uint64_t weight_bytes = 0;  // of several models: of all tensors that are computed with
};

// In the order of the options. A file that was found in a folder and cannot be served is left out,
// with a warning. kInvalidInput: two have one name, or one header.
Result<std::vector<OfferedModel>> offer_models(const ServeOptions& options);

// What a model needs against what these workers have, a sentence; empty: they may have room, or
// have not measured it.
std::string why_no_room(const OfferedModel& offered, const coordinator::SwarmStatus& now);

// What the options come to on this machine: threads of each local worker; stages, 0 for as many as
// are best; the device of each local worker.
std::uint32_t threads_of(const ServeOptions& options);
std::uint32_t stages_of(const ServeOptions& options);
std::vector<std::string> devices_of(const ServeOptions& options);

}  // namespace hearth::cli
