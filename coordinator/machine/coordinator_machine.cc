#include "coordinator/machine/coordinator_machine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>

#include "coordinator/coordinator.h"
#include "coordinator/machine/missing.h"
#include "coordinator/machine/pipeline_statuses.h"
#include "coordinator/proof/ledger_service.h"
#include "proto/frame.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

// Between two calls of the timer: more, and this process was frozen itself.
constexpr Duration kAsleep = std::chrono::milliseconds(500);

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
      clock_(clock),
      control_(control),
      data_(data),
      registry_(options_, clock),
      pipelines_(options_, clock, registry_),
      links_(identity_of(options_), clock, data, *this),
      holdings_(options_, registry_, data,
                [this](LinkId link, const auto& message) { sessions_.send(link, message); }),
      sessions_(options_, clock, control, registry_, pipelines_, holdings_, *this),
      standings_(options_, control, registry_, pipelines_, scheduler_),
      newcomers_(options_, clock, random, pipelines_, scheduler_,
                 [this](GenerateRequest request, std::shared_ptr<SequenceEvents> events) {
                   return submit(std::move(request), std::move(events));
                 }),
      sequences_(options_, clock, registry_, pipelines_, scheduler_, links_, standings_, newcomers_,
                 [this] { return missing(); }),
      slow_(clock, registry_, pipelines_, scheduler_, holdings_, standings_,
            [this](Epoch epoch, const std::string& why) { end_pipeline(epoch, why, {}); }),
      timer_at_(clock.now()) {
  control.set_events(&sessions_);
  data.set_events(&links_);
  if (options_.receipts == nullptr) return;
  options_.receipts->set_send(
      [this](const std::string& name, const control::v1::CoordinatorMessage& message) {
        const Node* node = registry_.find(name);
        if (node == nullptr || node->state == Node::State::kLost) return;
        sessions_.send(node->link, message);
      });
  options_.receipts->set_run([this](AuditRun run) { sequences_.submit_audit(std::move(run)); });
  options_.receipts->set_outcome(
      [this](const AuditOutcome& outcome) { sequences_.take_outcome(outcome); });
  options_.receipts->set_on_standing([this] { follow_standing(); });
}

CoordinatorMachine::~CoordinatorMachine() {
  if (options_.receipts == nullptr) return;
  options_.receipts->set_send(nullptr);
  options_.receipts->set_run(nullptr);
  options_.receipts->set_outcome(nullptr);
  options_.receipts->set_on_standing(nullptr);
}

void CoordinatorMachine::on_timer() {
  const TimePoint now = clock_.now();
  sequences_.report_rates(now);
  sessions_.on_timer();
  for (const Epoch epoch : pipelines_.overdue()) {
    const Pipeline& pipeline = *pipelines_.find(epoch);
    std::uint32_t late = 0;
    while (late + 1 < pipeline.members.size() && pipeline.members[late].ready) ++late;
    lose_pipeline(epoch, late, "the pipeline did not form in time");
  }
  registry_.forget();
  links_.on_timer();
  sequences_.expire();
  drain_pipelines();
  slow_.on_timer();
  sessions_.measure_ways();
  end_outdated();
  form_pipelines();
  standings_.refresh();
  newcomers_.on_timer();
  sequences_.admit();
  timer_at_ = now;
}

void CoordinatorMachine::on_worker_registered(LinkId link) {
  if (Node* node = registry_.find(link); node != nullptr) meet(*node);
  if (Node* node = registry_.find(link); node != nullptr) holdings_.send_plan(*node);
  form_pipelines();
}

void CoordinatorMachine::on_worker_lost(Epoch epoch, std::uint32_t stage, const std::string& why) {
  lose_pipeline(epoch, stage, why);
}

void CoordinatorMachine::on_stage_ready(Node& node, const control::v1::StageReady& ready) {
  const Epoch epoch(ready.epoch());
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr || node.status.epoch != epoch || pipeline->serving) return;  // late
  const std::uint32_t stage = node.status.stage;
  node.loaded = true;
  node.status.kv_pages = ready.kv_pages();
  node.status.weight_bytes = ready.weight_bytes();
  const Status usable = pipelines_.ready(*pipeline, stage, ready);
  if (!usable.ok()) return lose_pipeline(epoch, stage, usable.error().message);
  serve_if_complete(epoch);
}

