// The file of a dispute: everything that a third party needs to play the game again and to compute
// its end. Layout: PROTOCOL.md, "Disputes". It discloses what is in it: the salt of the request, by
// which guesses of its tokens can be tested; activations of one position, from which much of a
// prompt can be recovered; and the tokens, only where the owner of the request let them in.
// Any bytes may be parsed; pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "ledger/dispute_game.h"

namespace hearth::ledger {

// A value before the one in dispute, which both agree on (DisputeGame::check_agreed).
struct DisputeInput {
  std::uint32_t position = 0;
  std::uint32_t slot = 0;
  Bytes value;
  Hash256 position_root;
  std::vector<Hash256> slot_path;
  std::vector<Hash256> position_path;
};

// A tensor of the model, or one row of it, as its file has it.
struct DisputeWeights {
  static constexpr std::uint32_t kWhole = 0xFFFFFFFF;
  std::string tensor;
  std::uint32_t row = kWhole;
  std::uint32_t cols = 0;
  std::uint32_t type = 0;  // GGUF's number
  Bytes bytes;
};
// What a side signs of the weights that it computed a value with; zeros where there are none.
Hash256 weights_digest(const std::vector<DisputeWeights>& weights);

// What the found value is computed from.
struct DisputeEvidence {
  std::vector<DisputeInput> inputs;
  std::vector<DisputeWeights> weights;
  Bytes rows;        // kAttention: keys and values of the head at its visible positions;
                     // kEnter behind another stage: the row that came in
  Hash256 chain;     // kAttention: the chain's hash before the first of them
  Hash256 incoming;  // kIncoming: the row's hash, and its path in the receipt's root in
  std::vector<Hash256> incoming_path;
};

// The request's tokens, from its first position on, and its sampling (proto/step.h, encode).
struct DisputeTokens {
  std::vector<std::uint32_t> tokens;
  Bytes sampling;
};

struct DisputeFile {
  DisputeCase said;
  // What the receipts' program is made of (program_id): the model, by its manifest's id or else by
  // its header's fingerprint, and the name of the build.
  Hash256 model;
  std::string build;
  std::vector<DisputeMove> moves;  // in the order in which they were taken
  std::optional<DisputeEvidence> evidence;
  std::optional<DisputeTokens> tokens;
};

inline constexpr std::size_t kDisputeFileBytes = 64 * 1'024 * 1'024;
inline constexpr std::size_t kDisputeReceipts = 256;
inline constexpr std::size_t kDisputeInputs = 8;
inline constexpr std::size_t kDisputeWeights = 4;
// Of a game over the control session, where a worker's messages are small: a move, a part of a file
// with evidence, and all of that file.
inline constexpr std::size_t kSentMoveBytes = 48 * 1'024;
inline constexpr std::size_t kSentPartBytes = 24 * 1'024;
inline constexpr std::size_t kSentEvidenceBytes = 4 * 1'024 * 1'024;

// kInvalidInput when a part is larger than the file may have it.
Result<Bytes> write_dispute(const DisputeFile& file);
// What is accepted has one encoding. Signatures are checked by check_case() and DisputeGame.
Result<DisputeFile> parse_dispute(ByteSpan bytes);

// Lines of a verdict's evidence: the BLAKE2b of a dispute's file in hex, and that it shows who was
// wrong only to whoever has the model's file besides.
inline constexpr std::string_view kEvidenceDispute = "dispute ";
inline constexpr std::string_view kEvidenceNeedsModel = "dispute-needs-model 1";

// The game of a file, to its end or as far as its moves go. kInvalidInput: the file is doctored.
Result<DisputeGame> replay(const DisputeFile& file);

}  // namespace hearth::ledger
