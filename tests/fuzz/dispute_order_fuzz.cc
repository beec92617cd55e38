// Any bytes as a coordinator's orders to a side of a dispute (node/proof/dispute_party.h), and the
// right ones with any byte changed. Whatever it is ordered, it answers for its own trace alone:
// what it signs is what the game asks for, once a round.
//
// A step is one byte, what happens, and what that takes:
//   0 an order: two bytes of length, then a message
//   1 the right next order with a byte changed: where (two bytes), by which bits (0: by none)
//   2 the run is over   3 the same with another token   4 it leaves
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/check.h"
#include "node/proof/dispute_party.h"
#include "proto/fixed_field.h"
#include "tests/unit/node/proof/disputed.h"

namespace {

using namespace hearth;
using control::v1::DisputeMoved;
using control::v1::DisputeOrder;

constexpr std::uint64_t kEntry = 17;  // of disputed.h

// The worker's side of a dispute, whose auditor is played here.
struct Played {
  node::Disputed of{node::disputed_model("llama"), {0, 1}};
  std::unique_ptr<node::Tracer> liar = of.liar(lie);
  std::string said;
  ledger::CheckedCase checked;

  static void lie(std::uint32_t position, const ledger::TraceSlot& slot, Bytes& value) {
    if (position == 5 && slot.op == ledger::TraceOp::kGate) value[2] ^= std::byte{0xFF};
  }
  Played() {
    ledger::DisputeFile file;
    file.said = of.case_of(*liar, *of.honest);
    said = to_field(ledger::write_dispute(file).value());
    checked = ledger::check_case(file.said).value();
  }
};

class Play {
 public:
  Play(Played& with, ByteSpan input) : with_(with), reader_(input) {}

  void run() {
    while (!reader_.failed() && reader_.remaining() > 0) step();
  }

 private:
  std::string bytes(std::size_t count) {
    return to_field(reader_.take(std::min(count, reader_.remaining())));
  }
  // As a coordinator goes on that plays the auditor itself.
  DisputeOrder next() {
    DisputeOrder order;
    order.set_entry(kEntry);
    if (!begun_) {
      order.mutable_begin()->set_said(with_.said);
      order.mutable_begin()->set_run(std::string(16, 'r'));
    } else if (game_ && game_->outcome()) {
      *order.mutable_show()->mutable_other() = other_;
    } else {
      order.mutable_play()->set_round(game_ ? game_->number() : 0);
      if (game_ && game_->number() > 0) *order.mutable_play()->mutable_other() = other_;
    }
    return order;
  }
  void obey(const DisputeOrder& order) {
    if (order.has_begin()) {
      game_.reset();
      begun_ = party_.begin(order).ok();
      return;
    }
    const auto answer = party_.move(order);
    if (!answer || !answer->has_moved() || !game_) return;
    const DisputeMoved& moved = answer->moved();
    INVARIANT(moved.payload().size() <= ledger::kSentMoveBytes, "a move fits a message");
    if (game_->outcome() || moved.round() != game_->number()) return;
    ledger::DisputeMove move;
    const ByteSpan payload = as_bytes(moved.payload());
    move.payload.assign(payload.begin(), payload.end());
    INVARIANT(read_field(moved.signature(), move.signature), "a move is signed");
    node::DisputePlayer auditor(*with_.of.honest, ledger::DisputeSide::kAuditor, with_.of.auditor);
    auto own = auditor.move(*game_);
    INVARIANT(own.ok(), "the auditor can move");
    other_.set_round(game_->number());
    other_.set_payload(to_field(own->payload));
    other_.set_signature(to_field(own->signature));
    INVARIANT(game_->take(move, 0).ok(), "what it signs is a move of this round");
    INVARIANT(!game_->outcome(), "it never contradicts itself");
    INVARIANT(game_->take(*own, 0).ok(), "the auditor's move is one");
  }
  void trace(bool other) {
    node::TraceInput input = with_.of.input;
    if (other) input.tokens[3] += 1;
    const Status traced = party_.trace(std::move(input), {});
    INVARIANT(!traced.ok() || (begun_ && !other), "only what was signed is traced");
    if (traced.ok()) game_.emplace(with_.checked);
  }
  void step() {
    switch (reader_.read<std::uint8_t>()) {
      case 0: {
        DisputeOrder order;
        if (order.ParseFromString(bytes(reader_.read<std::uint16_t>()))) obey(order);
        return;
      }
      case 1: {
        std::string text = next().SerializeAsString();
        const std::size_t at = reader_.read<std::uint16_t>();
        char& byte = text[at % text.size()];
        byte = static_cast<char>(byte ^ reader_.read<std::uint8_t>());
        DisputeOrder order;
        if (order.ParseFromString(text)) obey(order);
        return;
      }
      case 2: return trace(false);
      case 3: return trace(true);
      case 4:
        party_.leave();
        begun_ = false;
        return game_.reset();
      default: return;
    }
  }

  Played& with_;
  ByteReader reader_;
  node::DisputeParty party_{with_.of.worker, with_.of.cluster.public_key(),
                            [this](LayerRange) { return Result(with_.of.file); },
                            [](node::Tracer::Parts parts) -> std::unique_ptr<node::Tracer> {
                              return std::make_unique<node::FaultyTracer>(std::move(parts),
                                                                          Played::lie);
                            }};
  bool begun_ = false;
  std::optional<ledger::DisputeGame> game_;  // as a coordinator has it
  DisputeMoved other_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Played with;
  constexpr std::size_t kLongest = 512;  // each move traces a position
  Play(with, ByteSpan(reinterpret_cast<const std::byte*>(data), std::min(size, kLongest))).run();
  return 0;
}
