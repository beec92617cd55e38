#include "coordinator/proof/ledger_snapshot.h"

#include <spdlog/spdlog.h>

#include <string_view>

#include "ledger/fields.h"
#include "ledger/merkle.h"
#include "ledger/scan.h"

namespace hearth::coordinator {
namespace {

constexpr std::string_view kMagic = "hearth ledger snapshot v1\n";
constexpr std::size_t kVerdictBytes = 82;

Hash256 mac_of(const SecretKey& cluster, ByteSpan body) {
  return keyed_blake2b(blake2b(ledger::pack("hearth ledger snapshot v1 key", cluster.seed())),
                       body);
}

Result<LedgerSnapshot> fitting(const SecretKey& cluster, ledger::LogFolder& folder,
                               const ledger::Checkpoint& checkpoint) {
  TRY(const Bytes bytes, folder.read(std::string(ledger::kSnapshotFile), kSnapshotBytes));
  TRY(LedgerSnapshot found, read_snapshot(cluster, bytes));
  const std::uint64_t entries = found.books.entries();
  REQUIRE(entries <= checkpoint.size, "it has ", entries, " entries, and the log ",
          checkpoint.size);
  ledger::TileReader tiles(folder, checkpoint.size);
  TRY(const Hash256 root, ledger::tree_root(entries, tiles.nodes()));
  REQUIRE(root == found.books.root(), "it is of other entries than the log's first ", entries);
  return found;
}

}  // namespace

Bytes write_snapshot(const SecretKey& cluster, const ledger::Books& books, std::uint64_t undrawn,
                     std::span<const ledger::VerdictEntry> verdicts) {
  ledger::FieldWriter body;
  body(undrawn, static_cast<std::uint64_t>(verdicts.size()));
  for (const ledger::VerdictEntry& one : verdicts) body(ledger::write_entry({0, one}));
  body(ledger::BooksState::write(books));
  return ledger::pack(kMagic, mac_of(cluster, body.bytes), body.bytes);
}

Result<LedgerSnapshot> read_snapshot(const SecretKey& cluster, ByteSpan bytes) {
  ByteReader in(bytes);
  REQUIRE(as_text(in.take(kMagic.size())) == kMagic, "it is not a snapshot of this program");
  const ByteSpan mac = in.take(sizeof(Hash256));
  const ByteSpan body = in.take(in.remaining());
  REQUIRE(equal_secrets(mac, mac_of(cluster, body).bytes), "this cluster's key did not write it");
  ByteReader fields(body);
  const auto undrawn = fields.read<std::uint64_t>();
  auto left = fields.read<std::uint64_t>();
  std::vector<ledger::VerdictEntry> verdicts;
  for (; left > 0 && !fields.failed(); --left) {
    TRY(const ledger::Entry entry, ledger::parse_entry(fields.take(kVerdictBytes)));
    const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body);
    REQUIRE(verdict != nullptr, "one of its verdicts is another kind of entry");
    verdicts.push_back(*verdict);
  }
  REQUIRE(!fields.failed(), "it ends too early");
  TRY(ledger::BooksState books, ledger::BooksState::read(fields.take(fields.remaining()), {},
                                                         ledger::EntrySignatures::kTrusted));
  return LedgerSnapshot{std::move(books), undrawn, std::move(verdicts)};
}

std::optional<LedgerSnapshot> find_snapshot(const SecretKey& cluster, ledger::LogFolder& folder,
                                            const ledger::Checkpoint& checkpoint) {
  auto found = fitting(cluster, folder, checkpoint);
  if (found) return *std::move(found);
  if (found.error().code != ErrorCode::kNotFound) {
    spdlog::warn("the ledger's snapshot is not used, and the whole log is folded: {}",
                 found.error().message);
  }
  return std::nullopt;
}

}  // namespace hearth::coordinator
