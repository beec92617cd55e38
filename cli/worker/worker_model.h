// The model of a worker. Of a server's own machine: its file, as it is. Of a machine that has
// joined a cluster: what the cluster's signed manifest says, of which it brings its own layers.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/home/member.h"
#include "cli/worker/hold_report.h"
#include "cli/worker/worker.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"
#include "node/layers/layer_store.h"

namespace hearth::cli {

struct WorkerModel {
  std::shared_ptr<const model::GgufFile> file;  // its header is right; its tensors, without a store
  model::ModelSpec spec;
  std::unique_ptr<Member> member;  // of a machine that has joined; else it enters later
  std::shared_ptr<HoldReport> report;
  const node::Device* device = nullptr;  // once it is open; null: the processor
  std::unique_ptr<node::LayerStore>
      store;  // null: the file is whole. Last: its thread sees the rest
};

// Waits for a coordinator that does not answer, unless an earlier run knows enough; Ctrl-C ends it
// (kCancelled). kInvalidInput where no model is named and no cluster was joined.
Result<std::unique_ptr<WorkerModel>> open_worker_model(const WorkerOptions& options);

}  // namespace hearth::cli
