#include "coordinator/proof/kept_verdict.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/hex.h"

namespace hearth::coordinator {
namespace {

// Of the line that begins with that name; empty: there is none.
std::string_view value_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool is_it = line.starts_with(name) && line.substr(name.size()).starts_with(' ');
    if (is_it) return line.substr(name.size() + 1);
  }
  return {};
}

// Whether the evidence has the very receipt in dispute.
bool is_of(std::string_view hex, const ledger::Receipt& disputed) {
  const auto bytes = from_hex(hex);
  if (!bytes) return false;
  const auto receipt = ledger::reread_receipt(*bytes);
  return receipt && receipt->slot == disputed.slot && receipt->worker == disputed.worker &&
         receipt->out_root == disputed.out_root;
}

}  // namespace

std::string_view verdict_name(ledger::Verdict verdict) {
  if (verdict == ledger::Verdict::kUnjudged) return "unjudged";
  return verdict == ledger::Verdict::kFraud ? "fraud" : "fault";
}

std::optional<ledger::VerdictEntry> verdict_in(ByteSpan evidence, const ledger::Books& books) {
  std::string_view text = as_text(evidence);
  if (!text.starts_with(kVerdictEvidence)) return std::nullopt;
  text.remove_prefix(kVerdictEvidence.size());
  if (value_of(text, "cluster") != books.cluster().hex()) return std::nullopt;
  ledger::VerdictEntry out;
  const std::string_view number = value_of(text, "entry");
  const auto [end, failed] =
      std::from_chars(number.data(), number.data() + number.size(), out.receipt);
  if (failed != std::errc() || end != number.data() + number.size()) return std::nullopt;
  const std::vector<std::uint64_t> open = books.disputes();
  const bool is_open = std::ranges::count(open, out.receipt) > 0;
  if (!is_open || !is_of(value_of(text, "receipt"), *books.receipt(out.receipt))) {
    return std::nullopt;
  }
  std::vector<PublicKey> sides = books.doubters(out.receipt);
  sides.push_back(books.receipt(out.receipt)->worker);
  const std::string_view guilty = value_of(text, "guilty");
  const auto side = std::ranges::find(sides, guilty, &PublicKey::hex);
  if (side == sides.end()) return std::nullopt;
  out.guilty = *side;
  for (const ledger::Verdict one : {ledger::Verdict::kFault, ledger::Verdict::kFraud}) {
    if (value_of(text, "verdict") != verdict_name(one)) continue;
    out.verdict = one;
    out.evidence = blake2b(evidence);
    return out;
  }
  return std::nullopt;
}

Bytes unjudged_evidence(std::uint64_t entry, const ledger::Books& books) {
  std::string text(kVerdictEvidence);
  const auto add = [&text](std::string_view name, const std::string& value) {
    text += std::string(name) + " " + value + "\n";
  };
  add("cluster", books.cluster().hex());
  add("entry", std::to_string(entry));
  for (const PublicKey& auditor : books.doubters(entry)) add("auditor", auditor.hex());
  add("why", "the coordinator was started again, and had the request in its memory alone");
  add("verdict", std::string(verdict_name(ledger::Verdict::kUnjudged)));
  const ByteSpan bytes = as_bytes(text);
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace hearth::coordinator
