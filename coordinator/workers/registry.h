// Registry: the workers with a control session, and for some time those that lost theirs. A plain
// table with rules: it sends nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/workers/counter_rate.h"
#include "coordinator/workers/step_pace.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

// The nodes that accuse a node of sending wrong bytes of the model.
struct Accusers {
  std::set<std::string> names;  // at most limits::kAccusers
  std::string item;             // named by the first accuser
};

struct Node {
  enum class State { kFree, kLoading, kServing, kLost };

  NodeStatus status;  // as the worker reported it; snapshot() fills in state and age
  State state = State::kFree;
  LinkId link;
  std::string owner;  // with receipts: the owner's hash in the log; empty: unknown
  TimePoint last_heard{};
  TimePoint lost_at{};
  TimePoint since{};        // begin of its session
  TimePoint measured_at{};  // time of its status.measured, or of its return with one
  LayerRange plan;          // the layers that a partial node was ordered to hold
  std::string why;
  Accusers accusers;               // since it registered
  std::uint16_t dialled_port = 0;  // the outside port that is or was tried; 0: none, or in vain
  TimePoint dial_again{};          // then a port may be tried
  TimePoint rests_until{};         // not chosen for a pipeline before this time
  std::uint64_t turn = 0;          // free nodes are chosen in this order, those in doubt last
  bool loaded = false;             // the layers and stage in its status are loaded
  Epoch assigned;                  // the last pipeline that it was assigned to; 0: none
  std::uint32_t strikes = 0;       // recently lost links with it at one end
  TimePoint struck_at{};
  bool late = false;  // late with its heartbeats at the last free_nodes()
  StepPace pace;      // for its present layers
  TimePoint slow_until{};
  bool slow = false;         // at the last free_nodes()
  bool unreceipted = false;  // likewise: audits are on, and its work has no receipts
  bool checks = false;       // its pipeline is a checking one
  CounterRate rows;          // from its heartbeats
  CounterRate busy_seconds;
  CounterRate energy;
};

class Registry {
 public:
  Registry(const CoordinatorOptions& options, const Clock& clock);

  // Why a worker cannot be registered here: kVersion for other versions, kInvalidInput for another
  // model or fields out of range, each naming both sides or the limit.
  Status check(const control::v1::Register& body) const;
  // Adds a checked worker; one of the same name must be lost or absent. Earlier measurements of the
  // same machine are kept. The pointer lives until forget(). kNoCapacity when limits::kWorkers have
  // sessions.
  // `seen_host`: as NodeStatus.
  Result<Node*> add(LinkId link, const control::v1::Register& body, std::string seen_host = {});

  // Takes a node's report of its layers; ignores impossible values.
  void hold(Node& node, const control::v1::Holding& holding) const;

  Node* find(LinkId link);
  Node* find(const std::string& name);
  const Node* find(const std::string& name) const;
  // Whether it was recently found slow; it is then chosen after others.
  bool slow(const Node& node) const { return clock_.now() < node.slow_until; }
  // Whether two heartbeats are missing: it may be frozen or failing.
  bool late(const Node& node) const;
  // Whether it is late, or was lost by silence and not by an ended session at most `patience` ago.
  // Its machine may have lost the network and may return with its layers loaded.
  bool may_return(const Node& node, Duration patience) const;
  // Whether a worker of this name has a session with recent messages.
  bool holds(const std::string& name) const;
  // The worker's session has ended; it is remembered for a minute.
  void lose(Node& node);
  // `rank` of the `ranks` that compute the stage together.
  void assign(Node& node, Epoch epoch, std::uint32_t stage, LayerRange layers,
              std::uint32_t rank = 0, std::uint32_t ranks = 1);
  // Frees a node. With a rest above zero it is not chosen before the rest ends, and then last.
  void free(Node& node, Duration rest);
  // Counts a lost link with this node at one end and an unknown culprit. For a minute, nodes with
  // more such losses are chosen after those with fewer.
  void strike(Node& node);
  // The free nodes in the order of choice: late nodes come last, because they may be frozen; before
  // them nodes whose work has no receipts, before these slow nodes, and before these nodes with
  // lost links. Away, barred and resting nodes and newcomers are left out.
  std::vector<Node*> free_nodes() { return free_of(false); }
  std::vector<Node*> free_newcomers() { return free_of(true); }
  // The number of nodes of standing outside pipelines, without away or barred ones and with resting
  // ones.
  std::size_t unplaced() const;
  std::vector<Node*> silent_nodes();  // without messages for too long
  void forget();                      // drops workers lost long ago, and lost non-members
  void set_members(std::set<std::string> names) { members_ = std::move(names); }

  std::vector<NodeStatus> snapshot() const;
  std::vector<const Node*> all() const;    // with sessions
  std::vector<const Node*> known() const;  // with sessions or remembered
  std::uint32_t connected() const;
  static bool may_serve(const Node& node);
  std::uint32_t here() const;  // those of all() that may serve

 private:
  std::vector<Node*> free_of(bool newcomers);
  bool silent(const Node& node) const;
  Status check_holding(const control::v1::Holding& holding) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  std::map<std::string, Node> nodes_;
  std::unordered_map<std::uint64_t, Node*> by_link_;  // those with a session, of nodes_
  std::set<std::string> members_;                     // of the roster; empty: unknown
  std::uint64_t next_turn_ = 0;
};

}  // namespace hearth::coordinator
