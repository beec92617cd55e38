// Registry: the workers that have a control session, and for a while those that lost theirs.
// A plain table with rules: it sends nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
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

// Who says that a node sent wrong bytes of the model.
struct Accusers {
  std::set<std::string> names;  // at most limits::kAccusers
  std::string item;             // that the first of them named
};

struct Node {
  enum class State { kFree, kLoading, kServing, kLost };

  NodeStatus status;  // what the worker said of itself; state and age are filled in by snapshot()
  State state = State::kFree;
  LinkId link;
  TimePoint last_heard{};
  TimePoint lost_at{};
  TimePoint since{};        // it has its session
  TimePoint measured_at{};  // it said status.measured, or had it when it came or was back
  LayerRange plan;          // what a partial node was told to hold, and why
  std::string why;
  Accusers accusers;          // since it registered
  TimePoint rests_until{};    // not chosen for a pipeline before
  std::uint64_t turn = 0;     // free nodes are chosen in this order, those in doubt last
  bool loaded = false;        // the layers and stage of its status, which it may be given again
  std::uint32_t strikes = 0;  // links lost with it at one end, lately
  TimePoint struck_at{};
  bool late = false;  // with its heartbeats, when free_nodes() last looked
  StepPace pace;      // of the layers that it has now
  TimePoint slow_until{};
  bool slow = false;         // when free_nodes() last looked
  bool unreceipted = false;  // likewise: its work has no receipts, and audits are on
  bool checks = false;       // the pipeline that has it is a checking one
  CounterRate rows;          // of its heartbeats
  CounterRate busy_seconds;
  CounterRate energy;
};

class Registry {
 public:
  Registry(const CoordinatorOptions& options, const Clock& clock);

  // Why a worker cannot be registered here: kVersion for other versions, kInvalidInput for another
  // model or fields out of range, each naming both sides or the limit.
  Status check(const control::v1::Register& body) const;
  // Adds a checked worker; one of the same name must be lost or absent. What was measured of the
  // same machine still holds. The pointer lives until forget(). kNoCapacity when limits::kWorkers
  // have sessions.
  Result<Node*> add(LinkId link, const control::v1::Register& body);

  // What a node says that it holds; what cannot be is passed over.
  void hold(Node& node, const control::v1::Holding& holding) const;

  Node* find(LinkId link);
  Node* find(const std::string& name);
  const Node* find(const std::string& name) const;
  // It was found slow lately, and is chosen after others.
  bool slow(const Node& node) const { return clock_.now() < node.slow_until; }
  // Two heartbeats did not come: it may be frozen, or will be silent soon.
  bool late(const Node& node) const;
  // It fell silent, without a word that it ends, and for no longer than `patience` since it was
  // missed: its machine may have lost the network, and comes back with all that it has loaded.
  bool may_return(const Node& node, Duration patience) const;
  // Whether a worker of this name has a session and was heard of lately.
  bool holds(const std::string& name) const;
  // The worker has no session any more; it is remembered for a minute.
  void lose(Node& node);
  void assign(Node& node, Epoch epoch, std::uint32_t stage, LayerRange layers);
  // Free again, behind all others, after a rest (none: zero).
  void free(Node& node, Duration rest);
  // A link was lost that had this node at one end, and the faulty end is unknown: a node with
  // several such losses is chosen last.
  void strike(Node& node);
  // In the order in which they are chosen: who is late may be frozen, and comes last, before it
  // whose work has no receipts, and before it who is slow. None that is away, none that the ledger
  // bars, and no newcomer.
  std::vector<Node*> free_nodes() { return free_of(false); }
  std::vector<Node*> free_newcomers() { return free_of(true); }
  // Of standing, and in no pipeline, whether it may be chosen now or rests.
  std::size_t unplaced() const;
  std::vector<Node*> silent_nodes();  // heard of too long ago
  void forget();                      // workers lost long ago, and lost ones that are no members
  void set_members(std::set<std::string> names) { members_ = std::move(names); }

  std::vector<NodeStatus> snapshot() const;
  std::vector<const Node*> all() const;    // that have sessions
  std::vector<const Node*> known() const;  // and those that are remembered
  std::uint32_t connected() const;
  static bool may_serve(const Node& node);
  std::uint32_t here() const;  // of all(), that may serve

 private:
  std::vector<Node*> free_of(bool newcomers);
  bool silent(const Node& node) const;
  Status check_holding(const control::v1::Holding& holding) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  std::map<std::string, Node> nodes_;
  std::set<std::string> members_;  // of the roster; empty: unknown
  std::uint64_t next_turn_ = 0;
};

}  // namespace hearth::coordinator
