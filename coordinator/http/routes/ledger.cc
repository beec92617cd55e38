// GET /api/v1/ledger: standings, audits, verdicts and credits. GET /api/v1/receipts/NAME: the
// receipts of one answer with the proofs that they are in the signed log, for a client that checks
// them itself (pages/files/receipt.js). None: they are not logged yet, or never will be.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "coordinator/http/routes/manage.h"
#include "ledger/lookup.h"
#include "ledger/tiles.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::string_view kReceiptPath = "/api/v1/receipts/";
constexpr std::size_t kReceiptsShown = 4'096;  // of one answer
constexpr std::uint64_t kRecentBundles = 16;   // latest bundles, searched for verdicts
constexpr std::uint64_t kBundlesRead = 1'024;  // bundles searched for an answer's receipts

ApiError no_ledger() {
  return ApiError::of(
      409, "this server keeps no ledger; start it without --no-receipts to have receipts",
      "no_ledger");
}

ApiError log_error(const Error& error) {
  return ApiError::of(500, "the log cannot be read: " + error.message, "ledger_unreadable",
                      "server_error");
}

const char* verdict_name(ledger::Verdict verdict) {
  return verdict == ledger::Verdict::kFault   ? "fault"
         : verdict == ledger::Verdict::kFraud ? "fraud"
                                              : "unjudged";
}

// The names of these keys, if they are members.
std::string name_of(const HttpOptions& options, const PublicKey& key) {
  if (!options.join) return "";
  const auto entry = options.join->roster->find(key);
  return entry ? entry->name : "";
}

void add_name(OrderedJson& out, const HttpOptions& options, const PublicKey& key) {
  const std::string name = name_of(options, key);
  if (!name.empty()) out["name"] = name;
  out["key"] = key.hex();
}

OrderedJson member_object(const MemberSummary& member, const HttpOptions& options) {
  OrderedJson out = OrderedJson::object();
  add_name(out, options, member.key);
  out.update({{"standing", member.level},
              {"balance", member.balance},
              {"escrow", member.escrow},
              {"windows_served", member.served},
              {"audited_right", member.audited_right},
              {"faults", member.faults},
              {"audit_rate_ppm", member.audit_rate_ppm},
              {"in_dispute", member.in_dispute},
              {"unjudged", member.unjudged}});
  if (member.level == ledger::level_name(ledger::Level::kNewcomer)) {
    out["checks"] = member.checks;
    out["check_days"] = member.check_days;
  }
  return out;
}

OrderedJson audits_object(const LedgerSummary& summary) {
  const ledger::AuditCounts& audits = summary.audits;
  return {{"draws", audits.draws},
          {"selected", audits.selected},
          {"agreed", audits.agreed},
          {"disagreed", audits.disagreed},
          {"missed", audits.missed},
          {"refereed", audits.refereed},
          {"referee_missed", audits.referee_missed},
          {"open_disputes", summary.open_disputes},
          {"unjudged", audits.unjudged}};
}

// The verdicts among the latest entries, newest first.
Result<OrderedJson> recent_verdicts(ledger::LogFolder& folder, const HttpOptions& options) {
  OrderedJson out = OrderedJson::array();
  TRY(const ledger::Checkpoint checkpoint, ledger::read_checkpoint(folder));
  ledger::TileReader tiles(folder, checkpoint.size);
  const std::uint64_t bundles = ledger::bundle_count(checkpoint.size);
  for (std::uint64_t back = 1; back <= std::min(bundles, kRecentBundles); ++back) {
    const std::uint64_t index = bundles - back;
    TRY(const ledger::Bundle bundle, tiles.bundle(index));
    for (std::size_t i = bundle.entries.size(); i-- > 0;) {
      TRY(const ledger::Entry entry, ledger::parse_entry(bundle.entries[i].bytes));
      const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body);
      if (verdict == nullptr) continue;
      OrderedJson& one = out.emplace_back(OrderedJson{{"entry", index * ledger::kTileWidth + i},
                                                      {"time", entry.time},
                                                      {"verdict", verdict_name(verdict->verdict)},
                                                      {"receipt", verdict->receipt}});
      if (verdict->verdict != ledger::Verdict::kUnjudged) add_name(one, options, verdict->guilty);
    }
  }
  return out;
}

