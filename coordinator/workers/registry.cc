#include "coordinator/workers/registry.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/limits.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kLostRemembered = std::chrono::seconds(60);
constexpr Duration kStruck = std::chrono::seconds(60);
constexpr std::size_t kIsaBytes = 32;

Status check_text(const char* field, const std::string& text, std::size_t limit, char least = '!') {
  REQUIRE(!text.empty() && text.size() <= limit, field, " has ", text.size(),
          " bytes; it must have 1 to ", limit);
  const bool printable = std::ranges::all_of(text, [=](char c) { return c >= least && c < 0x7F; });
  REQUIRE(printable, field, " has a byte that is not visible ASCII");
  return ok_status();
}

const char* state_name(const Node& node) {
  switch (node.state) {
    case Node::State::kFree: return node.status.away ? "paused" : "free";
    case Node::State::kLoading: return "loading";
    case Node::State::kServing: return node.checks ? "checking" : "serving";
    case Node::State::kLost: return "lost";
  }
  return "unknown";
}

}  // namespace

Registry::Registry(const CoordinatorOptions& options, const Clock& clock)
    : options_(options), clock_(clock) {}

Status Registry::check(const control::v1::Register& body) const {
  TRY_VOID(check_node_name(body.node()));
  Hello ours;
  ours.canonical = options_.canonical_version;
  Hello theirs;
  theirs.protocol = body.protocol_version();
  theirs.canonical = body.canonical_version();
  TRY_VOID(check_versions(ours, theirs));
  TRY_VOID(check_text("model_fingerprint", body.model_fingerprint(), limits::kReasonBytes));
  REQUIRE(body.model_fingerprint() == options_.model_fingerprint,
          "models differ: the coordinator serves ", options_.model_fingerprint,
          ", the worker holds ", body.model_fingerprint());
  REQUIRE(body.layers() == options_.layers, "models differ: the coordinator's has ",
          options_.layers, " layers, the worker's ", body.layers());
  TRY_VOID(check_text("data_address", body.data_address(), limits::kAddressBytes));
  TRY_VOID(check_text("isa", body.isa(), kIsaBytes));
  if (!body.device().empty()) {
    TRY_VOID(check_text("device", body.device(), limits::kReasonBytes, ' '));
  }
  if (!body.build().empty()) TRY_VOID(check_text("build", body.build(), limits::kBuildBytes, ' '));
  TRY_VOID(check_holding(body.holding()));
  const std::uint64_t first = options_.first_epoch;
  REQUIRE(body.newest_epoch() <= first || body.newest_epoch() - first <= limits::kEpochLead,
          "newest_epoch is ", body.newest_epoch(), ", more than ", limits::kEpochLead,
          " above the coordinator's first one, ", first,
          "; restart the worker, which then has none");
  REQUIRE(std::isfinite(body.weight_bytes_per_second()) && body.weight_bytes_per_second() >= 0.0,
          "weight_bytes_per_second is not a finite number of at least 0");
  return ok_status();
}

Status Registry::check_holding(const control::v1::Holding& holding) const {
  const auto& layers = holding.layers();
  REQUIRE(layers.begin() <= layers.end() && layers.end() <= options_.layers, "held layers ",
          layers.begin(), " to ", layers.end(), " are not a range of the model's ",
          options_.layers);
  REQUIRE(holding.done() <= holding.total(), "held layers ", layers.begin(), " to ", layers.end(),
          " have ", holding.done(), " bytes on the disk, more than their ", holding.total());
  return ok_status();
}

void Registry::hold(Node& node, const control::v1::Holding& holding) const {
  if (!check_holding(holding).ok()) return;
  node.status.held = {holding.layers().begin(), holding.layers().end()};
  node.status.held_bytes = holding.done();
  node.status.held_total = holding.total();
}

