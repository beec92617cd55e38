// The receipt of one window: what one stage says that it computed for one request over a range of
// positions. The bytes that were signed are the bytes that are stored; nothing is ever written out
// again to be checked.
//
//   offset  size  field, little-endian
//        0     4  magic "HRC1"
//        4     8  epoch of the pipeline
//       12    16  request
//       28    32  program: manifest, build and canonical version (program_id)
//       60     2  first layer        62   2  the layer behind the last
//       64     2  stage, from 0      66   2  stages of the pipeline
//       68     4  window, from 0     72   4  first position     76   4  positions
//       80     4  of them a prompt's; the others were generated
//       84    32  commitment to the window's tokens and how they are sampled
//      116    32  root of the activations that came in; stage 0: the commitment again
//      148    32  root of the activations that went out; the last stage: the commitment again
//      180    32  BLAKE2b of this worker's receipt before this one; zeros in its first
//      212     8  begun, milliseconds since 1970
//      220     4  milliseconds it took
//      224    32  the worker's key
//      256    64  the sender's signature of the edge that came in (sign_edge)
//      320    64  the receiver's signature of the edge that went out
//      384    64  the worker's signature of everything before
//
// Four stages' receipts of a window are 1,792 bytes. Commitments and roots are keyed with a secret
// salt of the request, which its stages and auditors know and the log never sees: from an unsalted
// hash a short prompt could be guessed. Any bytes may be parsed; pure functions, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::ledger {

inline constexpr std::size_t kReceiptBytes = 448;

using RequestId = std::array<std::byte, 16>;

// All requests of one answer (its choices) begin alike: with the seconds since 1970 when it was
// asked for, by which a log finds them, and ten bytes of its own. Behind it stand, a byte each, how
// often the choice was begun anew, and its number.
using AnswerName = std::array<std::byte, 14>;
AnswerName answer_name(std::int64_t unix_seconds, ByteSpan own);  // own: at least ten bytes
RequestId request_of(const AnswerName& answer, std::uint16_t choice);
std::int64_t asked_at(const AnswerName& answer);

// What a request is: one slot has one receipt. Two that differ, both signed, prove equivocation.
struct Slot {
  RequestId request{};
  std::uint64_t epoch = 0;
  std::uint16_t stage = 0;
  std::uint32_t window = 0;
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

struct Receipt {
  Slot slot;
  Hash256 program;
  std::uint16_t layer_begin = 0;
  std::uint16_t layer_end = 0;
  std::uint16_t stages = 1;
  std::uint32_t first_position = 0;
  std::uint32_t positions = 0;
  std::uint32_t prompt_positions = 0;
  Hash256 tokens;
  Hash256 in_root;
  Hash256 out_root;
  Hash256 previous;
  std::uint64_t begun_ms = 0;
  std::uint32_t took_ms = 0;
  PublicKey worker;
  Signature in_edge{};
  Signature out_edge{};

  bool is_first() const { return slot.stage == 0; }
  bool is_last() const { return slot.stage + 1 == stages; }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(layer_end - layer_begin); }
  friend bool operator==(const Receipt&, const Receipt&) = default;
};

// The signed bytes, for a cluster: a receipt of one cluster is worthless in another. `key` is the
// worker's, and replaces what receipt.worker says. kInvalidInput when parse_receipt() would refuse.
Result<Bytes> sign_receipt(Receipt receipt, const PublicKey& cluster, const SecretKey& key);
// Checks form and the worker's signature. The edges need the neighbours' keys: check_edge().
Result<Receipt> parse_receipt(ByteSpan bytes, const PublicKey& cluster);

// The same of bytes whose signature was checked before, of which only the form is checked again.
Result<Receipt> reread_receipt(ByteSpan bytes);

// Of bytes that are a receipt, or of no use: what a log is searched by.
RequestId request_in(ByteSpan receipt);
Slot slot_in(ByteSpan receipt);
Hash256 worker_in(ByteSpan receipt);  // the bytes of its key

Hash256 program_id(const Hash256& manifest, std::string_view build,
                   std::uint32_t canonical_version);

// Of the tokens of a window and of everything that decides the next one (sampling parameters and
// seed, in whatever bytes the caller gives them).
Hash256 commit_tokens(const Hash256& salt, std::uint32_t first_position,
                      std::span<const std::uint32_t> tokens, ByteSpan sampling);

// The Merkle root (merkle.h) of a boundary's rows: each leaf is a row's own hash, keyed with the
// salt and bound to its position.
Hash256 boundary_leaf(const Hash256& salt, std::uint32_t position, const Hash256& row);
Hash256 boundary_root(const Hash256& salt, std::uint32_t first_position,
                      std::span<const Hash256> rows);

// What passed between stage `below`-1 and `below` of a window (0: from the coordinator to the
// first; the number of stages: from the last to the coordinator). Both ends sign the same words, so
// that each can show what the other said.
struct Edge {
  RequestId request{};
  std::uint64_t epoch = 0;
  std::uint16_t below = 0;
  std::uint32_t window = 0;
  Hash256 root;
};
Edge in_edge(const Receipt& receipt);
Edge out_edge(const Receipt& receipt);
Signature sign_edge(const Edge& edge, const PublicKey& cluster, const SecretKey& key);
bool check_edge(const Edge& edge, const PublicKey& cluster, const PublicKey& signer,
                const Signature& signature);

// One row below an edge's root, which who claims that root shows with it: roots stand in logs, rows
// do not. Which one follows from the edge, so that a row that was shown elsewhere is worth nothing.
struct ShownRow {
  Hash256 row;
  std::vector<Hash256> path;  // up to the root
};
ShownRow show_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                  std::span<const Hash256> rows);  // not none
// kInvalidInput when it is not below the root of a boundary with so many rows.
Status check_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                 std::uint32_t rows, const ShownRow& shown);

// Whether two receipts of neighbouring stages say the same of what passed between them.
// kInvalidInput names the edge: a wrong root is located without computing anything.
Status check_neighbours(const Receipt& upper, const Receipt& lower, const PublicKey& cluster);

// Whether two windows of one stage can be of one request, the later one behind the earlier: a
// window that is not full is the last, and nothing of the prompt comes behind what was generated.
Status check_windows(const Receipt& earlier, const Receipt& later);

// Whether one worker says two different things of what one slot computed. To sign the same again in
// another place of its chain, with other times or edges, contradicts nothing.
bool is_equivocation(const Receipt& one, const Receipt& other);

}  // namespace hearth::ledger
