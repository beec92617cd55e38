// Sentences for people: what a swarm lacks to a pipeline that serves.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "coordinator/coordinator.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {

// How many workers are here, which of them are away or barred and why, which stages are not ready,
// and why the last pipeline ended (`last_loss`, where it is not empty).
std::string missing_sentence(const CoordinatorOptions& options, const Registry& registry,
                             const Pipelines& pipelines, const std::string& last_loss);

// The layers that no worker here could serve, where layers are split evenly.
std::vector<LayerRange> uncovered_layers(const CoordinatorOptions& options,
                                         const Registry& registry, const Pipelines& pipelines);

// "paused" or "drained".
const char* verb_of(const Away& away);

}  // namespace hearth::coordinator
