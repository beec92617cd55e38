#include "cli/ledger/audit_evidence.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/hex.h"
#include "ledger/dispute.h"
#include "ledger/scan.h"
#include "ledger/tiles.h"
#include "node/proof/trace_check.h"

namespace hearth::cli {
namespace {

// What a verdict's evidence says of the game that was played.
struct Named {
  std::optional<std::string> hash;  // hex
  bool needs_model = false;
};

Named named_in(std::string_view text) {
  Named out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(ledger::kEvidenceDispute)) {
      out.hash = std::string(line.substr(ledger::kEvidenceDispute.size()));
    }
    out.needs_model = out.needs_model || line == ledger::kEvidenceNeedsModel;
  }
  return out;
}

class Checker {
 public:
  Checker(ledger::LogFolder& folder, const ledger::Checkpoint& checkpoint)
      : folder_(folder), checkpoint_(checkpoint), tiles_(folder, checkpoint.size) {}

  Result<Bytes> read(const std::string& name, std::size_t most, const std::string& what) {
    auto bytes = folder_.read(name, most);
    REQUIRE(bytes, name + ": " + what + " cannot be read: " + bytes.error().message);
    return bytes;
  }

  Status check_game(const std::string& name, ByteSpan bytes, const ledger::VerdictEntry& verdict,
                    bool needs_model) {
    const auto fault = [&name](const std::string& why) {
      return Error::invalid(name + ": " + why);
    };
    const auto file = ledger::parse_dispute(bytes);
    if (!file) return fault(file.error().message);
    const auto of = ledger::check_case(file->said);
    if (!of) return fault(of.error().message);
    TRY(const Bytes receipt, receipt_at(verdict.receipt));
    if (file->said.cluster != checkpoint_.log || file->said.seal.receipt != verdict.receipt ||
        !std::ranges::equal(file->said.receipts.back(), receipt)) {
      return fault("it is of another dispute than that over entry " +
                   std::to_string(verdict.receipt));
    }
    const auto found = node::check_dispute(*file, nullptr);
    if (!found) return fault(found.error().message);
    if (!found->decided && needs_model) return ok_status();
    for (std::size_t i = 0; i < ledger::kDisputeSides; ++i) {
      const bool guilty = of->key(static_cast<ledger::DisputeSide>(i)) == verdict.guilty;
      if (guilty && found->decided && found->wrong[i]) return ok_status();
    }
    return fault("it does not show that " + verdict.guilty.hex() + " was wrong: " + found->why);
  }

 private:
  // Of an entry that the log was scanned with.
  Result<Bytes> receipt_at(std::uint64_t entry) {
    const std::uint64_t index = entry / ledger::kTileWidth;
    const ledger::Tile tile{ledger::Tile::kEntries, index,
                            ledger::tile_width(0, index, checkpoint_.size)};
    REQUIRE(entry < checkpoint_.size, "entry " + std::to_string(entry) + " is not in the log");
    TRY(const Bytes bundle, tiles_.bundle(tile));
    TRY(const auto entries, ledger::parse_bundle(bundle, tile.width));
    const ByteSpan receipt = ledger::receipt_in(entries[entry % ledger::kTileWidth].bytes);
    return Bytes(receipt.begin(), receipt.end());
  }

  ledger::LogFolder& folder_;
  const ledger::Checkpoint& checkpoint_;
  ledger::TileReader tiles_;
};

}  // namespace

Result<Evidence> check_evidence(ledger::LogFolder& folder, const ledger::Checkpoint& checkpoint,
                                const std::map<std::uint64_t, ledger::VerdictEntry>& verdicts) {
  Evidence out;
  Checker checker(folder, checkpoint);
  for (const auto& [index, verdict] : verdicts) {
    const std::string at = "the verdict at entry " + std::to_string(index);
    const std::string name = kEvidenceFolder + verdict.evidence.hex();
    TRY(const Bytes bytes, checker.read(name, kEvidenceBytes, "the evidence of " + at));
    REQUIRE(blake2b(bytes) == verdict.evidence, name + ": not the evidence that " + at + " names");
    out.files.insert(name);
    const Named named = named_in(as_text(bytes));
    if (!named.hash) continue;
    const std::string game = kEvidenceFolder + *named.hash;
    REQUIRE(from_hex(*named.hash) && named.hash->size() == 2 * sizeof(Hash256),
            name + ": the dispute's file that it names has no name");
    TRY(const Bytes dispute,
        checker.read(game, ledger::kDisputeFileBytes, "the dispute's file of " + at));
    REQUIRE(blake2b(dispute).hex() == *named.hash,
            game + ": not the dispute's file that the evidence of " + at + " names");
    TRY_VOID(checker.check_game(game, dispute, verdict, named.needs_model));
    out.files.insert(game);
    ++out.disputes;
  }
  return out;
}

}  // namespace hearth::cli