void CoordinatorMachine::on_stage_failed(Node& node, const control::v1::StageFailed& failed) {
  const Epoch epoch(failed.epoch());
  if (node.status.epoch != epoch) return;  // late
  std::uint32_t culprit = node.status.stage;
  Node* peer = failed.peer().empty() ? nullptr : registry_.find(failed.peer());
  if (peer != nullptr && peer->status.epoch == epoch) {
    registry_.strike(node);
    registry_.strike(*peer);
    // Who is late with its heartbeats as well is the one.
    if (registry_.late(*peer)) culprit = peer->status.stage;
  }
  // Or somebody further round the ring is, whose neighbour has hung up already.
  if (!failed.peer().empty()) culprit = silent_stage(epoch).value_or(culprit);
  lose_pipeline(epoch, culprit, decode_refused(as_bytes(failed.error())));
}

// Nothing counts of what this process did not hear because it was frozen.
Duration CoordinatorMachine::silence_of(const std::vector<std::string>& names) const {
  const TimePoint now = clock_.now();
  if (now - timer_at_ > kAsleep) return Duration::zero();
  Duration longest = Duration::zero();
  for (const std::string& name : names) {
    const Node* node = registry_.find(name);
    if (node != nullptr && registry_.late(*node))
      longest = std::max(longest, now - node->last_heard);
  }
  return longest;
}

void CoordinatorMachine::end_outdated() {
  for (const auto& [epoch, why] : pipelines_.outdated()) {
    if (pipelines_.find(epoch) != nullptr) end_pipeline(epoch, why, {});
  }
}

// Checking pipelines are formed of the nodes that are left over.
void CoordinatorMachine::form_pipelines() {
  while (Pipeline* pipeline = pipelines_.form()) tell_assigned(*pipeline);
  if (options_.receipts == nullptr) return;
  while (Pipeline* pipeline = pipelines_.form_checking(options_.receipts->build())) {
    tell_assigned(*pipeline);
  }
}

void CoordinatorMachine::tell_assigned(Pipeline& pipeline) {
  const Epoch epoch = pipeline.epoch;
  spdlog::info("epoch {}: forming a {}pipeline of {} stages", epoch.value,
               pipeline.checking ? "checking " : "", pipeline.members.size());
  begin_receipts(pipeline);
  links_.open(epoch, static_cast<std::uint32_t>(pipeline.members.size()),
              pipeline.members.front().data_address, pipeline.members.front().node,
              pipeline.members.back().node);
  std::vector<std::pair<LinkId, control::v1::CoordinatorMessage>> messages;
  for (std::uint32_t stage = 0; stage < pipeline.members.size(); ++stage) {
    const Member& member = pipeline.members[stage];
    Node* node = registry_.find(member.node);
    if (node->status.partial && node->plan != member.layers) {
      node->plan = member.layers;
      node->why = "stage " + std::to_string(stage + 1) + " of the pipeline that forms now";
      messages.emplace_back(member.link, holdings_.message(*node));
    }
    control::v1::CoordinatorMessage message;
    *message.mutable_assign() = pipelines_.assign_message(pipeline, stage, data_.address());
    messages.emplace_back(pipeline.members[stage].link, std::move(message));
  }
  // Sending may lose a worker, and with it the pipeline: nobody may be told of it afterwards.
  for (const auto& [link, message] : messages) {
    if (pipelines_.find(epoch) == nullptr) break;
    sessions_.send(link, message);
  }
}

// As standing pipelines' receipts do, though the file's manifest may be known since: those that
// name it differently cannot audit each other. A file without a manifest is known by its header.
Hash256 CoordinatorMachine::model_of_receipts() const {
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    if (pipeline.model) return *pipeline.model;
  }
  return holdings_.model() ? *holdings_.model() : blake2b(as_bytes(options_.model_fingerprint));
}

// Where every stage makes them, with this very program: neighbours must name the same one.
void CoordinatorMachine::begin_receipts(Pipeline& pipeline) {
  if (options_.receipts == nullptr) return;
  ReceiptPipeline stages{pipeline.epoch, {}, {}, pipeline.checking.has_value()};
  for (const Member& member : pipeline.members) {
    const auto peer = control_.peer(member.link);
    if (!peer || registry_.find(member.node)->status.build != options_.receipts->build()) {
      spdlog::info("epoch {}: no receipts, for {} makes none like those of this program",
                   pipeline.epoch.value, member.node);
      return;
    }
    const auto owner = options_.owner_of ? options_.owner_of(peer->key) : std::nullopt;
    stages.stages.push_back({member.node, peer->key, member.layers, owner ? owner->id : Hash256()});
  }
  pipeline.model = model_of_receipts();
  stages.program =
      ledger::program_id(*pipeline.model, options_.receipts->build(), options_.canonical_version);
  stages.model = *pipeline.model;
  options_.receipts->begin(std::move(stages));
}

void CoordinatorMachine::on_pipeline_linked(Epoch epoch) { serve_if_complete(epoch); }

