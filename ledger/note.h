// Checkpoints of a log: C2SP signed notes (signed-note, tlog-checkpoint) with Ed25519 signatures,
// and the cosignatures of witnesses (tlog-cosignature, cosignature/v1).
//
//   hearth-log/<64 hex digits>            origin: the log's public key
//   1234                                  entries
//   CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2...   root
//                                         (empty)
//   — hearth-log/<64 hex digits> ...      the log's signature
//   — hearth-node/<64 hex digits> ...     a witness's, with its time
//
// Names carry the whole key, so a checkpoint's lines can be checked without other data. Which keys
// to trust is the reader's decision. The parsers take untrusted bytes. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::ledger {

std::string log_name(const PublicKey& key);      // hearth-log/...
std::string witness_name(const PublicKey& key);  // hearth-node/...

enum class NoteKey : std::uint8_t { kEd25519 = 1, kCosignature = 4 };  // C2SP's identifiers
// SHA-256(name, newline, kind, key), its first four bytes.
std::uint32_t note_key_id(std::string_view name, NoteKey kind, const PublicKey& key);

struct NoteSignature {
  std::string name;
  std::uint32_t key_id = 0;
  Bytes signature;  // format by the key's kind
};

struct Note {
  std::string text;  // ends with a newline
  std::vector<NoteSignature> signatures;
};

// kInvalidInput unless format_note() of the result gives the same bytes.
Result<Note> parse_note(ByteSpan bytes);
std::string format_note(const Note& note);

NoteSignature sign_note(std::string_view text, std::string_view name, const SecretKey& key);
// kForeign: the line has another name or key id. kWrong: the signature is wrong.
enum class NoteCheck { kForeign, kWrong, kRight };
NoteCheck check_note(const Note& note, const NoteSignature& line, std::string_view name,
                     const PublicKey& key);

struct Cosignature {
  PublicKey witness;
  std::uint64_t time = 0;  // unix seconds, by the witness's clock
};

struct Checkpoint {
  std::uint64_t size = 0;
  Hash256 root;
  PublicKey log;
  std::vector<Cosignature> cosignatures;  // each verified, in the order of the lines
  Note note;

  std::string text() const { return format_note(note); }
};

// The three lines that a checkpoint signs.
std::string checkpoint_text(std::uint64_t size, const Hash256& root, const PublicKey& log);
Checkpoint sign_checkpoint(std::uint64_t size, const Hash256& root, const SecretKey& log);

// Parses a checkpoint and verifies the log's signature and all cosignatures. A second line of one
// key is refused. A line of another kind is refused, or skipped as C2SP asks of a client.
enum class ForeignLines { kRefuse, kPassOver };
Result<Checkpoint> parse_checkpoint(ByteSpan bytes, ForeignLines foreign = ForeignLines::kPassOver);

// The line that a witness adds. The caller checks that `checkpoint` extends its last one.
NoteSignature cosign(const Checkpoint& checkpoint, std::uint64_t time, const SecretKey& witness);
// kInvalidInput when the line is not a valid cosignature of this checkpoint, or when its witness
// has cosigned it already.
Status add_cosignature(Checkpoint& checkpoint, const NoteSignature& line);

}  // namespace hearth::ledger
