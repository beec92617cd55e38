#include "ledger/note.h"

#include <algorithm>

#include "base/hex.h"
#include "base/limits.h"
#include "base/number.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kDash = "\xE2\x80\x94 ";  // U+2014 and a space
constexpr std::string_view kLogPrefix = "hearth-log/";
constexpr std::string_view kWitnessPrefix = "hearth-node/";
constexpr std::size_t kKeyIdBytes = 4;
constexpr std::size_t kTimeBytes = 8;

void write_big_endian(Bytes& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t read_big_endian(ByteSpan bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint64_t>(byte);
  return value;
}

// A name: printable ASCII without space and plus. C2SP allows more characters; none of the names
// here uses them.
bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return c > ' ' && c < 0x7F && c != '+'; });
}

Result<NoteSignature> parse_line(std::string_view line) {
  REQUIRE(line.starts_with(kDash), "a signature line does not begin with a dash and a space");
  line.remove_prefix(kDash.size());
  const std::size_t space = line.find(' ');
  REQUIRE(space != std::string_view::npos && is_name(line.substr(0, space)),
          "a signature line has no name");
  const auto bytes = from_base64(line.substr(space + 1));
  REQUIRE(bytes && bytes->size() > kKeyIdBytes, "a signature line holds no signature in base64");
  NoteSignature signature;
  signature.name = line.substr(0, space);
  signature.key_id = static_cast<std::uint32_t>(read_big_endian(ByteSpan(*bytes).first(4)));
  signature.signature.assign(bytes->begin() + kKeyIdBytes, bytes->end());
  return signature;
}

// Removes and returns the line up to the next newline, which is dropped.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string cosigned_text(std::uint64_t time, std::string_view text) {
  return "cosignature/v1\ntime " + std::to_string(time) + "\n" + std::string(text);
}

Result<PublicKey> key_of_name(std::string_view name, std::string_view prefix) {
  const auto bytes = from_hex(name.substr(prefix.size()));
  REQUIRE(bytes, "the name ", name, " holds no key");
  return PublicKey::parse(*bytes);
}

Result<Cosignature> check_cosignature(const Note& note, const NoteSignature& line) {
  Cosignature cosignature;
  TRY(cosignature.witness, key_of_name(line.name, kWitnessPrefix));
  REQUIRE(line.key_id == note_key_id(line.name, NoteKey::kCosignature, cosignature.witness),
          "the key id in the line of ", line.name, " is not its key's");
  REQUIRE(line.signature.size() == kTimeBytes + kSignatureBytes, "the line of ", line.name,
          " does not have the length of a cosignature");
  const ByteSpan bytes(line.signature);
  cosignature.time = read_big_endian(bytes.first(kTimeBytes));
  REQUIRE(cosignature.time >> 63 == 0, "the time of ", line.name, " is out of range");
  REQUIRE(verify_plain(cosignature.witness, as_bytes(cosigned_text(cosignature.time, note.text)),
                       bytes.subspan(kTimeBytes)),
          "the cosignature of ", line.name, " does not verify");
  return cosignature;
}

Status read_text(std::string_view text, Checkpoint& checkpoint) {
  const std::string_view origin = take_line(text);
  REQUIRE(origin.starts_with(kLogPrefix),
          "a checkpoint's first line is not a log's name (hearth-log/KEY)");
  TRY(checkpoint.log, key_of_name(origin, kLogPrefix));
  const std::string_view size = take_line(text);
  checkpoint.size = parse_number<std::uint64_t>(size).value_or(0);
  REQUIRE(std::to_string(checkpoint.size) == size && checkpoint.size <= limits::kLogEntries,
          "a checkpoint's second line is not a number of entries (at most ", limits::kLogEntries,
          ")");
  const auto root = from_base64(take_line(text));
  REQUIRE(root && root->size() == checkpoint.root.bytes.size(),
          "a checkpoint's third line is not a hash in base64");
  std::copy(root->begin(), root->end(), checkpoint.root.bytes.begin());
  REQUIRE(text.empty(), "a checkpoint has more than three lines");
  return ok_status();
}

}  // namespace

std::string log_name(const PublicKey& key) { return std::string(kLogPrefix) + key.hex(); }
std::string witness_name(const PublicKey& key) { return std::string(kWitnessPrefix) + key.hex(); }

std::uint32_t note_key_id(std::string_view name, NoteKey kind, const PublicKey& key) {
  const std::array<std::byte, 2> middle{std::byte{'\n'}, static_cast<std::byte>(kind)};
  Sha256 hash;
  hash.update(as_bytes(name));
  hash.update(middle);
  hash.update(key.bytes());
  return static_cast<std::uint32_t>(
      read_big_endian(ByteSpan(hash.finish().bytes).first(kKeyIdBytes)));
}

