#include "coordinator/machine/coordinator_machine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "coordinator/proof/ledger_service.h"
#include "proto/address.h"

namespace hearth::coordinator {
namespace {

// For the receipts of what ran last; they take a second or two.
constexpr Duration kReceiptPatience = std::chrono::seconds(15);
// For the audits that owners of answers wait for.
constexpr Duration kAuditPatience = std::chrono::seconds(60);

Hello identity_of(const CoordinatorOptions& options) {
  Hello hello;
  hello.canonical = options.canonical_version;
  hello.node = options.node;
  return hello;
}

}  // namespace

std::unique_ptr<Coordinator> Coordinator::start(CoordinatorOptions options, const Clock& clock,
                                                Random& random, Transport& control,
                                                Transport& data) {
  return std::make_unique<CoordinatorMachine>(std::move(options), clock, random, control, data);
}

std::string NodeStatus::machine() const {
  const auto address = parse_address(data_address);
  if (!address.ok()) return name;
  return seen_host.empty() ? address->host : seen_host + "/" + address->host;
}

std::string NodeStatus::address_for(const std::string& behind) const {
  if (seen_host.empty() || seen_host == behind) return data_address;
  return outside_port > 0 ? Address{seen_host, outside_port}.text() : "";
}

Result<SequenceId> Coordinator::submit(GenerateRequest request,
                                       std::shared_ptr<SequenceEvents> events) {
  std::vector<Submission> one;
  one.push_back({std::move(request), std::move(events)});
  TRY(const std::vector<SequenceId> ids, submit(std::move(one)).sequences);
  INVARIANT(ids.size() == 1, "one submission was answered with one id");
  return ids.front();
}

CoordinatorMachine::CoordinatorMachine(CoordinatorOptions options, const Clock& clock,
                                       Random& random, Transport& control, Transport& data)
    : options_(std::move(options)),
      parts_{options_,   clock,      control,    data,       registry_,
             pipelines_, links_,     scheduler_, meetings_,  holdings_,
             sessions_,  standings_, newcomers_, sequences_, lifecycle_},
      registry_(options_, clock),
      pipelines_(options_, clock, registry_),
      meetings_(parts_, random),
      holdings_(parts_),
      sessions_(parts_),
      standings_(parts_),
      newcomers_(parts_, random),
      sequences_(parts_),
      lifecycle_(parts_),
      links_(identity_of(options_), clock, data, lifecycle_),
      slow_(parts_) {
  control.set_events(&sessions_);
  data.set_events(&links_);
  if (options_.receipts == nullptr) return;
  LedgerService::Listener listener;
  listener.send = [this](const std::string& name, const control::v1::CoordinatorMessage& message) {
    const Node* node = registry_.find(name);
    if (node == nullptr || node->state == Node::State::kLost) return;
    sessions_.send(node->link, message);
  };
  listener.run = [this](const AuditRun& run) {
    const bool is_ours = std::ranges::all_of(
        run.nodes, [this](const std::string& name) { return registry_.find(name) != nullptr; });
    if (!is_ours) return false;
    if (puts_off_audits()) {
      options_.receipts->put_off(run.order.request, "another model is about to be loaded");
    } else {
      sequences_.submit_audit(run);
    }
    return true;
  };
  listener.outcome = [this](const AuditOutcome& outcome) { sequences_.take_outcome(outcome); };
  listener.standing = [this] { follow_standing(); };
  listens_ = options_.receipts->listen(std::move(listener));
}

CoordinatorMachine::~CoordinatorMachine() = default;

void CoordinatorMachine::on_timer() {
  sequences_.report_rates(parts_.clock_.now());
  sessions_.on_timer();
  lifecycle_.lose_overdue();
  registry_.forget();
  links_.on_timer();
  sequences_.expire();
  lifecycle_.drain();
  slow_.on_timer();
  sessions_.measure_ways();
  lifecycle_.end_outdated();
  lifecycle_.form();
  lifecycle_.improve();
  standings_.refresh();
  if (!winds_down_since_) newcomers_.on_timer();
  sequences_.admit();
}

Result<std::string> CoordinatorMachine::route(const std::string& from, const std::string& to) {
  const Node* node = registry_.find(to);
  if (node == nullptr || node->state == Node::State::kLost) {
    return Error::of(ErrorCode::kNotFound, "no worker named ", to, " is connected");
  }
  const Meetings::Meeting meeting = meetings_.from_machine(from, *node);
  if (meeting.route.empty()) {
    return Error{ErrorCode::kNoCapacity, meeting.why};
  }
  for (const auto& [session, message] : meeting.orders) sessions_.send(session, message);
  return meeting.route;
}

bool CoordinatorMachine::puts_off_audits() const {
  if (!winds_down_since_) return false;
  return !sequences_.awaits_audits() || parts_.clock_.now() - *winds_down_since_ >= kAuditPatience;
}

bool CoordinatorMachine::wind_down(bool wanted) {
  const TimePoint now = parts_.clock_.now();
  if (!wanted) winds_down_since_.reset();
  if (wanted && !winds_down_since_) winds_down_since_ = now;
  const bool quiet = wanted && scheduler_.running() + scheduler_.waiting() == 0;
  if (!quiet) quiet_since_.reset();
  if (!quiet || !puts_off_audits()) return false;
  if (!quiet_since_) {
    quiet_since_ = now;
    settling_ = std::make_shared<Settling>();
  }
  return options_.receipts == nullptr || is_settled();
}

bool CoordinatorMachine::is_settled() {
  INVARIANT(quiet_since_ && settling_, "receipts settle once nothing runs");
  if (settling_->is_settled) return true;
  if (parts_.clock_.now() - *quiet_since_ >= kReceiptPatience) {
    spdlog::warn("receipts or seals of the last answers did not come in time");
    return true;
  }
  if (std::exchange(settling_->is_asked, true)) return false;
  options_.receipts->ask_settled([settling = settling_](bool settled) {
    settling->is_asked = false;
    settling->is_settled = settled;
  });
  return settling_->is_settled;
}

void CoordinatorMachine::retire() {
  lifecycle_.retire("another model is loaded");
  sessions_.close_all();
  INVARIANT(registry_.all().empty(), "a retired coordinator has no worker");
}

void CoordinatorMachine::follow_standing() {
  std::vector<std::string> names;  // ending a pipeline may lose a worker
  for (const Node* node : registry_.all()) names.push_back(node->status.name);
  for (const std::string& name : names) {
    Node* node = registry_.find(name);
    const auto peer = node != nullptr && node->state != Node::State::kLost
                          ? parts_.control_.peer(node->link)
                          : std::nullopt;
    if (!peer) continue;
    follow_newcomer(*node, options_.receipts->is_newcomer(peer->key));
    node = registry_.find(name);
    if (node == nullptr || node->state == Node::State::kLost) continue;
    node->status.unreceipted = options_.receipts->why_unreceipted(name, node->status.build);
    const std::string why = options_.receipts->why_barred(peer->key);
    if (why == node->status.barred) continue;
    node->status.barred = why;
    if (why.empty()) {
      spdlog::info("worker {} is no longer barred", name);
      continue;
    }
    spdlog::error("worker {} is barred: {}", name, why);
    const Pipeline* pipeline = pipelines_.find(node->status.epoch);
    if (pipeline == nullptr) continue;
    lifecycle_.end(
        node->status.epoch,
        pipeline->describe({node->status.stage, node->status.rank}) + " is barred: " + why, {});
  }
  lifecycle_.form();
  sequences_.admit();
}

// One that is a newcomer again serves no client from here on. One that is a newcomer no longer is
// placed like others once its checking pipeline has ended (PipelineLifecycle::end_outdated()).
void CoordinatorMachine::follow_newcomer(Node& node, bool newcomer) {
  if (newcomer == node.status.newcomer) return;
  node.status.newcomer = newcomer;
  if (!newcomer) {
    spdlog::info("worker {} has finished a newcomer's checks and may serve", node.status.name);
    return;
  }
  spdlog::warn("worker {} is a newcomer again: it only checks others' results", node.status.name);
  const Pipeline* pipeline = pipelines_.find(node.status.epoch);
  if (pipeline == nullptr || pipeline->checking) return;
  lifecycle_.end(node.status.epoch,
                 pipeline->describe({node.status.stage, node.status.rank}) +
                     " is a newcomer again and serves no requests",
                 {});
}

// Which nodes' work has no receipts. Where an audit finds no other pipeline, such nodes may be why.
void CoordinatorMachine::add_unreceipted(SwarmStatus& status) {
  AuditStatus& audits = *status.audits;
  for (NodeStatus& node : status.nodes) {
    const auto windows = audits.unreceipted.by_node.find(node.name);
    if (windows != audits.unreceipted.by_node.end()) node.unreceipted_windows = windows->second;
    if (audits.waiting == 0 || node.unreceipted.empty() || node.state != "serving") continue;
    audits.why_waiting += "; node " + node.name + " takes part in no audit: " + node.unreceipted;
  }
}

// Of the nodes that the search of groups would consider, if all were free.
void CoordinatorMachine::add_islands(std::vector<NodeStatus>& nodes) const {
  std::vector<const Node*> measured = registry_.all();
  std::erase_if(measured, [](const Node* node) {
    return !node->status.measured || !Registry::may_serve(*node);
  });
  const std::vector<std::uint32_t> islands = pipelines_.placing().islands_of(measured);
  for (std::size_t i = 0; i < islands.size(); ++i) {
    if (islands[i] == placement::kNoIsland) continue;
    const auto named = std::ranges::find(nodes, measured[i]->status.name, &NodeStatus::name);
    if (named != nodes.end()) named->island = std::to_string(islands[i] + 1);
  }
}

SwarmStatus CoordinatorMachine::status() const {
  SwarmStatus status = sequences_.status();
  status.ready = scheduler_.serves();
  if (!status.ready) {
    status.missing = "no pipeline serves: " + lifecycle_.missing();
    status.may_come = lifecycle_.may_come();
  }
  status.has_other_workers = sessions_.has_other_workers();
  status.uncovered = lifecycle_.uncovered();
  status.stages_wanted = options_.stages;
  if (options_.placement) status.objective = options_.placement->objective;
  status.nodes = registry_.snapshot();
  std::map<std::string, LinkId> links;
  for (const Node* node : registry_.known()) links[node->status.name] = node->link;
  for (NodeStatus& node : status.nodes) {
    node.standing = standings_.of(links[node.name]);
    node.owner = standings_.owner_name(links[node.name]);
    const bool left_out = node.state == "free" && !pipelines_.none();
    if (left_out) node.spare = pipelines_.placing().why_spare(node.name);
    if (!node.barred.empty()) node.spare = node.barred;
    node.checking = newcomers_.describe(node);
  }
  add_islands(status.nodes);
  status.links = pipelines_.ways().all();
  status.accused = holdings_.accused();
  status.pipelines = standings_.pipeline_statuses();
  if (options_.receipts != nullptr) status.audits = options_.receipts->audits();
  if (status.audits) add_unreceipted(status);
  if (status.audits) status.audits->canaries_total = newcomers_.total();
  status.late_frames_total += links_.late_frames();
  return status;
}

}  // namespace hearth::coordinator
