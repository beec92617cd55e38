#include "node/proof/dispute_party.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/canonical.h"
#include "model/spec.h"
#include "node/engine/available_memory.h"
#include "node/engine/step_hash.h"
#include "node/proof/dispute_rows.h"
#include "proto/committed_sampling.h"
#include "proto/defect.h"
#include "proto/fixed_field.h"

namespace hearth::node {
namespace {

using control::v1::DisputeMoved;
using control::v1::DisputeOrder;
using ledger::Receipt;

std::uint32_t end_of(const Receipt& receipt) { return receipt.first_position + receipt.positions; }

// That the machine has room for a second copy of the layers, and for what was kept and comes of it.
Status check_room(const model::GgufFile& file, LayerRange layers, const TraceInput& input) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(file));
  TRY(const std::uint64_t weights, StageWeights::bytes_of(file, spec, layers));
  const std::uint64_t positions = input.tokens.size();
  const std::uint64_t pages = positions / kernels::kPageTokens + 1;
  const std::uint64_t rows = positions * spec.hidden * sizeof(std::uint16_t);
  const std::uint64_t chains =
      positions * layers.size() * spec.kv_heads * (sizeof(Hash256) + sizeof(Bytes));
  const std::uint64_t need =
      weights + pages * spec.kv_layout().page_bytes() * layers.size() + rows + chains;
  const std::uint64_t free = available_memory();
  if (need <= free) return ok_status();
  return Error{ErrorCode::kNoCapacity, "a trace of it takes " + std::to_string(need >> 20) +
                                           " MiB, and " + std::to_string(free >> 20) + " are free"};
}

// Stands by the lie that proto/defect.h plants in stage.cc.
class OneUnitOff final : public Tracer {
 public:
  using Tracer::Tracer;

 private:
  void produced(std::uint32_t position, const ledger::TraceSlot& slot, Bytes& value) override {
    const bool leaves =
        slot == ledger::TraceSlot{ledger::TraceOp::kResidual, shape().layer_end - 1};
    if (leaves && position % kLieEvery == kLieAt) value[0] ^= std::byte{1};
  }
};

}  // namespace

std::unique_ptr<Tracer> DisputeParty::make_tracer(Tracer::Parts parts) {
  if (planted(SwarmDefect::kOneUnitOff)) return std::make_unique<OneUnitOff>(std::move(parts));
  return std::make_unique<Tracer>(std::move(parts));
}

void DisputeParty::leave() {
  player_.reset();
  tracer_.reset();
  game_.reset();
  case_.reset();
  moved_.reset();
  file_ = {};
  evidence_ = {};
}

Result<ledger::RequestId> DisputeParty::begin(const DisputeOrder& order) {
  leave();
  entry_ = order.entry();
  REQUIRE(open_ != nullptr, "this node has no model to trace with");
  TRY(ledger::DisputeFile file, ledger::parse_dispute(as_bytes(order.begin().said())));
  REQUIRE(file.moves.empty() && !file.evidence && !file.tokens,
          "a dispute that begins has moves already");
  REQUIRE(file.said.cluster == cluster_ && file.said.seal.receipt == entry_,
          "the dispute is not of that entry of this cluster's log");
  REQUIRE(file.said.receipts.size() <= kWindows,
          "the dispute has more than " + std::to_string(kWindows) + " windows");
  TRY(ledger::CheckedCase checked, ledger::check_case(file.said));
  const PublicKey own = key_.public_key();
  const bool is_worker = checked.disputed().worker == own;
  REQUIRE(is_worker || file.said.seal.auditor == own, "this node is no side of the dispute");
  REQUIRE(end_of(checked.disputed()) <= DisputeRows::kPositions,
          "the dispute has more than " + std::to_string(DisputeRows::kPositions) + " positions");
  ledger::RequestId run{};
  REQUIRE(read_field(order.begin().run(), run), "the run has no name");
  side_ = is_worker ? ledger::DisputeSide::kWorker : ledger::DisputeSide::kAuditor;
  file_ = std::move(file);
  case_ = std::move(checked);
  return run;
}

// Of all windows up to the disputed one, the tokens and what came in are what the receipts name.
Status DisputeParty::check_input(const TraceInput& input) const {
  REQUIRE(input.salt == case_->said.salt, "the run has another salt than the disputed request");
  REQUIRE(input.tokens.size() >= end_of(case_->disputed()),
          "the run had " + std::to_string(input.tokens.size()) +
              " positions, and the window ends at " + std::to_string(end_of(case_->disputed())));
  const std::vector<std::uint32_t> tokens(input.tokens.begin(), input.tokens.end());
  const Bytes sampling = encode_committed(input.sampling);
  for (const Receipt& receipt : case_->receipts) {
    const std::uint32_t first = receipt.first_position;
    REQUIRE(ledger::commit_tokens(input.salt, first,
                                  std::span(tokens).subspan(first, receipt.positions),
                                  sampling) == receipt.tokens,
            "the run had other tokens than the receipts commit to");
    if (receipt.is_first()) continue;
    REQUIRE(input.rows.size() == tokens.size(), "no rows came in");
    std::vector<Hash256> rows;
    for (std::uint32_t i = first; i < end_of(receipt); ++i) {
      rows.push_back(hash_activation(receipt.layer_begin, i, input.rows[i]));
    }
    REQUIRE(ledger::boundary_root(input.salt, first, rows) == receipt.in_root,
            "what came in in the run is not what the receipts name");
  }
  return ok_status();
}

