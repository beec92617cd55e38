#include "ledger/dispute_game.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "ledger/merkle.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kMovePurpose = "hearth dispute v1";
constexpr std::size_t kPathHashes = 64;

constexpr std::size_t index_of(DisputeSide side) { return static_cast<std::size_t>(side); }

Bytes move_bytes(const Hash256& id, std::uint32_t round, DisputeSide side, ByteSpan payload) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(id.bytes);
  writer.write(round);
  writer.write(static_cast<std::uint8_t>(side));
  writer.append(payload);
  return all;
}

Hash256 read_hash(ByteReader& reader) {
  Hash256 out;
  const ByteSpan bytes = reader.take(out.bytes.size());
  if (!bytes.empty()) std::ranges::copy(bytes, out.bytes.begin());
  return out;
}

Result<std::vector<Hash256>> read_hashes(ByteReader& reader, std::size_t count) {
  REQUIRE(reader.remaining() >= count * sizeof(Hash256),
          "it has fewer hashes than the " + std::to_string(count) + " that it opens");
  std::vector<Hash256> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(read_hash(reader));
  return out;
}

Result<Proof> read_path(ByteReader& reader) {
  const auto count = reader.read<std::uint16_t>();
  REQUIRE(count <= kPathHashes,
          "a path of it has more than " + std::to_string(kPathHashes) + " hashes");
  return read_hashes(reader, count);
}

// The receipts are those of one slot's windows, from the first on.
Status check_windows(const std::vector<Receipt>& receipts) {
  std::uint32_t next = 0;
  for (const Receipt& receipt : receipts) {
    const Receipt& first = receipts.front();
    REQUIRE(receipt.slot.request == first.slot.request && receipt.slot.epoch == first.slot.epoch &&
                receipt.slot.stage == first.slot.stage && receipt.worker == first.worker &&
                receipt.program == first.program && receipt.layer_begin == first.layer_begin &&
                receipt.layer_end == first.layer_end && receipt.stages == first.stages &&
                receipt.first_position == next && receipt.positions > 0,
            "the receipts are not those of one stage's windows, one after the other");
    next += receipt.positions;
  }
  return ok_status();
}

}  // namespace

std::string_view side_name(DisputeSide side) {
  return side == DisputeSide::kWorker ? "worker" : "auditor";
}

PublicKey CheckedCase::key(DisputeSide side) const {
  return side == DisputeSide::kWorker ? disputed().worker : said.seal.auditor;
}

Result<CheckedCase> check_case(DisputeCase said) {
  CheckedCase out;
  REQUIRE(!said.receipts.empty(), "a dispute without a receipt");
  for (const Bytes& bytes : said.receipts) {
    TRY(const Receipt receipt, parse_receipt(bytes, said.cluster));
    out.receipts.push_back(receipt);
  }
  TRY_VOID(check_windows(out.receipts));
  const Receipt& disputed = out.disputed();
  REQUIRE(
      said.shape.layer_begin == disputed.layer_begin && said.shape.layer_end == disputed.layer_end,
      "the trace is of other layers than the receipt");
  REQUIRE((said.shape.layer_end == said.shape.layers) == disputed.is_last(),
          "the trace's layers are not those of the receipt's stage");
  REQUIRE(check_seal(said.seal, said.cluster), "the auditor has not signed the seal");
  REQUIRE(said.seal.auditor != disputed.worker, "the auditor is the worker");
  REQUIRE(seal_of(said.seal.receipt, said.seal.auditor, said.opened_root, said.opened_salt) ==
              said.seal.seal,
          "what was opened is not what the auditor sealed");
  REQUIRE(said.opened_root != disputed.out_root, "auditor and worker say the same: no dispute");
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("hearth dispute v1"));
  writer.append(said.cluster.bytes());
  writer.append(said.receipts.back());
  writer.append(said.seal.auditor.bytes());
  writer.append(said.seal.seal.bytes);
  out.id = blake2b(all);
  out.said = std::move(said);
  return out;
}

