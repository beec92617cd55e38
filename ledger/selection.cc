#include "ledger/selection.h"

#include <algorithm>
#include <cstring>

namespace hearth::ledger {
namespace {

constexpr std::string_view kDrawPurpose = "hearth draw v1";

// n / 2^64 < rate / 10^6, exactly.
bool is_below(std::uint64_t n, std::int64_t rate) {
  if (rate <= 0) return false;
  const auto scaled = static_cast<unsigned __int128>(n) * static_cast<std::uint64_t>(kMillion);
  return scaled < static_cast<unsigned __int128>(rate) << 64;
}

}  // namespace

Bytes draw_message(const Checkpoint& checkpoint) {
  std::vector<const NoteSignature*> lines;
  for (const NoteSignature& line : checkpoint.note.signatures) {
    const bool cosignature =
        std::any_of(checkpoint.cosignatures.begin(), checkpoint.cosignatures.end(),
                    [&](const Cosignature& one) { return line.name == witness_name(one.witness); });
    if (cosignature) lines.push_back(&line);
  }
  std::sort(lines.begin(), lines.end(),
            [](const NoteSignature* a, const NoteSignature* b) { return a->name < b->name; });
  Bytes message;
  ByteWriter writer(message);
  writer.append(as_bytes(kDrawPurpose));
  writer.write(std::uint8_t{0});
  writer.append(as_bytes(checkpoint.note.text));
  for (const NoteSignature* line : lines) {
    writer.append(as_bytes(line->name));
    writer.append(line->signature);
  }
  return message;
}

Bytes draw_message(std::uint64_t size, const Hash256& root, const PublicKey& log) {
  Checkpoint checkpoint;
  checkpoint.note.text = checkpoint_text(size, root, log);
  return draw_message(checkpoint);
}

std::optional<Draw> Draw::open(const Checkpoint& checkpoint, const PublicKey& drawer,
                               ByteSpan proof) {
  return open(draw_message(checkpoint), drawer, proof);
}

std::optional<Draw> Draw::open(ByteSpan message, const PublicKey& drawer, ByteSpan proof) {
  const auto output = vrf_verify(drawer, message, proof);
  if (!output) return std::nullopt;
  return Draw(blake2b(*output));
}

std::uint64_t Draw::number(std::string_view purpose, std::uint64_t entry, ByteSpan rest) const {
  Bytes message;
  ByteWriter writer(message);
  writer.append(as_bytes(purpose));
  writer.write(std::uint8_t{0});
  writer.write(entry);
  writer.append(rest);
  std::uint64_t value = 0;
  std::memcpy(&value, keyed_blake2b(seed_, message).bytes.data(), sizeof(value));
  return value;
}

bool Draw::selects(std::uint64_t entry, std::int64_t rate) const {
  return is_below(number("audit", entry), rate);
}

bool Draw::selects_referee(std::uint64_t entry, std::int64_t rate) const {
  return is_below(number("referee", entry), rate);
}

std::optional<PublicKey> Draw::auditor(std::uint64_t entry, std::span<const Candidate> candidates,
                                       std::span<const Hash256> excluded_owners) const {
  std::optional<std::pair<std::uint64_t, PublicKey>> least;
  for (const Candidate& one : candidates) {
    const bool excluded = std::find(excluded_owners.begin(), excluded_owners.end(), one.owner) !=
                          excluded_owners.end();
    if (excluded) continue;
    const std::pair drawn(number("auditor", entry, one.key.bytes()), one.key);
    if (!least || drawn < *least) least = drawn;
  }
  return least ? std::optional(least->second) : std::nullopt;
}

}  // namespace hearth::ledger