Status DisputeParty::trace(Result<TraceInput> input, const std::function<bool()>& stopped) {
  REQUIRE(case_.has_value(), "no dispute was begun");
  TRY_VOID(input.ok() ? ok_status() : Status(input.error()));
  TRY_VOID(check_input(*input));
  const Receipt& disputed = case_->disputed();
  const LayerRange layers{disputed.layer_begin, disputed.layer_end};
  TRY(const auto model, open_(layers));
  TRY_VOID(check_room(*model, layers, *input));
  TRY(const kernels::Kernels* table, kernels::select_kernels());
  TRY(Tracer::Parts parts, Tracer::prepare(model, layers, std::move(input).value(), *table));
  tracer_ = make_(std::move(parts));
  TRY_VOID(tracer_->run(stopped));
  game_.emplace(*case_);
  player_.emplace(*tracer_, side_, key_);
  return ok_status();
}

Result<control::v1::DisputeMove> DisputeParty::move(const DisputeOrder& order) {
  REQUIRE(game_.has_value() && order.entry() == entry_, "that dispute is not traced here");
  if (order.has_play()) return play(order.play());
  REQUIRE(order.has_show(), "an order of a dispute that is none");
  return show(order.show());
}

Status DisputeParty::take_other(const DisputeMoved& other) {
  REQUIRE(other.round() == game_->number() && !game_->awaits(side_),
          "the other side's move is not of round " + std::to_string(game_->number()));
  REQUIRE(other.payload().size() <= ledger::kSentMoveBytes, "the other side's move is too long");
  ledger::DisputeMove move;
  move.side = side_ == ledger::DisputeSide::kWorker ? ledger::DisputeSide::kAuditor
                                                    : ledger::DisputeSide::kWorker;
  const ByteSpan payload = as_bytes(other.payload());
  move.payload.assign(payload.begin(), payload.end());
  REQUIRE(read_field(other.signature(), move.signature), "the other side's move is not signed");
  return game_->take(move, 0);
}

Result<control::v1::DisputeMove> DisputeParty::play(const control::v1::DisputePlay& order) {
  control::v1::DisputeMove answer;
  answer.set_entry(entry_);
  if (moved_ && moved_->round() == order.round()) {  // it is asked again
    *answer.mutable_moved() = *moved_;
    return answer;
  }
  if (order.has_other()) {
    TRY_VOID(take_other(order.other()));
  }
  REQUIRE(order.round() == game_->number() && game_->awaits(side_),
          "the game is not at round " + std::to_string(order.round()));
  TRY(const ledger::DisputeMove move, player_->move(*game_));
  REQUIRE(
      move.payload.size() <= ledger::kSentMoveBytes,
      "a move of " + std::to_string(move.payload.size()) + " bytes, more than a message may have");
  DisputeMoved& moved = moved_.emplace();
  moved.set_round(order.round());
  moved.set_payload(to_field(move.payload));
  moved.set_signature(to_field(move.signature));
  TRY_VOID(game_->take(move, 0));
  *answer.mutable_moved() = moved;
  return answer;
}

Result<control::v1::DisputeMove> DisputeParty::show(const control::v1::DisputeShow& order) {
  if (evidence_.empty()) {
    TRY_VOID(take_other(order.other()));
    ledger::DisputeFile file = file_;
    TRY(file.evidence, player_->evidence(*game_));
    TRY(evidence_, ledger::write_dispute(file));
    REQUIRE(evidence_.size() <= ledger::kSentEvidenceBytes,
            "its evidence has " + std::to_string(evidence_.size()) + " bytes; the limit is " +
                std::to_string(ledger::kSentEvidenceBytes));
  }
  REQUIRE(order.offset() < evidence_.size(), "there is no evidence from that byte on");
  control::v1::DisputeMove answer;
  answer.set_entry(entry_);
  control::v1::DisputeShown& shown = *answer.mutable_shown();
  const ByteSpan rest = ByteSpan(evidence_).subspan(order.offset());
  shown.set_offset(order.offset());
  shown.set_total(evidence_.size());
  shown.set_part(to_field(rest.first(std::min(rest.size(), ledger::kSentPartBytes))));
  return answer;
}

}  // namespace hearth::node