Result<DisputeMove> sign_move(const Hash256& id, std::uint32_t round, DisputeSide side,
                              Bytes payload, const SecretKey& key) {
  REQUIRE(payload.size() <= kMoveBytes,
          "a move of more than " + std::to_string(kMoveBytes) + " bytes");
  DisputeMove move{side, std::move(payload), {}};
  move.signature = key.sign(kMovePurpose, move_bytes(id, round, side, move.payload));
  return move;
}

DisputeGame::DisputeGame(CheckedCase of) : case_(std::move(of)) {
  const Receipt& receipt = case_.disputed();
  end_ = receipt.first_position + receipt.positions;
  said_[0].node = receipt.out_root;
  said_[1].node = case_.said.opened_root;
  node_ = {0, receipt.positions};
  if (receipt.is_last()) {
    round_ = DisputeRound::kTrace;
  } else if (receipt.positions == 1) {
    round_ = DisputeRound::kTrace;
    for (std::size_t i = 0; i < kDisputeSides; ++i) rows_[i] = said_[i].node;
  }
}

void DisputeGame::begin(std::uint64_t now_ms) { deadline_ms_ = now_ms + kMoveMs; }

bool DisputeGame::awaits(DisputeSide side) const { return !outcome_ && !moved_[index_of(side)]; }

void DisputeGame::lose(std::array<bool, kDisputeSides> who, std::string why) {
  outcome_ = DisputeOutcome{};
  outcome_->lost = who;
  outcome_->why = std::move(why);
  round_ = DisputeRound::kOver;
}

Status DisputeGame::take(const DisputeMove& move, std::uint64_t now_ms) {
  REQUIRE(awaits(move.side), "no move of the " + std::string(side_name(move.side)) + " is awaited");
  REQUIRE(move.payload.size() <= kMoveBytes,
          "a move of more than " + std::to_string(kMoveBytes) + " bytes");
  REQUIRE(verify(case_.key(move.side), kMovePurpose,
                 move_bytes(case_.id, number_, move.side, move.payload), move.signature),
          "move " + std::to_string(number_) + " is not signed by the " +
              std::string(side_name(move.side)));
  const std::size_t side = index_of(move.side);
  ++moves_;
  const Status read_it = read(move, said_[side]);
  if (!read_it) {
    std::array<bool, kDisputeSides> who{};
    who[side] = true;
    lose(who, "move " + std::to_string(number_) + " of the " + std::string(side_name(move.side)) +
                  " contradicts what it has signed: " + read_it.error().message);
    return ok_status();
  }
  moved_[side] = true;
  if (!moved_[0] || !moved_[1]) return ok_status();
  advance();
  deadline_ms_ = now_ms + kMoveMs;
  return ok_status();
}

void DisputeGame::expire(std::uint64_t now_ms) {
  if (outcome_ || now_ms < deadline_ms_) return;
  if (!retried_) {
    retried_ = true;
    deadline_ms_ = now_ms + kMoveMs;
    return;
  }
  lose({!moved_[0], !moved_[1]}, "move " + std::to_string(number_) + " did not come in time");
}

