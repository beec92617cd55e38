#include "coordinator/machine/pipeline_lifecycle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "coordinator/machine/meetings.h"
#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/machine/worker_sessions.h"
#include "coordinator/proof/ledger_service.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/holdings.h"
#include "coordinator/workers/registry.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {}  // namespace

// Checking pipelines are formed of the nodes that are left over.
void PipelineLifecycle::form() {
  if (retired_) return;
  while (Pipeline* pipeline = pipelines_.form()) tell_assigned(*pipeline);
  if (options_.receipts == nullptr) return;
  while (Pipeline* pipeline = pipelines_.form_checking(options_.receipts->build())) {
    tell_assigned(*pipeline);
  }
}

void PipelineLifecycle::tell_assigned(Pipeline& pipeline) {
  const Epoch epoch = pipeline.epoch;
  spdlog::info("epoch {}: forming a {}pipeline of {} stages", epoch.value,
               pipeline.checking ? "checking " : "", pipeline.members.size());
  begin_receipts(pipeline);
  std::vector<std::pair<LinkId, control::v1::CoordinatorMessage>> messages;
  std::vector<std::pair<LinkId, control::v1::CoordinatorMessage>> after;
  const Member& first = pipeline.members.front();
  Meetings::Meeting own = meetings_.from_here(*registry_.find(first.node));
  pipeline.first_route = own.kind.kind;
  for (auto& [session, order] : own.orders) messages.emplace_back(session, std::move(order));
  links_.open(epoch, static_cast<std::uint32_t>(pipeline.members.size()), own.route, first.node,
              pipeline.members.back().node);
  pipeline.for_each([&](Seat seat, const std::string& name, LinkId link) {
    const LayerRange layers = pipeline.members[seat.stage].layers;
    Node* node = registry_.find(name);
    INVARIANT(node != nullptr && node->status.epoch == epoch,
              "the members of a pipeline that forms are registered, and are its own");
    if (node->status.partial && node->plan != layers) {
      node->plan = layers;
      node->why = "stage " + std::to_string(seat.stage + 1) + " of the pipeline that forms now";
      messages.emplace_back(link, holdings_.message(*node));
    }
    control::v1::CoordinatorMessage message;
    *message.mutable_assign() = pipelines_.assign_message(pipeline, seat, data_.address());
    if (pipeline.members.size() > 1 && seat.rank == 0) {
      Member& member = pipeline.members[seat.stage];
      const Member& next = pipeline.members[(seat.stage + 1) % pipeline.members.size()];
      Meetings::Meeting meeting = meetings_.between(*node, *registry_.find(next.node));
      member.route = meeting.kind;
      member.no_route = meeting.why;
      message.mutable_assign()->set_next_address(meeting.route);
      for (auto& [session, order] : meeting.orders) {
        (meeting.dials_last() ? messages : after).emplace_back(session, std::move(order));
      }
    }
    messages.emplace_back(link, std::move(message));
  });
  std::ranges::move(after, std::back_inserter(messages));
  // Sending may lose a worker, and with it the pipeline: no worker is told of it afterwards.
  for (const auto& [link, message] : messages) {
    if (pipelines_.find(epoch) == nullptr) break;
    sessions_.send(link, message);
  }
}

// The name in the receipts of existing pipelines, even if the manifest is known since, because
// pipelines with different names cannot audit each other. A file without a manifest is named by its
// header.
Hash256 PipelineLifecycle::model_of_receipts() const {
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    if (pipeline.model) return *pipeline.model;
  }
  return holdings_.model() ? *holdings_.model() : blake2b(as_bytes(options_.model_fingerprint));
}

// Where every stage makes them, with this very program: neighbours must name the same one. Else the
// windows of all stages are counted, and those of other programs are named.
void PipelineLifecycle::begin_receipts(Pipeline& pipeline) {
  if (options_.receipts == nullptr) return;
  ReceiptPipeline stages{pipeline.epoch, {}, {}, pipeline.checking.has_value()};
  for (const Member& member : pipeline.members) {
    const auto peer = control_.peer(member.link);
    if (!peer || registry_.find(member.node)->status.build != options_.receipts->build()) {
      spdlog::warn(
          "epoch {}: no receipts, because worker {} has another build than this server; install "
          "the same version on both",
          pipeline.epoch.value, member.node);
      pipeline.foreign.push_back(member.node);
      continue;
    }
    const auto owner = options_.owner_of ? options_.owner_of(peer->key) : std::nullopt;
    stages.stages.push_back({member.node, peer->key, member.layers, owner ? owner->id : Hash256()});
  }
  if (!pipeline.foreign.empty()) return;
  pipeline.model = model_of_receipts();
  stages.program =
      ledger::program_id(*pipeline.model, options_.receipts->build(), options_.canonical_version);
  stages.model = *pipeline.model;
  options_.receipts->begin(std::move(stages));
}

