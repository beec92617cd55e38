#include "ledger/lookup.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "ledger/archive.h"
#include "ledger/tiles.h"

namespace hearth::ledger {
namespace {

// Tolerance for a clock that was set between naming and logging an answer.
constexpr std::int64_t kClockSeconds = 60;

std::int64_t time_of(ByteSpan entry) {
  ByteReader reader(entry);
  (void)reader.read<std::uint8_t>();
  return reader.read<std::int64_t>();
}

bool is_of(ByteSpan receipt, const AnswerName& answer) {
  if (receipt.empty()) return false;
  const RequestId request = request_in(receipt);
  return std::equal(answer.begin(), answer.end(), request.begin());
}

// The first bundle that may hold an entry of this time or later. Where that is behind the archived
// ones, none of these is read.
Result<std::uint64_t> first_bundle(LogFolder& folder, TileReader& tiles, std::uint64_t size,
                                   std::int64_t since) {
  std::uint64_t begin = 0;
  std::uint64_t end = bundle_count(size);
  TRY(const std::optional<ArchiveNote> archived, read_archive_note(folder));
  const std::uint64_t here = archived ? archived->entries / kTileWidth : 0;
  if (here > 0 && here < end) {
    TRY(const Bundle bundle, tiles.bundle(here));
    (time_of(bundle.entries.front().bytes) < since ? begin : end) = here;
  }
  while (begin + 1 < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    TRY(const Bundle bundle, tiles.bundle(middle));
    (time_of(bundle.entries.front().bytes) < since ? begin : end) = middle;
  }
  return begin;
}

std::string name_of(const Receipt& receipt) {
  return message_of("window ", receipt.slot.window, " of choice ",
                    std::to_integer<unsigned>(receipt.slot.request[14]) << 8 |
                        std::to_integer<unsigned>(receipt.slot.request[15]));
}

auto window_of(const Receipt& r) { return std::tie(r.slot.request, r.slot.epoch, r.slot.window); }

// The receipts of one window, by stage.
Status check_window(std::span<const Receipt> stages, const PublicKey& cluster) {
  const std::string name = name_of(stages.front());
  const std::uint16_t wanted = stages.front().stages;
  for (std::size_t i = 0; i < wanted; ++i) {
    REQUIRE(i < stages.size() && stages[i].slot.stage == i && stages[i].stages == wanted, name,
            ": stage ", i, " of ", wanted, " has no receipt");
    if (i == 0) continue;
    const Status agree = check_neighbours(stages[i - 1], stages[i], cluster);
    REQUIRE(agree.ok(), name, ": ", agree.error().message);
  }
  REQUIRE(stages.size() == wanted, name, ": a stage has two receipts");
  REQUIRE(check_edge(in_edge(stages.front()), cluster, cluster, stages.front().in_edge), name,
          ": the edge to the first stage is not signed by the cluster");
  REQUIRE(check_edge(out_edge(stages.back()), cluster, cluster, stages.back().out_edge), name,
          ": the edge from the last stage is not signed by the cluster");
  return ok_status();
}

Status check_all_windows(const std::vector<Receipt>& receipts, const PublicKey& cluster) {
  std::uint32_t next_window = 0;
  std::uint32_t next_position = 0;
  for (std::size_t begin = 0; begin < receipts.size();) {
    const Receipt& first = receipts[begin];
    const bool another = begin == 0 || first.slot.request != receipts[begin - 1].slot.request ||
                         first.slot.epoch != receipts[begin - 1].slot.epoch;
    if (another) next_window = next_position = 0;
    std::size_t end = begin;
    while (end < receipts.size() && window_of(receipts[end]) == window_of(first)) ++end;
    REQUIRE(first.slot.window == next_window && first.first_position == next_position,
            name_of(first), " begins at position ", first.first_position,
            "; what is before it has no receipts");
    TRY_VOID(check_window(std::span(receipts).subspan(begin, end - begin), cluster));
    if (!another) TRY_VOID(check_windows(receipts[begin - 1], first));
    ++next_window;
    next_position += first.positions;
    begin = end;
  }
  return ok_status();
}

}  // namespace

Result<std::vector<LoggedReceipt>> find_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                                 const AnswerName& answer, std::uint64_t most) {
  TileReader tiles(folder, checkpoint.size);
  TRY(std::uint64_t index,
      first_bundle(folder, tiles, checkpoint.size, asked_at(answer) - kClockSeconds));
  std::vector<LoggedReceipt> found;
  for (; index < bundle_count(checkpoint.size) && most > 0; ++index, --most) {
    TRY(const Bundle bundle, tiles.bundle(index));
    for (std::size_t i = 0; i < bundle.entries.size(); ++i) {
      const ByteSpan bytes = bundle.entries[i].bytes;
      if (!is_of(receipt_in(bytes), answer)) continue;
      found.push_back({index * kTileWidth + i, Bytes(bytes.begin(), bytes.end())});
    }
  }
  return found;
}

