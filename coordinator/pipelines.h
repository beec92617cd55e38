// Pipelines: which workers stand in which order, from forming to serving to their end. It builds
// the messages to the workers and judges theirs; the Coordinator sends and receives them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/registry.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

struct Member {
  std::string node;
  LinkId link;  // control
  std::string data_address;
  LayerRange layers;
  bool ready = false;
};

struct Pipeline {
  Epoch epoch;
  bool serving = false;
  TimePoint deadline{};         // of forming
  std::vector<Member> members;  // by stage
  std::uint32_t kv_pages = 0;   // the smallest stage's, of those that are ready
  std::uint32_t kv_page_tokens = 0;
  std::optional<StepId> last_step;  // that the last stage answered

  bool all_ready() const;
  // "worker NAME (stage 1 of 3, layers 10 to 20)"
  std::string describe(std::uint32_t stage) const;
};

class Pipelines {
 public:
  Pipelines(const CoordinatorOptions& options, const Clock& clock, Registry& registry);

  // The next pipeline when enough workers are free and have room for the model; its members are
  // assigned. Null otherwise.
  Pipeline* form();
  control::v1::Assign assign_message(const Pipeline& pipeline, std::uint32_t stage,
                                     const std::string& coordinator_address) const;
  // The worker's stage is loaded and linked. kInvalidInput when its KV pages cannot be used.
  Status ready(Pipeline& pipeline, std::uint32_t stage, const control::v1::StageReady& ready);
  // All members become free; the culprits, and the members that were not ready in a pipeline that
  // took too long, rest before they are chosen again.
  void end(Epoch epoch, const std::vector<std::string>& culprits);

  Pipeline* find(Epoch epoch);
  std::vector<Epoch> overdue() const;  // forming for longer than the forming timeout
  const std::map<Epoch, Pipeline>& all() const { return pipelines_; }

 private:
  std::vector<LayerRange> choose(std::vector<Node*>& free) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  Registry& registry_;
  std::map<Epoch, Pipeline> pipelines_;
  std::uint64_t next_epoch_;
};

}  // namespace hearth::coordinator