Status DisputeGame::read(const DisputeMove& move, Said& said) const {
  ByteReader reader(move.payload);
  if (round_ == DisputeRound::kTrace) {
    TRY_VOID(read_trace(reader, said));
  } else if (round_ == DisputeRound::kChunks) {
    TRY(said.opened,
        read_hashes(reader, case_.said.shape.chunks(case_.said.shape.at(position_, slot_).op)));
    REQUIRE(trace_leaf(case_.said.salt, position_, slot_, said.opened) == said.node,
            "its chunks are not those of the value");
  } else if (round_ == DisputeRound::kElement) {
    const TraceOp op = case_.said.shape.at(position_, slot_).op;
    const std::size_t begin = chunk_ * case_.said.shape.chunk_bytes(op);
    const std::size_t size =
        std::min(case_.said.shape.chunk_bytes(op), case_.said.shape.value_bytes(op) - begin);
    const ByteSpan bytes = reader.take(size);
    said.chunk.assign(bytes.begin(), bytes.end());
    REQUIRE(!reader.failed() && trace_chunk(said.chunk) == said.node,
            "its bytes are not those of the chunk");
  } else if (round_ == DisputeRound::kWeights) {
    said.weights = read_hash(reader);
    REQUIRE(!reader.failed(), "it has no digest");
  } else {
    TRY(said.opened, read_hashes(reader, open_node(node_).size()));
    Hash256 node = close_node(node_, said.opened);
    const bool whole = node_ == TreeRange{0, case_.said.shape.slots(position_)};
    if (round_ == DisputeRound::kSlots && whole) node = position_leaf(node);
    REQUIRE(node == said.node, "the nodes that it opens are not below the one it had named");
  }
  REQUIRE(reader.remaining() == 0, "bytes are left over");
  return ok_status();
}

// root, hash of the shape, then the proof that the trace ends in the row that is in dispute.
Status DisputeGame::read_trace(ByteReader& reader, Said& said) const {
  said.trace = read_hash(reader);
  said.shape = read_hash(reader);
  REQUIRE(!reader.failed(), "it ends before its root");
  // Of another shape the proof cannot be read.
  if (said.shape != blake2b(encode(case_.said.shape))) {
    reader.take(reader.remaining());
    return ok_status();
  }
  return check_outgoing(reader, said);
}

Status DisputeGame::check_outgoing(ByteReader& reader, const Said& said) const {
  const std::uint32_t last = end_ - 1;
  const Hash256 row = read_hash(reader);
  const Hash256 position_root = read_hash(reader);
  TRY(const Proof slot_path, read_path(reader));
  TRY(const Proof position_path, read_path(reader));
  REQUIRE(!reader.failed(), "it ends before its proof");
  const std::uint32_t slots = case_.said.shape.slots(last);
  const Hash256 chunk = trace_chunk(row.bytes);
  const Hash256 leaf = trace_leaf(case_.said.salt, last, slots - 1, {&chunk, 1});
  TRY_VOID(check_inclusion(leaf, slots - 1, slots, slot_path, position_root));
  TRY_VOID(check_inclusion(position_leaf(position_root), last, end_, position_path, said.trace));
  if (case_.disputed().is_last()) return ok_status();
  const std::size_t side = &said == &said_[0] ? 0 : 1;
  REQUIRE(boundary_leaf(case_.said.salt, last, row) == rows_[side],
          "its trace does not end in the row that its root has");
  return ok_status();
}

void DisputeGame::next(DisputeRound round) {
  round_ = round;
  ++number_;
  moved_ = {};
  retried_ = false;
}

// Both have moved, and each move is one with what its side said before.
void DisputeGame::advance() {
  switch (round_) {
    case DisputeRound::kTrace: {
      const Hash256 shape = blake2b(encode(case_.said.shape));
      if (said_[0].shape != shape || said_[1].shape != shape) {
        outcome_ = DisputeOutcome{};
        outcome_->shapes_differ = true;
        outcome_->shapes = {said_[0].shape, said_[1].shape};
        outcome_->why = "they do not agree on the shape of the model";
        round_ = DisputeRound::kOver;
        return;
      }
      if (said_[0].trace == said_[1].trace) {
        outcome_ = DisputeOutcome{};
        outcome_->why =
            "both have the same trace, which is of a last stage: only the tokens show "
            "whose commitment is wrong";
        round_ = DisputeRound::kOver;
        return;
      }
      for (Said& said : said_) said.node = said.trace;
      node_ = {0, end_};
      if (node_.size() == 1) return enter_position();
      return next(DisputeRound::kPositions);
    }
    case DisputeRound::kRows:
    case DisputeRound::kPositions:
    case DisputeRound::kSlots: return descend();
    case DisputeRound::kChunks: {
      while (said_[0].opened[chunk_] == said_[1].opened[chunk_]) ++chunk_;
      for (Said& said : said_) said.node = said.opened[chunk_];
      return next(DisputeRound::kElement);
    }
    case DisputeRound::kElement: return find_element();
    case DisputeRound::kWeights: return finish();
    case DisputeRound::kOver: return;
  }
}