Result<Note> parse_note(ByteSpan bytes) {
  REQUIRE(bytes.size() <= limits::kNoteBytes, "a note of ", bytes.size(), " bytes; the limit is ",
          limits::kNoteBytes);
  const std::string_view all = as_text(bytes);
  const bool control =
      std::any_of(all.begin(), all.end(), [](char c) { return c >= 0 && c < ' ' && c != '\n'; });
  REQUIRE(!control, "a note holds a control character");
  const std::size_t blank = all.rfind("\n\n");
  REQUIRE(blank != std::string_view::npos && all.back() == '\n' && blank + 2 < all.size(),
          "a note has no empty line before its signatures, or none behind it");
  Note note;
  note.text = all.substr(0, blank + 1);
  std::string_view lines = all.substr(blank + 2);
  while (!lines.empty()) {
    REQUIRE(note.signatures.size() < limits::kNoteSignatures, "a note has more than ",
            limits::kNoteSignatures, " signatures");
    TRY(NoteSignature signature, parse_line(take_line(lines)));
    note.signatures.push_back(std::move(signature));
  }
  return note;
}

std::string format_note(const Note& note) {
  std::string all = note.text + "\n";
  for (const NoteSignature& line : note.signatures) {
    Bytes bytes;
    write_big_endian(bytes, line.key_id, kKeyIdBytes);
    bytes.insert(bytes.end(), line.signature.begin(), line.signature.end());
    all += std::string(kDash) + line.name + " " + base64(bytes) + "\n";
  }
  return all;
}

NoteSignature sign_note(std::string_view text, std::string_view name, const SecretKey& key) {
  const Signature signature = key.sign_plain(as_bytes(text));
  return {std::string(name), note_key_id(name, NoteKey::kEd25519, key.public_key()),
          Bytes(signature.begin(), signature.end())};
}

NoteCheck check_note(const Note& note, const NoteSignature& line, std::string_view name,
                     const PublicKey& key) {
  if (line.name != name || line.key_id != note_key_id(name, NoteKey::kEd25519, key)) {
    return NoteCheck::kForeign;
  }
  const bool right = verify_plain(key, as_bytes(note.text), line.signature);
  return right ? NoteCheck::kRight : NoteCheck::kWrong;
}

std::string checkpoint_text(std::uint64_t size, const Hash256& root, const PublicKey& log) {
  return log_name(log) + "\n" + std::to_string(size) + "\n" + base64(root.bytes) + "\n";
}

Checkpoint sign_checkpoint(std::uint64_t size, const Hash256& root, const SecretKey& log) {
  Checkpoint checkpoint;
  checkpoint.size = size;
  checkpoint.root = root;
  checkpoint.log = log.public_key();
  checkpoint.note.text = checkpoint_text(size, root, checkpoint.log);
  checkpoint.note.signatures.push_back(
      sign_note(checkpoint.note.text, log_name(checkpoint.log), log));
  return checkpoint;
}

Result<Checkpoint> parse_checkpoint(ByteSpan bytes, ForeignLines foreign) {
  Checkpoint checkpoint;
  TRY(checkpoint.note, parse_note(bytes));
  TRY_VOID(read_text(checkpoint.note.text, checkpoint));
  const std::string name = log_name(checkpoint.log);
  bool by_log = false;
  const std::vector<NoteSignature> lines = std::move(checkpoint.note.signatures);
  checkpoint.note.signatures.clear();
  for (const NoteSignature& line : lines) {
    if (line.name.starts_with(kWitnessPrefix)) {
      TRY_VOID(add_cosignature(checkpoint, line));
      continue;
    }
    const NoteCheck check = check_note(checkpoint.note, line, name, checkpoint.log);
    REQUIRE(check != NoteCheck::kWrong,
            "the log's own signature of its checkpoint does not verify");
    REQUIRE(check == NoteCheck::kRight || foreign == ForeignLines::kPassOver,
            "a checkpoint has a signature line of neither its log nor a node: ", line.name);
    REQUIRE(check != NoteCheck::kRight || !by_log, "a checkpoint has two signatures of its log");
    by_log = by_log || check == NoteCheck::kRight;
    checkpoint.note.signatures.push_back(line);
  }
  REQUIRE(by_log, "a checkpoint has no signature of its log");
  return checkpoint;
}

NoteSignature cosign(const Checkpoint& checkpoint, std::uint64_t time, const SecretKey& witness) {
  const std::string name = witness_name(witness.public_key());
  const Signature signature =
      witness.sign_plain(as_bytes(cosigned_text(time, checkpoint.note.text)));
  NoteSignature line{name, note_key_id(name, NoteKey::kCosignature, witness.public_key()), {}};
  write_big_endian(line.signature, time, kTimeBytes);
  line.signature.insert(line.signature.end(), signature.begin(), signature.end());
  return line;
}

Status add_cosignature(Checkpoint& checkpoint, const NoteSignature& line) {
  REQUIRE(line.name.starts_with(kWitnessPrefix), "a cosignature is not of a node: ", line.name);
  REQUIRE(checkpoint.note.signatures.size() < limits::kNoteSignatures, "a checkpoint has ",
          limits::kNoteSignatures, " signatures already");
  TRY(const Cosignature cosignature, check_cosignature(checkpoint.note, line));
  for (const Cosignature& other : checkpoint.cosignatures) {
    REQUIRE(other.witness != cosignature.witness, "two cosignatures of ", line.name);
  }
  checkpoint.cosignatures.push_back(cosignature);
  checkpoint.note.signatures.push_back(line);
  return ok_status();
}

}  // namespace hearth::ledger