void PipelineLifecycle::stage_ready(Node& node, const control::v1::StageReady& ready) {
  const Epoch epoch(ready.epoch());
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr || node.status.epoch != epoch || pipeline->serving) return;  // late
  const Seat seat{node.status.stage, node.status.rank};
  node.loaded = true;
  node.status.kv_pages = ready.kv_pages();
  node.status.weight_bytes = ready.weight_bytes();
  const Status usable = pipelines_.ready(*pipeline, seat, ready);
  if (!usable.ok()) return lose(epoch, seat, usable.error().message);
  serve_if_complete(epoch);
}

void PipelineLifecycle::stage_failed(Node& node, const control::v1::StageFailed& failed) {
  const Epoch epoch(failed.epoch());
  // Late. A free node has epoch 0, which is no pipeline's.
  if (node.status.epoch != epoch || pipelines_.find(epoch) == nullptr) return;
  Seat culprit{node.status.stage, node.status.rank};
  Node* peer = failed.peer().empty() ? nullptr : registry_.find(failed.peer());
  if (peer != nullptr && peer->status.epoch == epoch) {
    registry_.strike(node);
    registry_.strike(*peer);
    judge_routes(*pipelines_.find(epoch), node, failed);
    // Of the two, the one that is also late with its heartbeats is to blame.
    if (registry_.late(*peer)) culprit = {peer->status.stage, peer->status.rank};
  }
  // Or a stage further round the ring is, whose neighbour has hung up already.
  if (!failed.peer().empty()) culprit = silent_seat(epoch).value_or(culprit);
  const std::string& no_route = pipelines_.find(epoch)->members[node.status.stage].no_route;
  lose(epoch, culprit, no_route.empty() ? decode_refused(as_bytes(failed.error())) : no_route);
}

// A link to the next stage that did not open takes another route. One that broke may be the fault
// of its relay; between two stages, it is unknown which of both links broke.
void PipelineLifecycle::judge_routes(const Pipeline& pipeline, const Node& node,
                                     const control::v1::StageFailed& failed) {
  const std::vector<Member>& members = pipeline.members;
  const auto after = [&](std::uint32_t stage) { return (stage + 1) % members.size(); };
  const Member& member = members[node.status.stage];
  const bool next = members[after(node.status.stage)].node == failed.peer();
  if (failed.unreached()) {
    if (!next || member.ready) return;
    meetings_.avoid_relay(member.route.relay);
    pipelines_.ways().fail(node.status.name, failed.peer(), member.route.kind);
    return;
  }
  std::set<std::string> relays;
  for (std::uint32_t stage = 0; stage < members.size(); ++stage) {
    const std::string& from = members[stage].node;
    const std::string& to = members[after(stage)].node;
    const bool between = (from == node.status.name && to == failed.peer()) ||
                         (from == failed.peer() && to == node.status.name);
    if (between) relays.insert(members[stage].route.relay);
  }
  for (const std::string& relay : relays) meetings_.note_break(relay);
}

void PipelineLifecycle::serve_if_complete(Epoch epoch) {
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr || pipeline->serving) return;
  if (!pipeline->all_ready() || !links_.linked(epoch)) return;
  pipeline->serving = true;
  const bool checks = pipeline->checking.has_value();
  if (!checks) {
    last_loss_.clear();
    failed_at_.reset();
  }
  std::vector<std::string> nodes = pipeline->nodes();
  for (const std::string& node : nodes) registry_.find(node)->state = Node::State::kServing;
  const std::string bound =
      pipeline->keeps_prefixes
          ? ""
          : ", at most " + std::to_string(pipeline->sequences) + " sequences at once";
  spdlog::info("epoch {}: {} with {} KV pages of {} tokens{}", epoch.value,
               checks ? "checking" : "serving", pipeline->kv_pages, pipeline->kv_page_tokens,
               bound);
  scheduler_.add_pool(epoch, pipeline->kv_pages, pipeline->kv_page_tokens, std::move(nodes), checks,
                      pipeline->sequences, pipeline->keeps_prefixes);
  standings_.rank_pools();
  sequences_.admit();
}

