// The models that a server offers: read from their files, checked against this machine, and named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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
  // Nothing when layers are placed by hand or in equal shares.
  std::optional<coordinator::MeasuredPlacement> placement;
  // With several models: the files that hold it, with their bytes, and the bytes of all tensors
  // that take part in computing.
  std::vector<std::pair<std::string, std::uint64_t>> files = {};
  std::uint64_t weight_bytes = 0;
  // Likewise: the memory that the local workers need to hold all of it; 0: it cannot be computed.
  std::uint64_t local_bytes = 0;
};

// In the order of the options. A file from a folder that cannot be served is left out, with a
// warning. kInvalidInput: two models have the same name or the same header.
Result<std::vector<OfferedModel>> offer_models(const ServeOptions& options);

// A sentence that compares what a model needs with what these workers have; empty: they may have
// room, or have not been measured.
std::string why_no_room(const OfferedModel& offered, const coordinator::SwarmStatus& now);

// Why its files cannot be loaded: one is gone, or has another length. Empty: they can.
std::string why_no_file(const OfferedModel& offered);

// Where a pulled model came from, for machines that may fetch it there themselves.
std::vector<std::string> sources_of(const std::string& path);

// For a coordinator of this model, but for what a running server adds. `began`: unix seconds from
// which pipelines are numbered.
coordinator::CoordinatorOptions coordinator_options(const ServeOptions& options,
                                                    const coordinator::http::ServedModel& served,
                                                    std::int64_t began);

// The values that the options give on this machine: threads of each local worker; stages, 0 for the
// best number; the device of each local worker.
std::uint32_t threads_of(const ServeOptions& options);
std::uint32_t stages_of(const ServeOptions& options);
// Of this model, which may be one that is not split.
std::uint32_t stages_of(const ServeOptions& options, const model::ModelSpec& spec);
std::vector<std::string> devices_of(const ServeOptions& options);

// Logs what the user may do next. `api`: the API's address for other machines; empty: they reach
// none. `cluster`: its name; empty: no machine can join.
void log_next_step(const ServeOptions& options, const std::string& api, const std::string& cluster);

}  // namespace hearth::cli
