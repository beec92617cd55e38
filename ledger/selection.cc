#include "ledger/selection.h"

#include <algorithm>

#include "ledger/fields.h"
#include "ledger/note.h"

namespace hearth::ledger {
namespace {

// n / 2^64 < rate / 10^6, exactly.
bool is_below(std::uint64_t n, std::int64_t rate) {
  if (rate <= 0) return false;
  const auto scaled = static_cast<unsigned __int128>(n) * static_cast<std::uint64_t>(kMillion);
  return scaled < static_cast<unsigned __int128>(rate) << 64;
}

}  // namespace

Bytes draw_message(std::uint64_t size, const Hash256& root, const PublicKey& log) {
  return pack("hearth draw v1", std::uint8_t{0}, checkpoint_text(size, root, log));
}

std::optional<Draw> Draw::open(ByteSpan message, const PublicKey& drawer, ByteSpan proof) {
  const auto output = vrf_verify(drawer, message, proof);
  if (!output) return std::nullopt;
  return Draw(blake2b(*output));
}

std::optional<Draw> Draw::reopen(ByteSpan proof) {
  const auto output = vrf_output(proof);
  if (!output) return std::nullopt;
  return Draw(blake2b(*output));
}

std::uint64_t Draw::number(std::string_view purpose, std::uint64_t entry, ByteSpan rest) const {
  const Bytes message = pack(purpose, std::uint8_t{0}, entry, rest);
  return ByteReader(keyed_blake2b(seed_, message).bytes).read<std::uint64_t>();
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