void PipelineLifecycle::on_pipeline_frame(Epoch epoch, Frame frame) {
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  const auto last = static_cast<std::uint32_t>(pipeline->members.size()) - 1;
  const Status taken = sequences_.take_tokens(*pipeline, frame);
  if (!taken.ok()) return lose(epoch, {last, 0}, taken.error().message);
  sequences_.admit();
}

void PipelineLifecycle::on_pipeline_link_lost(Epoch epoch, std::uint32_t stage,
                                              const std::string& why, bool unreached) {
  const std::optional<Seat> silent = silent_seat(epoch);
  if (silent) return lose(epoch, *silent, "it sends no heartbeats");
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline != nullptr && stage == 0 && unreached) {
    pipelines_.ways().fail(options_.node, pipeline->members.front().node, pipeline->first_route);
  }
  lose(epoch, {stage, 0}, "its data link to the coordinator: " + why);
}

// A stage that misses a silent neighbour hangs up, maybe before the neighbour is missed here.
std::optional<Seat> PipelineLifecycle::silent_seat(Epoch epoch) const {
  const auto pipeline = pipelines_.all().find(epoch);
  if (pipeline == pipelines_.all().end()) return std::nullopt;
  std::optional<Seat> found;
  TimePoint heard = clock_.now() - (options_.heartbeat_timeout - 2 * options_.heartbeat);
  pipeline->second.for_each([&](Seat seat, const std::string& name, LinkId) {
    const Node* node = registry_.find(name);
    if (node == nullptr || node->last_heard > heard) return;
    heard = node->last_heard;
    found = seat;
  });
  return found;
}

void PipelineLifecycle::lose(Epoch epoch, Seat seat, const std::string& why) {
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  INVARIANT(seat.stage < pipeline->members.size(), "the stage to blame is one of the pipeline's");
  const std::string sentence = pipeline->describe(seat) + " failed: " + why;
  end(epoch, sentence, {pipeline->members[seat.stage].node_of(seat.rank)});
}

void PipelineLifecycle::end(Epoch epoch, const std::string& sentence,
                            const std::vector<std::string>& culprits) {
  dissolve(epoch, sentence, culprits);
  form();
  sequences_.admit();
}

void PipelineLifecycle::dissolve(Epoch epoch, const std::string& sentence,
                                 const std::vector<std::string>& culprits) {
  spdlog::log(culprits.empty() ? spdlog::level::info : spdlog::level::warn, "epoch {} ended: {}",
              epoch.value, sentence);
  const Pipeline* pipeline = pipelines_.find(epoch);
  INVARIANT(pipeline != nullptr, "a pipeline ends once");
  if (!pipeline->checking) {
    last_loss_ = sentence;
    if (!culprits.empty()) failed_at_ = clock_.now();
  }
  std::vector<std::pair<std::string, LinkId>> members;
  pipeline->for_each(
      [&](Seat, const std::string& name, LinkId link) { members.emplace_back(name, link); });
  pipelines_.end(epoch, culprits);
  if (options_.receipts != nullptr) options_.receipts->end(epoch);
  links_.close(epoch);
  std::vector<std::shared_ptr<Sequence>> over =
      sequences_.interrupt(scheduler_.remove_pool(epoch), !culprits.empty());
  standings_.rank_pools();
  control::v1::CoordinatorMessage message;
  message.mutable_unassign()->set_epoch(epoch.value);
  for (const auto& [name, link] : members) {
    const Node* node = registry_.find(name);
    const bool there = node != nullptr && node->state != Node::State::kLost;
    if (there && node->link == link) sessions_.send(link, message);
  }
  sequences_.end(std::move(over), {ErrorCode::kUnavailable, sentence});
}

void PipelineLifecycle::retire(const std::string& sentence) {
  retired_ = true;
  std::vector<Epoch> epochs;
  for (const auto& [epoch, pipeline] : pipelines_.all()) epochs.push_back(epoch);
  for (const Epoch epoch : epochs) {
    if (pipelines_.find(epoch) != nullptr) dissolve(epoch, sentence, {});
  }
  INVARIANT(pipelines_.all().empty(), "no pipeline forms once all are retired");
}

