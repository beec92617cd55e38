#include "coordinator/proof/dispute_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/limits.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

using control::v1::DisputeMoved;
using control::v1::DisputeShown;
using ledger::DisputeSide;
using ledger::kDisputeSides;

constexpr std::size_t kWordsMost = 256;  // of a node that declines

static_assert(ledger::kSentMoveBytes + 1'024 < limits::kControlWorkerBytes &&
                  ledger::kSentPartBytes + 1'024 < limits::kControlWorkerBytes,
              "a move and a part fit a worker's message");
static_assert(ledger::kSentPartBytes * DisputeDesk::kPartsAtOnce < limits::kControlSessionBytes &&
                  ledger::kSentPartBytes / 2 < limits::kControlSessionBytesPerSecond,
              "a worker that shows its evidence says no more than it may");

std::string line_of(const std::string& words) {
  std::string line = words.substr(0, kWordsMost);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return line;
}

Bytes bytes_of(const std::string& field) {
  const ByteSpan bytes = as_bytes(field);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::uint64_t DisputeDesk::now_ms() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now()).count());
}

control::v1::DisputeOrder& DisputeDesk::order(std::size_t side) {
  Message& message = messages_.emplace_back();
  message.node = game_->table.sides[side].node;
  message.body.set_entry(game_->entry);
  return message.body;
}

// --- what comes in, once more ---

std::optional<std::string> DisputeDesk::begin(DisputeTable table) {
  if (!tools_.shape || !tools_.check) return "this server plays none";
  if (waiting_.size() >= kWaiting) {
    return std::to_string(kWaiting) + " others wait to be played";
  }
  for (const DisputeTable::Side& side : table.sides) {
    if (side.node.empty()) return "one of the two is not connected";
  }
  if (table.said.receipts.empty()) return "the receipts of its windows are not kept";
  const auto receipt = ledger::reread_receipt(table.said.receipts.back());
  if (!receipt) return receipt.error().message;
  const LayerRange layers{receipt->layer_begin, receipt->layer_end};
  const auto shape = tools_.shape(layers, static_cast<std::uint32_t>(table.run.prompt.size()));
  if (!shape) return shape.error().message;
  table.said.shape = *shape;
  auto checked = ledger::check_case(table.said);
  if (!checked) return checked.error().message;
  waiting_.emplace_back(std::move(table), *std::move(checked));
  next();
  return std::nullopt;
}

void DisputeDesk::next() {
  if (game_ || waiting_.empty()) return;
  auto [table, of] = std::move(waiting_.front());
  waiting_.pop_front();
  start(std::move(table), std::move(of));
}

void DisputeDesk::start(DisputeTable table, ledger::CheckedCase of) {
  game_.emplace(std::move(table), std::move(of));
  game_->entry = game_->of.said.seal.receipt;
  game_->witness = game_->table.witness;
  game_->at = clock_.now();
  ledger::DisputeFile file;
  file.said = game_->of.said;
  file.model = game_->table.model;
  file.build = tools_.build;
  const auto said = ledger::write_dispute(file);
  if (!said) return end(said.error().message);
  for (std::size_t i = 0; i < kDisputeSides; ++i) {
    Hash256 own;
    random_bytes(own.bytes);
    game_->runs[i] = ledger::request_of(ledger::answer_name(clock_.unix_seconds(), own.bytes), 0);
    control::v1::DisputeBegin& begin = *order(i).mutable_begin();
    begin.set_said(to_field(*said));
    begin.set_run(to_field(game_->runs[i]));
  }
}

// Both keep what comes in. As requests like any others: what computes them besides is not told.
void DisputeDesk::run(Game& one) {
  for (std::size_t i = 0; i < kDisputeSides; ++i) {
    AuditRun order = one.table.run;
    order.order.request = one.runs[i];
    order.nodes.clear();
    const ReceiptPipeline& on = *one.table.sides[i].pipeline;
    order.for_newcomers = on.checks;
    for (const ReceiptPipeline::Stage& stage : on.stages) {
      order.nodes.push_back(stage.node);
    }
    runs_[one.runs[i]] = i;
    to_run_.push_back(std::move(order));
  }
}

bool DisputeDesk::is_run(const ledger::RequestId& request) const {
  return runs_.contains(request) || std::ranges::count(past_runs_, request) > 0;
}

