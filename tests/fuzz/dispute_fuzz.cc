// Any bytes as a dispute's file: what is accepted has one encoding, and its game is played as far
// as it is signed. Then the bytes as the moves of a game whose signatures are right, so that what
// lies behind them is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ledger/dispute.h"
#include "tests/unit/ledger/small_shape.h"

namespace {

using namespace hearth;
using namespace hearth::ledger;

const SecretKey& key_of(DisputeSide side) {
  static const SecretKey worker =
      SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{2})).value();
  static const SecretKey auditor =
      SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{3})).value();
  return side == DisputeSide::kWorker ? worker : auditor;
}

CheckedCase make_case(std::uint32_t positions) {
  DisputeCase said;
  said.cluster = key_of(DisputeSide::kAuditor).public_key();
  Receipt receipt;
  receipt.stages = 2;
  receipt.layer_end = 2;
  receipt.positions = positions;
  receipt.prompt_positions = positions;
  receipt.out_root = blake2b(as_bytes("root"));
  said.receipts.push_back(
      sign_receipt(receipt, said.cluster, key_of(DisputeSide::kWorker)).value());
  said.seal =
      sign_seal(0, seal_of(0, said.cluster, {}, {}), said.cluster, key_of(DisputeSide::kAuditor));
  said.shape = testing::small_shape({0, 2}, positions);
  return check_case(std::move(said)).value();
}

void play(ByteSpan bytes) {
  // A window of one position begins with the root of the trace.
  static const CheckedCase cases[] = {make_case(1), make_case(3)};
  ByteReader reader(bytes);
  const CheckedCase& of = cases[reader.read<std::uint8_t>() % 2];
  DisputeGame game(of);
  while (!game.outcome() && !reader.failed() && reader.remaining() > 0) {
    const auto side = static_cast<DisputeSide>(reader.read<std::uint8_t>() % kDisputeSides);
    const auto wanted = std::min<std::size_t>(reader.read<std::uint16_t>(), reader.remaining());
    const ByteSpan taken = reader.take(wanted);
    const auto move =
        sign_move(of.id, game.number(), side, {taken.begin(), taken.end()}, key_of(side));
    const bool awaited = game.awaits(side);
    const Status done = game.take(*move, 0);
    INVARIANT(done.ok() == awaited, "a signed move that is awaited is taken");
  }
  if (game.outcome()) {
    const DisputeOutcome& outcome = *game.outcome();
    INVARIANT(outcome.shapes_differ != (outcome.lost[0] != outcome.lost[1]),
              "who contradicts himself loses");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = parse_dispute(bytes);
  if (file) {
    const auto again = write_dispute(*file);
    INVARIANT(again.ok() && std::ranges::equal(*again, bytes), "a file has one encoding");
    const auto game = replay(*file);
    INVARIANT(game.ok() || !game.error().message.empty(), "a refusal says why");
  } else {
    INVARIANT(!file.error().message.empty(), "a refusal says why");
  }
  play(bytes);
  return 0;
}
