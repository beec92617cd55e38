// Registry: the workers that have a control session, and for a while those that lost theirs.
// A plain table with rules: it sends nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/counter_rate.h"
#include "proto/control.pb.h"
#include "proto/transport.h"

namespace hearth::coordinator {

struct Node {
  enum class State { kFree, kLoading, kServing, kLost };

  NodeStatus status;  // what the worker said of itself; state and age are filled in by snapshot()
  State state = State::kFree;
  LinkId link;
  TimePoint last_heard{};
  TimePoint rests_until{};  // not chosen for a pipeline before
  std::uint64_t turn = 0;   // free nodes are chosen in the order of their turns
  CounterRate rows;         // of its heartbeats
  CounterRate busy_seconds;
};

class Registry {
 public:
  Registry(const CoordinatorOptions& options, const Clock& clock);

  // Why a worker cannot be registered here: kVersion for other versions, kInvalidInput for another
  // model or fields out of range, each naming both sides or the limit.
  Status check(const control::v1::Register& body) const;
  // Adds a checked worker; one of the same name must be lost or absent. The pointer lives until
  // forget(). kNoCapacity when limits::kWorkers have sessions.
  Result<Node*> add(LinkId link, const control::v1::Register& body);

  Node* find(LinkId link);
  Node* find(const std::string& name);
  // Whether a worker of this name has a session and was heard of lately.
  bool holds(const std::string& name) const;
  // The worker has no session any more; it is remembered for a minute.
  void lose(Node& node);
  void assign(Node& node, Epoch epoch, std::uint32_t stage, LayerRange layers);
  // Free again, behind all others, after a rest (none: zero).
  void free(Node& node, Duration rest);
  std::vector<Node*> free_nodes();
  std::vector<Node*> silent_nodes();  // heard of too long ago
  void forget();                      // workers lost long ago

  std::vector<NodeStatus> snapshot() const;
  std::uint32_t connected() const;

 private:
  bool silent(const Node& node) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  std::map<std::string, Node> nodes_;
  std::uint64_t next_turn_ = 0;
};

}  // namespace hearth::coordinator