void CoordinatorMachine::on_pipeline_frame(Epoch epoch, Frame frame) {
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  const auto last = static_cast<std::uint32_t>(pipeline->members.size()) - 1;
  const Status taken = sequences_.take_tokens(*pipeline, frame);
  if (!taken.ok()) return lose_pipeline(epoch, last, taken.error().message);
  sequences_.admit();
}

void CoordinatorMachine::serve_if_complete(Epoch epoch) {
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr || pipeline->serving) return;
  if (!pipeline->all_ready() || !links_.linked(epoch)) return;
  pipeline->serving = true;
  const bool checks = pipeline->checking.has_value();
  if (!checks) last_loss_.clear();
  for (const Member& member : pipeline->members) {
    registry_.find(member.node)->state = Node::State::kServing;
  }
  spdlog::info("epoch {}: {} with {} KV pages of {} tokens", epoch.value,
               checks ? "checking" : "serving", pipeline->kv_pages, pipeline->kv_page_tokens);
  std::vector<std::string> nodes;
  for (const Member& member : pipeline->members) nodes.push_back(member.node);
  scheduler_.add_pool(epoch, pipeline->kv_pages, pipeline->kv_page_tokens, std::move(nodes),
                      checks);
  standings_.rank_pools();
  sequences_.admit();
}

void CoordinatorMachine::on_pipeline_link_lost(Epoch epoch, std::uint32_t stage,
                                               const std::string& why) {
  const std::optional<std::uint32_t> silent = silent_stage(epoch);
  if (silent) return lose_pipeline(epoch, *silent, "it gives no sign of life");
  lose_pipeline(epoch, stage, "its data link to the coordinator: " + why);
}

// Whoever misses a silent neighbour hangs up, maybe before the neighbour is missed here.
std::optional<std::uint32_t> CoordinatorMachine::silent_stage(Epoch epoch) const {
  const auto pipeline = pipelines_.all().find(epoch);
  if (pipeline == pipelines_.all().end()) return std::nullopt;
  std::optional<std::uint32_t> found;
  TimePoint heard = clock_.now() - (options_.heartbeat_timeout - 2 * options_.heartbeat);
  for (std::uint32_t stage = 0; stage < pipeline->second.members.size(); ++stage) {
    const Node* node = registry_.find(pipeline->second.members[stage].node);
    if (node == nullptr || node->last_heard > heard) continue;
    heard = node->last_heard;
    found = stage;
  }
  return found;
}

void CoordinatorMachine::lose_pipeline(Epoch epoch, std::uint32_t stage, const std::string& why) {
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  const std::string sentence = pipeline->describe(stage) + " failed: " + why;
  end_pipeline(epoch, sentence, {pipeline->members[stage].node});
}

// No `culprits`: nothing failed.
void CoordinatorMachine::end_pipeline(Epoch epoch, const std::string& sentence,
                                      const std::vector<std::string>& culprits) {
  spdlog::log(culprits.empty() ? spdlog::level::info : spdlog::level::warn, "epoch {} ended: {}",
              epoch.value, sentence);
  if (!pipelines_.find(epoch)->checking) last_loss_ = sentence;
  const std::vector<Member> members = pipelines_.find(epoch)->members;
  const Duration silence = silence_of(culprits);
  pipelines_.end(epoch, culprits);
  if (options_.receipts != nullptr) options_.receipts->end(epoch);
  links_.close(epoch);
  std::vector<std::shared_ptr<Sequence>> over =
      sequences_.interrupt(scheduler_.remove_pool(epoch), silence, !culprits.empty());
  standings_.rank_pools();
  control::v1::CoordinatorMessage message;
  message.mutable_unassign()->set_epoch(epoch.value);
  for (const Member& member : members) {
    const Node* node = registry_.find(member.node);
    const bool there = node != nullptr && node->state != Node::State::kLost;
    if (there && node->link == member.link) sessions_.send(member.link, message);
  }
  sequences_.end(std::move(over), {ErrorCode::kUnavailable, sentence});
  form_pipelines();
  sequences_.admit();
}

std::string CoordinatorMachine::missing() const {
  return missing_sentence(options_, registry_, pipelines_, last_loss_);
}

SwarmStatus CoordinatorMachine::status() const {
  SwarmStatus status = sequences_.status();
  status.ready = scheduler_.serves();
  if (!status.ready) status.missing = "no pipeline serves: " + missing();
  status.uncovered = uncovered_layers(options_, registry_, pipelines_);
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
  status.links = pipelines_.ways().all();
  status.accused = holdings_.accused();
  status.pipelines = pipeline_statuses(pipelines_, scheduler_, standings_);
  if (options_.receipts != nullptr) status.audits = options_.receipts->audits();
  if (status.audits) status.audits->canaries_total = newcomers_.total();
  status.late_frames_total += links_.late_frames();
  return status;
}

}  // namespace hearth::coordinator