void PipelineLifecycle::improve() {
  const std::optional<Better> better = pipelines_.better();
  if (!better) return;
  bool is_held = true;
  std::pair<Node*, LayerRange> first{nullptr, {}};  // that may fetch its layers now
  for (const Placed& pipeline : better->pipelines) {
    pipeline.for_each([&](Node& node, LayerRange layers) {
      if (holds(node.status, layers)) return;
      is_held = false;
      const bool idle = node.state == Node::State::kFree && node.plan != layers;
      if (idle && first.first == nullptr) first = {&node, layers};
    });
  }
  // Sending may lose the worker, so it is the last thing.
  if (first.first != nullptr) {
    return holdings_.send_plan(*first.first, first.second, "a better placement: " + better->gain);
  }
  if (!is_held || scheduler_.running() + scheduler_.waiting() > 0) return;
  pipelines_.adopt(*better);
  std::vector<Epoch> epochs;
  for (const auto& [epoch, pipeline] : pipelines_.all()) epochs.push_back(epoch);
  for (const Epoch epoch : epochs) {
    if (pipelines_.find(epoch) != nullptr) {
      dissolve(epoch, "a better placement is known: " + better->gain, {});
    }
  }
  form();
  sequences_.admit();
}

void PipelineLifecycle::lose_overdue() {
  for (const Epoch epoch : pipelines_.overdue()) {
    const Pipeline& pipeline = *pipelines_.find(epoch);
    std::optional<Seat> late;
    pipeline.for_each([&](Seat seat, const std::string&, LinkId) {
      if (!pipeline.is_ready(seat) && !late) late = seat;
    });
    const auto last = static_cast<std::uint32_t>(pipeline.members.size()) - 1;
    lose(epoch, late.value_or(Seat{last, 0}), "the pipeline did not form in time");
  }
}

void PipelineLifecycle::end_outdated() {
  for (const auto& [epoch, why] : pipelines_.outdated()) {
    if (pipelines_.find(epoch) != nullptr) end(epoch, why, {});
  }
}

void PipelineLifecycle::take_away(Node& node, std::optional<Away> away) {
  if (away == node.status.away) return;
  node.status.away = std::move(away);
  const std::string name = node.status.name;
  if (!node.status.away) {
    node.measured_at = clock_.now();
    spdlog::info("worker {} may serve again", name);
  } else {
    const Away& now = *node.status.away;
    spdlog::info("worker {} is {} by {}: {}", name, verb_of(now), giver_of(now), now.why);
    if (!now.drain) {
      node.loaded = false;
      withdraw(node.status.epoch, {node.status.stage, node.status.rank});
    }
  }
  drain();
  form();
  sequences_.admit();
}

void PipelineLifecycle::withdraw(Epoch epoch, Seat seat) {
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  end(epoch, pipeline->describe(seat) + " was taken back by its owner or an admin", {});
}

// All are closed before the first one ends, so that they do not rely on each other. Then they end
// one after the other, because each may take the room that the next one needs.
void PipelineLifecycle::drain() {
  const bool any_away = std::ranges::any_of(
      registry_.known(), [](const Node* node) { return node->status.away.has_value(); });
  if (!std::exchange(drains_, any_away) && !any_away) return;  // none is closed
  std::vector<std::pair<Epoch, Seat>> draining;
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    std::optional<Seat> away;
    pipeline.for_each([&](Seat seat, const std::string& name, LinkId) {
      if (!away && registry_.find(name)->status.away) away = seat;
    });
    scheduler_.close_pool(epoch, away.has_value());
    if (away) draining.emplace_back(epoch, *away);
  }
  for (const auto& [epoch, seat] : draining) {
    const Pipeline* pipeline = pipelines_.find(epoch);
    if (pipeline != nullptr && may_end_now(*pipeline)) withdraw(epoch, seat);
  }
}

bool PipelineLifecycle::may_end_now(const Pipeline& pipeline) const {
  if (pipeline.checking) return true;  // no client waits for what it computes
  const auto pool = scheduler_.pools().find(pipeline.epoch);
  if (pool == scheduler_.pools().end() || pool->second.running == 0) return true;
  if (scheduler_.others_have_room(pipeline.epoch)) return true;
  const std::vector<std::string> next = pipelines_.successor(pipeline);
  return !next.empty() &&
         scheduler_.may_all_run_on(pipeline.epoch, next, standings_.level_of(next));
}

}  // namespace hearth::coordinator