Result<Node*> Registry::add(LinkId link, const control::v1::Register& body, std::string seen_host) {
  if (connected() >= limits::kWorkers) {
    return Error::of(ErrorCode::kNoCapacity, "the coordinator has ", limits::kWorkers,
                     " workers, which is its limit");
  }
  Node& node = nodes_[body.node()];
  const NodeStatus& before = node.status;
  const bool same = before.isa == body.isa() && before.device == body.device() &&
                    before.threads == body.threads() && before.layers_most == body.layers_most() &&
                    before.draft_bytes == body.draft_bytes();
  std::optional<placement::Node> measured = same ? before.measured : std::nullopt;
  const bool stays = before.data_address == body.data_address() && before.seen_host == seen_host;
  const std::uint16_t outside_port = stays ? before.outside_port : std::uint16_t{0};
  node = Node{};
  node.status.outside_port = outside_port;
  node.status.measured = std::move(measured);
  node.status.name = body.node();
  node.status.data_address = body.data_address();
  node.status.seen_host = std::move(seen_host);
  node.status.protocol = std::min(body.protocol_version(), protocol_version());
  node.status.isa = body.isa();
  node.status.threads = body.threads();
  node.status.device = body.device();
  node.status.build = body.build();
  node.status.layers_most = body.layers_most();
  node.status.process_id = body.process_id();
  node.status.draft_bytes = body.draft_bytes();
  node.status.relay_megabits = std::min(body.relay_megabits(), limits::kRelayMegabits);
  node.status.weight_bytes_per_second = body.weight_bytes_per_second();
  node.status.partial = body.has_holding();
  node.status.away = away_of(body);
  hold(node, body.holding());
  const bool fresh = by_link_.emplace(link.value, &node).second;
  INVARIANT(fresh, "a link is the session of one worker");
  node.link = link;
  node.last_heard = clock_.now();
  node.since = clock_.now();
  node.measured_at = clock_.now();
  node.turn = next_turn_++;
  return &node;
}

Node* Registry::find(LinkId link) {
  const auto found = by_link_.find(link.value);
  return found == by_link_.end() ? nullptr : found->second;
}

Node* Registry::find(const std::string& name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

const Node* Registry::find(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool Registry::silent(const Node& node) const {
  return clock_.now() - node.last_heard >= options_.heartbeat_timeout;
}

bool Registry::late(const Node& node) const {
  return clock_.now() - node.last_heard > 2 * options_.heartbeat;
}

bool Registry::may_return(const Node& node, Duration patience) const {
  if (node.state != Node::State::kLost) return late(node);
  return node.lost_at - node.last_heard >= options_.heartbeat_timeout &&
         clock_.now() - node.lost_at < patience;
}

bool Registry::holds(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found != nodes_.end() && found->second.state != Node::State::kLost &&
         !silent(found->second);
}

void Registry::lose(Node& node) {
  INVARIANT(node.state != Node::State::kLost, "a node is lost once in a session");
  const std::size_t ended = by_link_.erase(node.link.value);
  INVARIANT(ended == 1, "a node that is lost had a session");
  node.state = Node::State::kLost;
  node.status.epoch = Epoch();
  node.status.kv_tokens_used = 0;  // its KV went with it, or with the pipeline that it had
  node.lost_at = clock_.now();
}

void Registry::assign(Node& node, Epoch epoch, std::uint32_t stage, LayerRange layers,
                      std::uint32_t rank, std::uint32_t ranks) {
  INVARIANT(node.state != Node::State::kLost, "a pipeline takes nodes that have a session");
  node.state = Node::State::kLoading;
  node.checks = false;
  const bool same = node.status.stage == stage && node.status.layers == layers &&
                    node.status.rank == rank && node.status.ranks == ranks;
  node.loaded = node.loaded && same;
  node.status.epoch = epoch;
  node.assigned = epoch;
  node.status.stage = stage;
  node.status.rank = rank;
  node.status.ranks = ranks;
  node.status.layers = layers;
  node.status.kv_pages = 0;
  node.pace.reset();
}

void Registry::free(Node& node, Duration rest) {
  if (node.state == Node::State::kLost) return;
  node.state = Node::State::kFree;
  node.status.epoch = Epoch();
  if (rest > Duration::zero()) {
    node.rests_until = clock_.now() + rest;
    node.turn = next_turn_++;
  }
}

void Registry::strike(Node& node) {
  ++node.strikes;
  node.struck_at = clock_.now();
}

std::size_t Registry::unplaced() const {
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, [](const auto& one) {
    const Node& node = one.second;
    return node.state == Node::State::kFree && !node.status.newcomer && !node.status.away &&
           node.status.barred.empty();
  }));
}

