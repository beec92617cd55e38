// Evidence of a verdict as anybody may hand it on: any bytes. What is accepted is signed, names its
// place among its receipts, and can be given to a referee as it is.
#include "base/check.h"
#include "ledger/dispute/evidence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto evidence = hearth::ledger::parse_evidence(hearth::ByteSpan(bytes, size));
  if (!evidence) return 0;
  INVARIANT(!evidence->receipts.empty(), "evidence has receipts");
  const auto checked = hearth::ledger::check_evidence(*evidence);
  if (!checked) return 0;
  const hearth::ledger::RefereeCase& of = checked->claimed;
  INVARIANT(of.positions > 0 && of.positions <= of.prompt.size() + of.answer.size(),
            "every position of the receipts has a token");
  INVARIANT(checked->roots.claimed.contains(checked->roots.place.window), "its place is there");
  return 0;
}
