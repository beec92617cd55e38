// Pipelines: the pipelines and their workers in order, from forming to serving to their end. It
// builds the messages to workers and checks theirs; the Coordinator sends and receives them.
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

// Another worker of a stage that a group computes together.
struct Rank {
  std::string node;
  LinkId link;          // control
  std::string address;  // for the other ranks
  std::uint32_t part = 0;
  bool ready = false;
};

// A worker's place in a pipeline.
struct Seat {
  Seat(std::uint32_t of_stage = 0, std::uint32_t of_rank = 0) : stage(of_stage), rank(of_rank) {}
  std::uint32_t stage;
  std::uint32_t rank;
};

// The worker of a stage: of a group, its rank 0, which has the stage's links and makes its
// receipts.
struct Member {
  std::string node;
  LinkId link;  // control
  std::string data_address;
  LayerRange layers;
  bool ready = false;
  bool newcomer = false;          // when the pipeline was formed
  LinkRoute route = {};           // of its link to the next stage
  std::string no_route = {};      // why it has none; empty: it has one
  std::vector<Rank> others = {};  // from rank 1 on; empty: the stage has one worker
  std::string rank_address = {};  // like `part`, of a group's rank 0
  std::uint32_t part = 0;

  const std::string& node_of(std::uint32_t rank) const;
};

// A checking pipeline consists of newcomers that recompute the work of serving pipelines; their
// agreement affects only their own standing (ledger/PROTOCOL.md, 4 and 5). It has the same layer
// split as a serving pipeline. It gets only the coordinator's own prompts and those whose clients
// allow it. When newcomers do not cover all layers, spare nodes of standing help, until another
// pipeline may want them. The state when it was formed:
struct Checking {
  std::size_t unplaced = 0;  // nodes of standing outside pipelines
  std::size_t serving = 0;   // pipelines that served
};

struct Pipeline {
  Epoch epoch;
  bool serving = false;                        // or checking, if `checking` is set
  std::optional<Checking> checking;            // set: it computes only audits
  TimePoint deadline{};                        // for forming
  std::vector<Member> members;                 // by stage
  RouteKind first_route = RouteKind::kDirect;  // of the coordinator's link to the first stage
  std::uint32_t kv_pages = 0;                  // the smallest of the ready stages'
  std::uint32_t kv_page_tokens = 0;
  std::uint32_t sequences = limits::kRunningSequences;  // the smallest number of the ready stages
  // Whether stages keep pages of ended sequences: where sequences keep a state, none does.
  bool keeps_prefixes = true;
  std::optional<placement::StepTimes> times;  // of its steps; nothing: unmeasured
  std::optional<Hash256> model;               // as receipts name it; nothing: no receipts
  std::vector<std::string> foreign;           // why `model` is absent: nodes of other builds
  std::optional<StepId> last_step;            // latest step that the last stage answered

  bool all_ready() const;
  bool is_ready(Seat seat) const;
  // The names of all workers, by stage and rank.
  std::vector<std::string> nodes() const;
  // Calls of(seat, node, link) for each worker, by stage and rank.
  template <typename Of>
  void for_each(const Of& of) const {
    for (std::uint32_t stage = 0; stage < members.size(); ++stage) {
      const Member& member = members[stage];
      of(Seat{stage, 0}, member.node, member.link);
      for (std::uint32_t i = 0; i < member.others.size(); ++i) {
        of(Seat{stage, i + 1}, member.others[i].node, member.others[i].link);
      }
    }
  }
  // "worker NAME (stage 1 of 3, layers 10 to 20)", of a group "(rank 2 of 4 of stage 1 of 3, ...)".
  std::string describe(Seat seat) const;
};

class Pipelines {
 public:
  Pipelines(const CoordinatorOptions& options, const Clock& clock, Registry& registry);

  // A node reports an earlier epoch. If this process did not give it, an earlier coordinator's
  // clock was ahead, and new pipelines get greater epochs.
  void go_on_above(Epoch epoch) {
    if (epoch.value >= numbers_.epoch) numbers_.epoch = epoch.value + limits::kEpochsOfSecond;
  }

  // The next pipeline, if enough free workers have room for the model; assigns its members. Null
  // otherwise.
  Pipeline* form();
  // The next checking pipeline, with the layer split of a serving one, of newcomers with this
  // program's build and nodes that form() does not need. Null otherwise: why_newcomers_wait() has
  // the reason.
  Pipeline* form_checking(const std::string& build);
  const std::string& why_newcomers_wait() const { return why_newcomers_wait_; }
  // Checking pipelines that must end, and why: no pipeline has their layer split any more, a node
  // has finished its newcomer's checks, or a serving pipeline may want a node of standing.
  std::vector<std::pair<Epoch, std::string>> outdated() const;
  // Whether no pipeline except checking ones forms or serves.
  bool none() const { return placed() == 0; }
  // Why form() formed no pipeline of CoordinatorOptions::ranks ranks a stage; empty: it did, or
  // ranks are not fixed.
  const std::string& why_groups_wait() const { return why_groups_wait_; }
  control::v1::Assign assign_message(const Pipeline& pipeline, Seat seat,
                                     const std::string& coordinator_address) const;
  // The worker's stage is loaded and linked. kInvalidInput when its KV pages are unusable.
  Status ready(Pipeline& pipeline, Seat seat, const control::v1::StageReady& ready);
  // The nodes of the pipeline that would certainly form if this one ended now, without fetching
  // anything; with placement by measurements all nodes of which it may consist. Empty: no pipeline
  // would, or that is unknown.
  std::vector<std::string> successor(const Pipeline& pipeline) const;
  // Frees all members. The culprits, and members that were not ready in time, rest before they are
  // chosen again.
  void end(Epoch epoch, const std::vector<std::string>& culprits);

  // Better pipelines of all nodes than the serving ones (Placing::better()); nothing while one
  // forms.
  std::optional<Better> better();
  // Makes these the next pipelines to form.
  void adopt(const Better& better) { placing_.adopt(better); }

  // For placement by measurements.
  LinkBook& ways() { return ways_; }
  const LinkBook& ways() const { return ways_; }
  const Placing& placing() const { return placing_; }

  Pipeline* find(Epoch epoch);
  std::vector<Epoch> overdue() const;  // forming for longer than the forming timeout
  const std::map<Epoch, Pipeline>& all() const { return pipelines_; }

 private:
  std::size_t placed() const;  // pipelines except checking ones
  std::size_t serving() const;
  bool has_cut(const Pipeline& pipeline) const;
  Pipeline& begin(const Placed& placed);
  Pipeline* form_groups();
  std::vector<LayerRange> choose(std::vector<Node*>& free) const;
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
  Numbers& numbers_;
  bool formed_ = false;  // a pipeline has formed before
  std::string why_newcomers_wait_;
  std::string why_groups_wait_;
};

}  // namespace hearth::coordinator