std::vector<Node*> Registry::free_of(bool newcomers) {
  std::vector<Node*> nodes;
  for (auto& [name, node] : nodes_) {
    if (clock_.now() - node.struck_at >= kStruck) node.strikes = 0;
    node.late = late(node);
    node.slow = slow(node);
    node.unreceipted = !node.status.unreceipted.empty();
    const bool free = node.state == Node::State::kFree && !node.status.away &&
                      node.status.barred.empty() && node.status.newcomer == newcomers;
    if (free && clock_.now() >= node.rests_until) nodes.push_back(&node);
  }
  std::ranges::sort(nodes, {}, [](const Node* node) {
    return std::tie(node->late, node->unreceipted, node->slow, node->strikes, node->turn);
  });
  return nodes;
}

std::vector<Node*> Registry::silent_nodes() {
  std::vector<Node*> nodes;
  for (auto& [name, node] : nodes_) {
    if (silent(node) && node.state != Node::State::kLost) nodes.push_back(&node);
  }
  return nodes;
}

// Names are free to choose, so the lost are bounded in number as well as in time.
void Registry::forget() {
  std::vector<Node*> lost;
  for (auto& [name, node] : nodes_) {
    if (node.state == Node::State::kLost) lost.push_back(&node);
  }
  std::ranges::sort(lost, {}, &Node::lost_at);
  std::size_t excess = lost.size() > limits::kWorkers ? lost.size() - limits::kWorkers : 0;
  for (Node* node : lost) {
    const bool is_out = !members_.empty() && !members_.contains(node->status.name);
    const bool old = clock_.now() - node->lost_at >= kLostRemembered;
    if (!is_out && !old && excess == 0) continue;
    if (excess > 0) --excess;
    nodes_.erase(std::string(node->status.name));
  }
  INVARIANT(excess == 0, "at most kWorkers lost workers are remembered");
}

std::vector<NodeStatus> Registry::snapshot() const {
  std::vector<NodeStatus> all;
  for (const auto& [name, node] : nodes_) {
    NodeStatus status = node.status;
    status.state = state_name(node);
    status.heartbeat_age_seconds =
        std::chrono::duration<double>(clock_.now() - node.last_heard).count();
    status.rows_per_second = node.rows.per_second(clock_.now());
    if (!slow(node)) status.slow.clear();
    status.busy_ratio = std::min(1.0, node.busy_seconds.per_second(clock_.now()));
    status.watts = node.energy.per_second(clock_.now());
    all.push_back(std::move(status));
  }
  return all;
}

std::vector<const Node*> Registry::all() const {
  std::vector<const Node*> nodes;
  for (const auto& [name, node] : nodes_) {
    if (node.state != Node::State::kLost) nodes.push_back(&node);
  }
  return nodes;
}

std::vector<const Node*> Registry::known() const {
  std::vector<const Node*> nodes;
  for (const auto& [name, node] : nodes_) nodes.push_back(&node);
  return nodes;
}

std::uint32_t Registry::connected() const { return static_cast<std::uint32_t>(by_link_.size()); }

bool Registry::may_serve(const Node& node) {
  return !node.status.away && node.status.barred.empty() && !node.status.newcomer;
}

std::uint32_t Registry::here() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(all(), [](const Node* node) { return may_serve(*node); }));
}

}  // namespace hearth::coordinator
