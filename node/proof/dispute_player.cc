#include "node/proof/dispute_player.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ledger/merkle.h"
#include "node/proof/trace_check.h"

namespace hearth::node {
namespace {

using ledger::DisputeGame;
using ledger::DisputeRound;
using ledger::TraceOp;
using ledger::TraceShape;

Bytes joined(const std::vector<Hash256>& hashes) {
  Bytes out;
  ByteWriter writer(out);
  for (const Hash256& hash : hashes) writer.append(hash.bytes);
  return out;
}

void put_path(ByteWriter& writer, const std::vector<Hash256>& path) {
  writer.write(static_cast<std::uint16_t>(path.size()));
  writer.append(joined(path));
}

std::vector<Hash256> row_leaves(const Hash256& salt, const ledger::Receipt& receipt,
                                const std::vector<Hash256>& rows) {
  std::vector<Hash256> out;
  for (std::uint32_t i = 0; i < receipt.positions; ++i) {
    const std::uint32_t position = receipt.first_position + i;
    out.push_back(ledger::boundary_leaf(salt, position, rows[position]));
  }
  return out;
}

}  // namespace

Status DisputePlayer::look_at(std::uint32_t position) {
  if (!values_.empty() && position_ == position) return ok_status();
  TRY(values_, tracer_.values(position));
  position_ = position;
  leaves_ = tracer_.leaves(position, values_);
  return ok_status();
}

std::vector<Hash256> DisputePlayer::position_leaves(std::uint32_t end) const {
  std::vector<Hash256> out;
  for (std::uint32_t i = 0; i < end; ++i) {
    out.push_back(ledger::position_leaf(tracer_.position_roots()[i]));
  }
  return out;
}

Result<ledger::DisputeMove> DisputePlayer::move(const DisputeGame& game) {
  REQUIRE(game.awaits(side_), "no move is awaited");
  REQUIRE(game.end() <= tracer_.position_roots().size(),
          "the trace has " + std::to_string(tracer_.position_roots().size()) + " positions, not " +
              std::to_string(game.end()));
  TRY(Bytes bytes, payload(game));
  return ledger::sign_move(game.dispute().id, game.number(), side_, std::move(bytes), key_);
}

Result<Bytes> DisputePlayer::payload(const DisputeGame& game) {
  const TraceShape& shape = tracer_.shape();
  switch (game.round()) {
    case DisputeRound::kRows:
      return joined(ledger::open_leaves(
          game.node(),
          row_leaves(tracer_.input().salt, game.dispute().disputed(), tracer_.rows_out())));
    case DisputeRound::kTrace: return trace_payload(game);
    case DisputeRound::kPositions:
      return joined(ledger::open_leaves(game.node(), position_leaves(game.end())));
    default: break;
  }
  TRY_VOID(look_at(game.position()));
  if (game.round() == DisputeRound::kSlots) {
    return joined(ledger::open_leaves(game.node(), leaves_));
  }
  const Bytes& value = values_[game.slot()];
  const ledger::TraceSlot slot = shape.at(game.position(), game.slot());
  if (game.round() == DisputeRound::kChunks) {
    return joined(ledger::trace_chunks(shape, slot.op, value));
  }
  if (game.round() == DisputeRound::kElement) {
    const std::size_t size = shape.chunk_bytes(slot.op);
    const std::size_t begin = game.chunk() * size;
    const ByteSpan chunk = ByteSpan(value).subspan(begin, std::min(size, value.size() - begin));
    return Bytes(chunk.begin(), chunk.end());
  }
  TRY(const auto weights, tracer_.weights(game.position(), slot, game.element()));
  return joined({ledger::weights_digest(weights)});
}

Result<Bytes> DisputePlayer::trace_payload(const DisputeGame& game) {
  const std::uint32_t last = game.end() - 1;
  TRY_VOID(look_at(last));
  const std::vector<Hash256> positions = position_leaves(game.end());
  Bytes out;
  ByteWriter writer(out);
  writer.append(ledger::subtree_root(positions).bytes);
  writer.append(blake2b(ledger::encode(tracer_.shape())).bytes);
  writer.append(tracer_.rows_out()[last].bytes);
  writer.append(tracer_.position_roots()[last].bytes);
  put_path(writer, ledger::path_of(leaves_.size() - 1, leaves_));
  put_path(writer, ledger::path_of(last, positions));
  return out;
}

Result<ledger::DisputeInput> DisputePlayer::input(const DisputeGame& game, std::uint32_t position,
                                                  const ledger::TraceSlot& slot) {
  TRY_VOID(look_at(position));
  ledger::DisputeInput out;
  out.position = position;
  out.slot = tracer_.shape().index_of(position, slot);
  out.value = values_[out.slot];
  out.position_root = tracer_.position_roots()[position];
  out.slot_path = ledger::path_of(out.slot, leaves_);
  out.position_path = ledger::path_of(position, position_leaves(game.end()));
  return out;
}

Result<ledger::DisputeEvidence> DisputePlayer::evidence(const DisputeGame& game) {
  REQUIRE(game.outcome() && game.outcome()->found, "the game has found no value");
  const ledger::DisputeFound& found = *game.outcome()->found;
  const TraceShape& shape = tracer_.shape();
  ledger::DisputeEvidence out;
  for (const TraceSource& source : trace_sources(shape, found.position, found.what)) {
    TRY(ledger::DisputeInput one, input(game, source.position, source.slot));
    out.inputs.push_back(std::move(one));
  }
  TRY(out.weights, tracer_.weights(found.position, found.what, found.element));
  if (found.what.op == TraceOp::kEnter && shape.layer_begin == 0) {
    ByteWriter(out.rows).write(static_cast<std::uint32_t>(tracer_.input().tokens[found.position]));
  } else if (found.what.op == TraceOp::kEnter) {
    out.rows = tracer_.input().rows[found.position];
  } else if (found.what.op == TraceOp::kAttention) {
    const std::uint32_t head = found.element / shape.head_dim;
    const std::uint32_t kv_head = head / (shape.heads / shape.kv_heads);
    const std::uint32_t begin = shape.first_visible(found.what.layer, found.position);
    out.rows = tracer_.stored(found.what.layer, kv_head, begin, found.position + 1);
    if (begin > 0) {
      const Bytes before = tracer_.chain(found.what.layer, begin - 1);
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(kv_head * sizeof(Hash256)),
                  sizeof(Hash256), out.chain.bytes.begin());
    }
  } else if (found.what.op == TraceOp::kIncoming && shape.layer_begin > 0) {
    const auto& receipts = game.dispute().receipts;
    auto receipt = receipts.begin();
    while (found.position >= receipt->first_position + receipt->positions) ++receipt;
    out.incoming = tracer_.rows_in()[found.position];
    out.incoming_path =
        ledger::path_of(found.position - receipt->first_position,
                        row_leaves(tracer_.input().salt, *receipt, tracer_.rows_in()));
  }
  return out;
}

}  // namespace hearth::node