ApiResult<OrderedJson> ledger_object(const Call& call, const LedgerSummary& summary) {
  const HttpOptions& options = call.api->options;
  OrderedJson out = {{"cluster", summary.cluster.hex()},
                     {"entries", summary.entries},
                     {"time", summary.time},
                     {"credits", options.credits != nullptr},
                     {"audits", audits_object(summary)},
                     {"members", OrderedJson::array()}};
  for (const MemberSummary& member : summary.members) {
    out["members"].push_back(member_object(member, options));
  }
  auto folder = options.open_log();
  if (!folder) return log_error(folder.error());
  auto verdicts = recent_verdicts(**folder, options);
  if (!verdicts) return log_error(verdicts.error());
  out["verdicts"] = *std::move(verdicts);
  out["verdicts_of_entries"] = kRecentBundles * ledger::kTileWidth;
  if (!options.credits) return out;
  out["in_circulation"] = options.credits->in_circulation();
  out["payers_total"] = summary.payers_total;
  out["payers"] = OrderedJson::array();
  for (const PayerSummary& payer : summary.payers) {
    OrderedJson& one = out["payers"].emplace_back(OrderedJson::object());
    add_name(one, options, payer.key);
    one["balance"] = payer.balance;
  }
  return out;
}

ApiResult<ledger::AnswerName> parse_name(const std::string& text) {
  ledger::AnswerName name{};
  const auto bytes = from_hex(text);
  if (!bytes || bytes->size() != name.size()) {
    return ApiError::invalid(
        fmt::format("a receipt has {} hexadecimal digits: the field hearth.receipt of an answer",
                    2 * name.size()));
  }
  std::ranges::copy(*bytes, name.begin());
  return name;
}

OrderedJson audits_of(const ledger::LoggedAudits& audits) {
  OrderedJson out = {{"agreed", audits.agreed}, {"differed", audits.differed}};
  if (audits.worker) out["verdict"] = verdict_name(*audits.worker);
  return out;
}

Result<OrderedJson> proofs_of(ledger::LogFolder& folder, const ledger::Checkpoint& checkpoint,
                              const std::vector<ledger::LoggedReceipt>& found,
                              const HttpOptions& options) {
  TRY(const auto audits, ledger::find_audits(folder, checkpoint, found, kBundlesRead));
  ledger::TileReader tiles(folder, checkpoint.size);
  OrderedJson out = OrderedJson::array();
  for (std::size_t i = 0; i < found.size(); ++i) {
    TRY(const ledger::Proof proof,
        ledger::inclusion_proof(found[i].entry, checkpoint.size, tiles.nodes()));
    OrderedJson path = OrderedJson::array();
    for (const Hash256& hash : proof) path.push_back(base64(hash.bytes));
    TRY(const ledger::Receipt receipt, ledger::reread_receipt(ledger::receipt_in(found[i].bytes)));
    out.push_back({{"entry", found[i].entry},
                   {"bytes", base64(found[i].bytes)},
                   {"proof", std::move(path)},
                   {"worker", name_of(options, receipt.worker)},
                   {"audits", audits_of(audits[i])}});
  }
  return out;
}

ApiResult<OrderedJson> receipt_object(const Call& call) {
  const HttpOptions& options = call.api->options;
  const std::string text = path_name(call, kReceiptPath);
  TRY(const ledger::AnswerName name, parse_name(text));
  auto folder = options.open_log();
  if (!folder) return log_error(folder.error());
  const auto checkpoint = ledger::read_checkpoint(**folder);
  if (!checkpoint) return log_error(checkpoint.error());
  const auto found = ledger::find_receipts(**folder, *checkpoint, name, kBundlesRead);
  if (!found) return log_error(found.error());
  if (found->size() > kReceiptsShown) {
    return ApiError::invalid(fmt::format(
        "the answer has {} receipts, and the API gives at most {}; run hearth verify {}",
        found->size(), kReceiptsShown, text));
  }
  auto proofs = proofs_of(**folder, *checkpoint, *found, options);
  if (!proofs) return log_error(proofs.error());
  return OrderedJson{
      {"receipt", text}, {"checkpoint", checkpoint->text()}, {"receipts", *std::move(proofs)}};
}

}  // namespace

void handle_ledger(Call call) {
  const HttpOptions& options = call.api->options;
  if (options.ledger == nullptr || !options.open_log) return call.respond(no_ledger());
  if (!take_slow_read(call)) return;  // checked before the ledger's thread gets work
  options.ledger->summarise([call = std::move(call)](const LedgerSummary& summary) {
    call.api->sockets.post([call, summary] {
      answer_taken(call, [summary](const Call& read) { return ledger_object(read, summary); });
    });
  });
}

void handle_receipt(Call call) {
  if (!call.api->options.open_log) return call.respond(no_ledger());
  answer_slowly(std::move(call), receipt_object);
}

}  // namespace hearth::coordinator::http