void DisputeDesk::over(const ReceiptRequest& request) {
  const auto run = runs_.find(request.order.request);
  if (run == runs_.end() || !game_) return;
  if (request.epoch != game_->table.sides[run->second].pipeline->epoch) {
    end("a pipeline of the two was lost");
  }
}

void DisputeDesk::give_up(const ledger::RequestId& run, const std::string& why) {
  if (runs_.contains(run)) end("the request could not be computed once more: " + why);
}

void DisputeDesk::lose(const std::string& node) {
  if (!game_) return;
  for (const DisputeTable::Side& side : game_->table.sides) {
    if (side.node == node) return end("node " + node + " is lost");
  }
}

// --- moves ---

void DisputeDesk::take(const std::string& node, const control::v1::DisputeMove& move) {
  if (!game_ || move.entry() != game_->entry) return;  // late
  const auto& sides = game_->table.sides;
  const auto at = std::ranges::find(sides, node, &DisputeTable::Side::node);
  if (at == sides.end()) {
    spdlog::error("node {} moves in a dispute that it is no side of", node);
    return;
  }
  const auto side = static_cast<std::size_t>(at - sides.begin());
  const bool is_keeping = game_->state == State::kKeeping;
  const bool is_tracing = game_->state == State::kTracing;
  if (!move.declined().empty()) {
    if (game_->state == State::kShowing) {
      return game_->witness == static_cast<DisputeSide>(side)
                 ? other_witness("node " + node + " shows none: " + line_of(move.declined()))
                 : void();
    }
    return end("node " + node + " declines: " + line_of(move.declined()));
  }
  if (move.has_moved()) return take_moved(side, move.moved());
  if (move.has_shown()) return take_shown(side, move.shown());
  if ((is_keeping && move.keeps()) || (is_tracing && move.traced())) game_->done[side] = true;
  if (!game_->done[0] || !game_->done[1]) return;
  game_->done = {};
  game_->at = clock_.now();
  if (is_keeping) {
    game_->state = State::kTracing;
    return run(*game_);
  }
  game_->state = State::kPlaying;
  game_->game.emplace(game_->of);
  game_->game->begin(now_ms());
  order_moves(false);
}

// To who has not moved in this round, each with what the other did in the one before.
void DisputeDesk::order_moves(bool again) {
  for (std::size_t i = 0; i < kDisputeSides; ++i) {
    if (again && !game_->game->awaits(static_cast<DisputeSide>(i))) continue;
    control::v1::DisputePlay& play = *order(i).mutable_play();
    play.set_round(game_->game->number());
    const auto& other = game_->latest[1 - i];
    if (other && other->round() + 1 == game_->game->number()) *play.mutable_other() = *other;
  }
}

void DisputeDesk::take_moved(std::size_t side, const DisputeMoved& moved) {
  if (game_->state != State::kPlaying || moved.round() != game_->game->number()) return;  // late
  ledger::DisputeMove move;
  move.side = static_cast<DisputeSide>(side);
  Status taken = ok_status();
  if (moved.payload().size() > ledger::kSentMoveBytes ||
      !read_field(moved.signature(), move.signature)) {
    taken = Error::invalid("a move of " + std::to_string(moved.payload().size()) +
                           " bytes, or a signature that is none");
  } else {
    move.payload = bytes_of(moved.payload());
    taken = game_->game->take(move, now_ms());
  }
  if (!taken.ok()) {
    spdlog::error("node {}: no move: {}", game_->table.sides[side].node, taken.error().message);
    return;
  }
  game_->moves.push_back(std::move(move));
  const bool is_whole = game_->game->number() != moved.round() || game_->game->outcome();
  game_->latest[side] = moved;
  if (!is_whole) return;
  if (game_->game->outcome()) return found();
  order_moves(false);
}

// --- the end ---

void DisputeDesk::found() {
  if (!game_->game->outcome()->found) return finish({});
  game_->state = State::kShowing;
  ask_part();
}

void DisputeDesk::ask_part() {
  const auto side = static_cast<std::size_t>(game_->witness);
  control::v1::DisputeShow& show = *order(side).mutable_show();
  *show.mutable_other() = *game_->latest[1 - side];
  show.set_offset(game_->shown.size());
  game_->part_due = false;
  game_->at = clock_.now();
}