Result<std::vector<Receipt>> check_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                            const std::vector<LoggedReceipt>& found) {
  TileReader tiles(folder, checkpoint.size);
  std::vector<Receipt> receipts;
  for (const LoggedReceipt& one : found) {
    const std::string name = "entry " + std::to_string(one.entry) + ": ";
    TRY(const Proof proof, inclusion_proof(one.entry, checkpoint.size, tiles.nodes()));
    const Status included =
        check_inclusion(leaf_hash(one.bytes), one.entry, checkpoint.size, proof, checkpoint.root);
    REQUIRE(included.ok(), name, "it is not what the checkpoint signs: ", included.error().message);
    const auto receipt = parse_receipt(receipt_in(one.bytes), checkpoint.log);
    REQUIRE(receipt.ok(), name, receipt.error().message);
    receipts.push_back(*receipt);
  }
  std::ranges::sort(receipts, {}, [](const Receipt& one) {
    return std::tuple_cat(window_of(one), std::tie(one.slot.stage));
  });
  TRY_VOID(check_all_windows(receipts, checkpoint.log));
  return receipts;
}

Result<std::vector<LoggedAudits>> find_audits(LogFolder& folder, const Checkpoint& checkpoint,
                                              const std::vector<LoggedReceipt>& found,
                                              std::uint64_t most) {
  std::vector<LoggedAudits> audits(found.size());
  if (found.empty()) return audits;
  std::map<std::uint64_t, std::pair<Receipt, LoggedAudits*>> by_entry;
  for (std::size_t i = 0; i < found.size(); ++i) {
    TRY(Receipt receipt, reread_receipt(receipt_in(found[i].bytes)));
    by_entry.emplace(found[i].entry, std::pair(std::move(receipt), &audits[i]));
  }
  const auto take = [&by_entry](const EntryBody& body) {
    if (const auto* opening = std::get_if<OpeningEntry>(&body)) {
      const auto of = by_entry.find(opening->receipt);
      if (of == by_entry.end()) return;
      auto& [receipt, said] = of->second;
      ++(opening->root == receipt.out_root ? said->agreed : said->differed);
    } else if (const auto* verdict = std::get_if<VerdictEntry>(&body)) {
      const auto of = by_entry.find(verdict->receipt);
      // kUnjudged decides nothing.
      if (of == by_entry.end() || verdict->verdict == Verdict::kUnjudged) return;
      auto& [receipt, said] = of->second;
      (verdict->guilty == receipt.worker ? said->worker : said->auditor) = verdict->verdict;
    }
  };
  TileReader tiles(folder, checkpoint.size);
  for (std::uint64_t index = found.front().entry / kTileWidth;
       index < bundle_count(checkpoint.size) && most > 0; ++index, --most) {
    TRY(const Bundle bundle, tiles.bundle(index));
    for (const BundleEntry& one : bundle.entries) {
      TRY(const Entry entry, parse_entry(one.bytes));
      take(entry.body);
    }
  }
  return audits;
}

}  // namespace hearth::ledger
