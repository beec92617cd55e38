// Receipt: one stage's signed statement of what it computed for one request over a window of
// positions. The stored bytes are the signed bytes; a check never re-encodes them.
//
//   offset  size  field, little-endian
//        0     4  magic "HRC1"
//        4     8  epoch of the pipeline
//       12    16  request
//       28    32  program: manifest, build and canonical version (program_id)
//       60     2  first layer        62   2  last layer + 1
//       64     2  stage, from 0      66   2  stages of the pipeline
//       68     4  window, from 0     72   4  first position     76   4  positions
//       80     4  of these, prompt positions; the others were generated
//       84    32  commitment to the window's tokens and how they are sampled
//      116    32  root of the activations that came in; stage 0: the commitment again
//      148    32  root of the activations that went out; the last stage: the commitment again
//      180    32  BLAKE2b of this worker's previous receipt; zeros in its first
//      212     8  begun, milliseconds since 1970
//      220     4  duration in milliseconds
//      224    32  the worker's key
//      256    64  the sender's signature of the incoming edge (sign_edge)
//      320    64  the receiver's signature of the outgoing edge
//      384    64  the worker's signature of all bytes before
//
// The receipts of four stages for a window have 1,792 bytes. Commitments and roots are keyed with a
// secret salt of the request. Its stages and auditors know the salt; the log does not, because an
// unsalted hash would let readers guess a short prompt. The parsers take untrusted bytes. Pure
// functions, any thread.
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

// The common beginning of the ids of all choices of one answer: the unix seconds of the request, by
// which a log finds them, and ten bytes of its own. Two bytes follow in a RequestId: how often the
// choice was begun anew, and its number.
using AnswerName = std::array<std::byte, 14>;
AnswerName answer_name(std::int64_t unix_seconds, ByteSpan own);  // own: at least ten bytes
RequestId request_of(const AnswerName& answer, std::uint16_t choice);
std::int64_t asked_at(const AnswerName& answer);

// The place of a receipt: one slot has one receipt. Two signed receipts of one slot that differ
// prove equivocation.
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

// Encodes and signs a receipt for a cluster; it is invalid in any other cluster. `key` is the
// worker's and replaces receipt.worker. kInvalidInput when parse_receipt() would refuse the result.
Result<Bytes> sign_receipt(Receipt receipt, const PublicKey& cluster, const SecretKey& key);
// Checks the format and the worker's signature. Edges need the neighbours' keys: check_edge().
Result<Receipt> parse_receipt(ByteSpan bytes, const PublicKey& cluster);

// The same for bytes whose signature was checked before: checks the format only.
Result<Receipt> reread_receipt(ByteSpan bytes);

// Fields of a receipt's bytes without any check, for searching a log.
RequestId request_in(ByteSpan receipt);
Slot slot_in(ByteSpan receipt);
Hash256 worker_in(ByteSpan receipt);  // the bytes of its key

// The salt of the stages of one choice, derived from the answer's, which its client has.
Hash256 choice_salt(const Hash256& answer_salt, const RequestId& request);

Hash256 program_id(const Hash256& manifest, std::string_view build,
                   std::uint32_t canonical_version);

// The salted commitment to the tokens of a window and to what decides the next token: sampling
// parameters and seed, encoded by the caller.
Hash256 commit_tokens(const Hash256& salt, std::uint32_t first_position,
                      std::span<const std::uint32_t> tokens, ByteSpan sampling);

// The Merkle root (merkle.h) of the rows at a layer boundary. Each leaf is a row's hash, keyed with
// the salt and bound to its position.
Hash256 boundary_leaf(const Hash256& salt, std::uint32_t position, const Hash256& row);
Hash256 boundary_root(const Hash256& salt, std::uint32_t first_position,
                      std::span<const Hash256> rows);

// The activations between stage `below`-1 and stage `below` in a window. 0: from the coordinator to
// the first stage; the number of stages: from the last stage to the coordinator. Both ends sign the
// same bytes, so each can prove what the other stated.
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

// One row below an edge's root, shown with every claim of that root: roots stand in the public log,
// rows do not. The edge decides which row, so a row shown for another edge is useless.
struct ShownRow {
  Hash256 row;
  std::vector<Hash256> path;  // from the leaf to the root
};
ShownRow show_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                  std::span<const Hash256> rows);  // at least one row
// kInvalidInput when the row is not below the root of a boundary with `rows` rows.
Status check_row(const Edge& edge, const Hash256& salt, std::uint32_t first_position,
                 std::uint32_t rows, const ShownRow& shown);

// Checks that receipts of neighbouring stages agree on what passed between them. kInvalidInput
// names the edge, so a wrong root is located without computing anything.
Status check_neighbours(const Receipt& upper, const Receipt& lower, const PublicKey& cluster);

// Checks that `later` can follow `earlier` in one stage of one request: only the last window may be
// partly filled, and no prompt position follows a generated one.
Status check_windows(const Receipt& earlier, const Receipt& later);

// Whether one worker states two different results for one slot. Signing the same result again, at
// another place of its chain or with other times or edges, is not equivocation.
bool is_equivocation(const Receipt& one, const Receipt& other);

}  // namespace hearth::ledger