// To the first opened node in which they differ. There is one: they differ above it.
void DisputeGame::descend() {
  const std::vector<TreeRange> nodes = open_node(node_);
  std::size_t at = 0;
  while (said_[0].opened[at] == said_[1].opened[at]) ++at;
  for (Said& said : said_) said.node = said.opened[at];
  node_ = nodes[at];
  if (node_.size() > 1) return next(round_);
  const auto leaf = static_cast<std::uint32_t>(node_.begin);
  if (round_ == DisputeRound::kRows) {
    for (std::size_t i = 0; i < kDisputeSides; ++i) rows_[i] = said_[i].node;
    end_ = case_.disputed().first_position + leaf + 1;
    return next(DisputeRound::kTrace);
  }
  if (round_ == DisputeRound::kPositions) return enter_position();
  slot_ = leaf;
  chunk_ = 0;
  next(DisputeRound::kChunks);
}

void DisputeGame::enter_position() {
  position_ = static_cast<std::uint32_t>(node_.begin);
  node_ = {0, case_.said.shape.slots(position_)};
  next(DisputeRound::kSlots);
}

void DisputeGame::find_element() {
  const TraceShape& shape = case_.said.shape;
  const TraceOp op = shape.at(position_, slot_).op;
  const auto differs = std::ranges::mismatch(said_[0].chunk, said_[1].chunk).in1;
  const std::size_t byte =
      chunk_ * shape.chunk_bytes(op) + static_cast<std::size_t>(differs - said_[0].chunk.begin());
  element_ = static_cast<std::uint32_t>(byte / shape.element_bytes(op));
  next(DisputeRound::kWeights);
}

void DisputeGame::finish() {
  DisputeFound found;
  found.position = position_;
  found.slot = slot_;
  found.what = case_.said.shape.at(position_, slot_);
  found.element = element_;
  found.chunk = chunk_;
  for (std::size_t i = 0; i < kDisputeSides; ++i) {
    found.chunks[i] = said_[i].chunk;
    found.weights[i] = said_[i].weights;
  }
  outcome_ = DisputeOutcome{};
  outcome_->found = std::move(found);
  round_ = DisputeRound::kOver;
}

Status DisputeGame::check_agreed(const Agreed& value) const {
  const TraceShape& shape = case_.said.shape;
  REQUIRE(value.position < position_ || (value.position == position_ && value.slot < slot_),
          "an input is not before the value that it is an input of");
  REQUIRE(value.slot < shape.slots(value.position), "an input is in no slot of its position");
  const TraceOp op = shape.at(value.position, value.slot).op;
  REQUIRE(value.value.size() == shape.value_bytes(op),
          "an input has not the size of " + std::string(trace_op_name(op)));
  const Hash256 leaf =
      trace_leaf(case_.said.salt, value.position, value.slot, trace_chunks(shape, op, value.value));
  const auto within = check_inclusion(leaf, value.slot, shape.slots(value.position),
                                      value.slot_path, value.position_root);
  REQUIRE(within.ok(), "an input is not what they agree on: " + within.error().message);
  // What is left of the first difference is the same in both traces.
  Status under = ok_status();
  for (const Said& said : said_) {
    under = check_inclusion(position_leaf(value.position_root), value.position, end_,
                            value.position_path, said.trace);
    if (under.ok()) return under;
  }
  return Error::invalid("an input's position is in neither trace: " + under.error().message);
}

}  // namespace hearth::ledger
