// The game of a dispute: two that sign different roots for one window open the traces of what they
// computed until they stand at the first value in which they differ, whose inputs both agree on.
// Normative text: PROTOCOL.md, "Disputes".
//
// In every round each side makes one signed move; nobody is asked for the right value, and neither
// move depends on the other's. A move that contradicts what its side has signed loses at once, a
// missing one after its deadline and one retry. Nothing here computes a model: what the value is
// that they differ in, the arithmetic of the found operation tells (node/proof/trace_check.h). A
// pure state machine, time is a parameter; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/receipt.h"
#include "ledger/seal.h"
#include "ledger/trace.h"

namespace hearth::ledger {

enum class DisputeSide : std::uint8_t { kWorker = 0, kAuditor = 1 };
inline constexpr std::size_t kDisputeSides = 2;
std::string_view side_name(DisputeSide side);  // "worker", "auditor"

// What the two do not agree on, as the log has it, and what is needed to read their moves.
struct DisputeCase {
  PublicKey cluster;
  std::vector<Bytes> receipts;  // of the worker's windows from 0 to the disputed one
  SealEntry seal;
  Hash256 opened_root;
  Hash256 opened_salt;
  Hash256 salt;  // of the request: who has it can test guesses of its tokens
  TraceShape shape;
};

// The same, checked: every signature, and that there is a dispute.
struct CheckedCase {
  DisputeCase said;
  std::vector<Receipt> receipts;
  Hash256 id;  // of the dispute
  const Receipt& disputed() const { return receipts.back(); }
  PublicKey key(DisputeSide side) const;
};
Result<CheckedCase> check_case(DisputeCase said);

enum class DisputeRound : std::uint8_t {
  kRows,       // opens the tree of what went out; not of a last stage, which has none
  kTrace,      // the root of a trace that ends in the row found
  kPositions,  // opens the trace
  kSlots,      // opens a position
  kChunks,     // the chunks of one value
  kElement,    // one chunk
  kWeights,    // digest of the weights that its first differing element was computed with
  kOver,
};

struct DisputeMove {
  DisputeSide side = DisputeSide::kWorker;
  Bytes payload;
  Signature signature{};
};
inline constexpr std::size_t kMoveBytes = 256 * 1'024;  // of a payload
inline constexpr std::size_t kDisputeMoves = 24;        // of a game, both sides' together
inline constexpr std::uint64_t kMoveMs = 30'000;        // for a move, and once more

// `round`: counts from 0. kInvalidInput when the payload is too long.
Result<DisputeMove> sign_move(const Hash256& id, std::uint32_t round, DisputeSide side,
                              Bytes payload, const SecretKey& key);

// Where a game ended, and what each said there.
struct DisputeFound {
  std::uint32_t position = 0;
  std::uint32_t slot = 0;
  TraceSlot what;
  std::uint32_t element = 0;  // the first that differs, of the value
  std::uint32_t chunk = 0;
  std::array<Bytes, kDisputeSides> chunks;
  std::array<Hash256, kDisputeSides> weights;  // digests (dispute.h, weights_digest)
};

struct DisputeOutcome {
  std::array<bool, kDisputeSides> lost{};  // both when neither moved
  std::string why;                         // where one is lost
  // They do not agree on the shape of the model: digests, of which the model's own is right.
  bool shapes_differ = false;
  std::array<Hash256, kDisputeSides> shapes;
  std::optional<DisputeFound> found;
};

class DisputeGame {
 public:
  explicit DisputeGame(CheckedCase of);

  void begin(std::uint64_t now_ms);
  DisputeRound round() const { return round_; }
  std::uint32_t number() const { return number_; }  // of the round
  bool awaits(DisputeSide side) const;
  std::uint64_t deadline_ms() const { return deadline_ms_; }
  std::size_t moves() const { return moves_; }  // so far
  const CheckedCase& dispute() const { return case_; }

  // What a move is about: of kRows, kPositions and kSlots the node to be opened; `position` and
  // `slot` as far as they are found.
  TreeRange node() const { return node_; }
  std::uint32_t position() const { return position_; }
  std::uint32_t slot() const { return slot_; }
  std::uint32_t chunk() const { return chunk_; }
  std::uint32_t element() const { return element_; }
  std::uint32_t end() const { return end_; }  // positions of the traces

  // kInvalidInput: not that side's move, or not its signature; nothing has changed. A move that is
  // signed and wrong ends the game.
  Status take(const DisputeMove& move, std::uint64_t now_ms);
  // After the deadline: who has not moved gets as long again, once a round, and then loses.
  void expire(std::uint64_t now_ms);

  const std::optional<DisputeOutcome>& outcome() const { return outcome_; }

  // That both agree on a value before the one found: it is under a root that either side's moves
  // have, left of the first difference. kInvalidInput says what does not fit.
  struct Agreed {
    std::uint32_t position = 0;
    std::uint32_t slot = 0;
    ByteSpan value;
    Hash256 position_root;
    const std::vector<Hash256>& slot_path;
    const std::vector<Hash256>& position_path;
  };
  Status check_agreed(const Agreed& value) const;

 private:
  struct Said {  // of one side
    Hash256 node;
    Hash256 trace;
    std::vector<Hash256> opened;  // this round's hashes
    Bytes chunk;
    Hash256 weights;
    Hash256 shape;
  };
  Status read(const DisputeMove& move, Said& said) const;
  Status read_trace(ByteReader& reader, Said& said) const;
  Status check_outgoing(ByteReader& reader, const Said& said) const;
  void advance();
  void descend();
  void enter_position();
  void find_element();
  void finish();
  void next(DisputeRound round);
  void lose(std::array<bool, kDisputeSides> who, std::string why);

  CheckedCase case_;
  DisputeRound round_ = DisputeRound::kRows;
  std::uint32_t number_ = 0;
  std::size_t moves_ = 0;
  std::uint64_t deadline_ms_ = 0;
  bool retried_ = false;
  std::array<bool, kDisputeSides> moved_{};
  std::array<Said, kDisputeSides> said_;
  std::array<Hash256, kDisputeSides> rows_;  // leaves of the row in which the roots differ first
  TreeRange node_;
  std::uint32_t end_ = 0;  // positions of the trace
  std::uint32_t position_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t chunk_ = 0;
  std::uint32_t element_ = 0;
  std::optional<DisputeOutcome> outcome_;
};

}  // namespace hearth::ledger