void DisputeDesk::take_shown(std::size_t side, const DisputeShown& shown) {
  if (game_->state != State::kShowing || game_->part_due ||
      static_cast<DisputeSide>(side) != game_->witness || shown.offset() != game_->shown.size()) {
    return;  // late
  }
  if (game_->shown.empty()) game_->total = shown.total();
  if (shown.total() != game_->total || shown.total() > ledger::kSentEvidenceBytes ||
      shown.part().empty() || shown.part().size() > ledger::kSentPartBytes ||
      shown.part().size() > shown.total() - shown.offset()) {
    return other_witness("its evidence has parts that do not fit");
  }
  const ByteSpan part = as_bytes(shown.part());
  game_->shown.insert(game_->shown.end(), part.begin(), part.end());
  game_->asked_again = false;
  if (game_->shown.size() == game_->total) return take_evidence();
  if (game_->shown.size() < kPartsAtOnce * ledger::kSentPartBytes) return ask_part();
  game_->part_due = true;
}

void DisputeDesk::take_evidence() {
  const auto file = ledger::parse_dispute(game_->shown);
  if (!file) return other_witness(file.error().message);
  if (!file->evidence) return other_witness("its evidence has none");
  finish(file->evidence);
}

// Its evidence is no proof of anything: who is wrong may have been asked first.
void DisputeDesk::other_witness(const std::string& why) {
  const std::string node = game_->table.sides[static_cast<std::size_t>(game_->witness)].node;
  spdlog::error("the dispute over entry {}: node {} has no evidence: {}", game_->entry, node, why);
  if (std::exchange(game_->asked_both, true)) return end("neither side showed its evidence");
  game_->witness =
      game_->witness == DisputeSide::kWorker ? DisputeSide::kAuditor : DisputeSide::kWorker;
  game_->shown.clear();
  game_->asked_again = false;
  ask_part();
}

void DisputeDesk::finish(const std::optional<ledger::DisputeEvidence>& evidence) {
  ledger::DisputeFile file;
  file.said = game_->of.said;
  file.model = game_->table.model;
  file.build = tools_.build;
  file.moves = game_->moves;
  file.evidence = evidence;
  const auto found = tools_.check(file, true);
  if (!found && evidence) return other_witness(found.error().message);
  if (!found) return end(found.error().message);
  if (!found->decided) return end(found->why);
  auto bytes = ledger::write_dispute(file);
  if (!bytes) return end(bytes.error().message);
  const auto alone = tools_.check(file, false);
  end({game_->entry, found->why, true, found->wrong, *std::move(bytes),
       !alone.ok() || !alone->decided});
}

void DisputeDesk::end(const std::string& why) { end({game_->entry, why, false, {}, {}, false}); }

void DisputeDesk::end(DisputePlayed played) {
  spdlog::info("the game of the dispute over entry {}: {}", played.entry, played.why);
  for (std::size_t i = 0; i < kDisputeSides; ++i) order(i).set_over(true);
  played_.push_back(std::move(played));
  for (const auto& [name, side] : runs_) past_runs_.push_back(name);
  while (past_runs_.size() > kPastRuns) past_runs_.pop_front();
  runs_.clear();
  game_.reset();
  next();
}

// --- time ---

void DisputeDesk::on_timer() {
  if (!game_) return;
  const Duration waited = clock_.now() - game_->at;
  const auto late = [this] {
    std::string who;
    for (std::size_t i = 0; i < kDisputeSides; ++i) {
      if (!game_->done[i])
        who += (who.empty() ? "node " : " and node ") + game_->table.sides[i].node;
    }
    return who;
  };
  switch (game_->state) {
    case State::kKeeping:
      if (waited >= kKeepPatience) end(late() + " did not answer");
      return;
    case State::kTracing:
      if (waited >= kTracePatience) end(late() + " did not trace it in time");
      return;
    case State::kPlaying: {
      const std::uint64_t before = game_->game->deadline_ms();
      game_->game->expire(now_ms());
      if (game_->game->outcome()) return end(game_->game->outcome()->why);
      if (game_->game->deadline_ms() != before) order_moves(true);
      return;
    }
    case State::kShowing:
      if (game_->part_due) {
        if (waited >= kPartPause) ask_part();
      } else if (waited >= kPartPatience) {
        if (std::exchange(game_->asked_again, true)) return other_witness("it says nothing");
        ask_part();
      }
      return;
  }
}

}  // namespace hearth::coordinator
