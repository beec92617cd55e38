// The model of a worker. On the server's machine it is the whole file. On a member it is described
// by the cluster's signed manifest, and the worker fetches its own layers.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "cli/home/member.h"
#include "cli/terminal/progress.h"
#include "cli/worker/worker.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"
#include "node/holding.h"
#include "node/layers/layer_store.h"

namespace hearth::cli {

// Reports the layers that a worker holds, why, and the progress of fetching them: text on stderr,
// or lines of JSON on stdout. Thread-safe.
class HoldReport {
 public:
  explicit HoldReport(bool json) : json_(json) {}

  struct Plan {
    LayerRange layers;
    std::uint32_t model_layers = 0;
    std::string why;
    std::uint64_t bytes = 0;   // on the disk
    std::uint64_t memory = 0;  // that they will take at least, loaded and with KV
    std::uint64_t budget = 0;  // of this machine; 0: a GPU's memory, which the device reports
  };
  void plan(const Plan& plan);
  void progress(const node::Holding& holding);
  void done(LayerRange layers, std::uint64_t bytes, std::uint64_t fetched,
            const std::string& in_place);
  void failed(const Error& error);
  // While the coordinator makes its manifest.
  void hashing(std::uint64_t done, std::uint64_t total);

 private:
  void bar(const std::string& message, std::uint64_t done, std::uint64_t total);

  const bool json_;
  SystemClock clock_;
  std::mutex mutex_;
  std::string message_;  // of the bar
  std::optional<ProgressBar> bar_;
  TimePoint said_{};  // the last progress in JSON
  TimePoint since_{};
  std::uint64_t from_ = 0;
};

struct WorkerModel {
  std::shared_ptr<const model::GgufFile> file;  // its header is right; its tensors, without a store
  model::ModelSpec spec;
  std::unique_ptr<Member> member;  // of a machine that has joined; else it enters later
  std::shared_ptr<HoldReport> report;
  const node::Device* device = nullptr;  // once it is open; null: the processor
  std::uint64_t draft_bytes = 0;         // memory that a draft model takes
  std::unique_ptr<node::LayerStore>
      store;  // null: the file is whole. Last: its thread sees the rest
};

// Waits for a coordinator that does not answer, unless an earlier run knows enough; Ctrl-C ends it
// (kCancelled). kInvalidInput where no model is named and no cluster was joined. An emulated GPU
// fetches no layers, so its model is always named.
Result<std::unique_ptr<WorkerModel>> open_worker_model(const WorkerOptions& options);

}  // namespace hearth::cli
