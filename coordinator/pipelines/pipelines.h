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
#include "base/limits.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/pipelines/placing.h"
#include "coordinator/workers/link_book.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

struct Member {
  std::string node;
  LinkId link;  // control
  std::string data_address;
  LayerRange layers;
  bool ready = false;
  bool newcomer = false;  // when the pipeline was formed
};

// A checking pipeline is one of newcomers, whose agreement moves only their own standing: they
// compute again what pipelines that serve have computed (ledger/PROTOCOL.md, 4 and 5). They stand
// in the same cut as one that serves, and no prompt reaches them but the coordinator's own and
// those that their owners share. Where newcomers do not cover all layers, nodes of standing that no
// pipeline has help, and go back as soon as one may want them. How it was when it was formed:
struct Checking {
  std::size_t unplaced = 0;  // nodes of standing in no pipeline
  std::size_t serving = 0;   // pipelines that served
};

struct Pipeline {
  Epoch epoch;
  bool serving = false;              // or checking, where that is set
  std::optional<Checking> checking;  // set: it computes nothing but audits
  TimePoint deadline{};              // of forming
  std::vector<Member> members;       // by stage
  std::uint32_t kv_pages = 0;        // the smallest stage's, of those that are ready
  std::uint32_t kv_page_tokens = 0;
  std::uint32_t sequences = limits::kRunningSequences;  // likewise: at once
  std::optional<Hash256> model;      // as receipts name it; nothing: none are made
  std::vector<std::string> foreign;  // then, where receipts are wanted: nodes of other programs
  std::optional<StepId> last_step;   // that the last stage answered

  bool all_ready() const;
  // "worker NAME (stage 1 of 3, layers 10 to 20)"
  std::string describe(std::uint32_t stage) const;
};

class Pipelines {
 public:
  Pipelines(const CoordinatorOptions& options, const Clock& clock, Registry& registry);

  // A node was assigned this epoch once. One that this process has not given came of a coordinator
  // whose clock was ahead, with others near it: pipelines that form from here on have greater ones.
  void go_on_above(Epoch epoch) {
    if (epoch.value >= next_epoch_) next_epoch_ = epoch.value + limits::kEpochsOfSecond;
  }

  std::uint64_t next_epoch() const { return next_epoch_; }

  // The next pipeline when enough workers are free and have room for the model; its members are
  // assigned. Null otherwise.
  Pipeline* form();
  // The next checking pipeline of the cut of one that serves, of newcomers with this program's
  // build, and nodes that form() wants for nothing. Null otherwise: why_newcomers_wait() says why.
  Pipeline* form_checking(const std::string& build);
  const std::string& why_newcomers_wait() const { return why_newcomers_wait_; }
  // Checking pipelines that are to end, and why: no pipeline has their cut any more, a node has
  // done its dues, or a node of standing may be wanted by a pipeline that serves.
  std::vector<std::pair<Epoch, std::string>> outdated() const;
  // No pipeline forms or serves but checking ones.
  bool none() const { return placed() == 0; }
  control::v1::Assign assign_message(const Pipeline& pipeline, std::uint32_t stage,
                                     const std::string& coordinator_address) const;
  // The worker's stage is loaded and linked. kInvalidInput when its KV pages cannot be used.
  Status ready(Pipeline& pipeline, std::uint32_t stage, const control::v1::StageReady& ready);
  // The nodes of which the pipeline would be that formed if this one ended now, and which need not
  // fetch anything for it. Empty: none would.
  std::vector<std::string> successor(const Pipeline& pipeline) const;
  // All members become free; the culprits, and the members that were not ready in a pipeline that
  // took too long, rest before they are chosen again.
  void end(Epoch epoch, const std::vector<std::string>& culprits);

  // Pipelines of all nodes that would do more than those that serve (Placing::better); nothing
  // while one forms.
  std::optional<Better> better();
  // The next ones that form.
  void adopt(const Better& better) { placing_.adopt(better); }

  // Read where layers are placed by what was measured.
  LinkBook& ways() { return ways_; }
  const LinkBook& ways() const { return ways_; }
  const Placing& placing() const { return placing_; }

  Pipeline* find(Epoch epoch);
  std::vector<Epoch> overdue() const;  // forming for longer than the forming timeout
  const std::map<Epoch, Pipeline>& all() const { return pipelines_; }

 private:
  std::size_t placed() const;  // pipelines but checking ones
  std::size_t serving() const;
  bool has_cut(const Pipeline& pipeline) const;
  Pipeline& begin(const std::vector<Node*>& nodes, const std::vector<LayerRange>& layers);
  std::vector<LayerRange> choose(std::vector<Node*>& free) const;
  std::vector<LayerRange> place(std::vector<Node*>& free);
  std::vector<LayerRange> by_hand(std::vector<Node*>& free) const;
  std::vector<LayerRange> next(std::vector<Node*>& free);
  bool settles(const std::vector<Node*>& nodes, const std::vector<LayerRange>& layers) const;
  std::vector<Node*> by_stage(const std::vector<Node*>& free) const;
  std::vector<LayerRange> split(const std::vector<Node*>& nodes) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  Registry& registry_;
  LinkBook ways_;
  Placing placing_;
  std::map<Epoch, Pipeline> pipelines_;
  std::uint64_t next_epoch_;
  bool formed_ = false;  // a pipeline, once
  std::string why_newcomers_wait_;
};

}  // namespace hearth::coordinator
