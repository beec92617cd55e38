#include "ledger/entry.h"

#include <string>
#include <utility>

#include "ledger/fields.h"

namespace hearth::ledger {
namespace {

void fields(auto& a, RulesEntry& e) { a(e.policy, e.cluster); }
void fields(auto& a, MemberEntry& e) {
  auto vouched = static_cast<std::uint8_t>(e.is_vouched ? 1 : 0);
  a(e.key, e.owner, vouched);
  a.check(vouched <= 1, "a member is vouched for or not: 1 or 0");
  e.is_vouched = vouched == 1;
}
void fields(auto& a, ChangeEntry& e) { a(e.key); }
void fields(auto& a, GrantEntry& e) { a(e.to, e.amount); }
void fields(auto& a, ReceiptEntry& e) {
  a.key_or_empty(e.payer);
  a(e.receipt, e.cached);
}
void fields(auto& a, SealEntry& e) { a(e.receipt, e.auditor, e.seal, e.signature); }
void fields(auto& a, OpeningEntry& e) { a(e.receipt, e.auditor, e.root, e.salt); }
void fields(auto& a, VerdictEntry& e) {
  a(e.receipt);
  a.key_or_empty(e.guilty);
  auto verdict = static_cast<std::uint8_t>(e.verdict);
  a(verdict);
  a.check(verdict >= 1 && verdict <= 3, "verdict " + std::to_string(verdict) + " is unknown");
  e.verdict = static_cast<Verdict>(verdict);
  a.check((e.verdict == Verdict::kUnjudged) == (e.guilty == PublicKey()),
          "a verdict names who is guilty, and only an unjudged one has an empty key");
  a(e.evidence);
}
void fields(auto& a, EquivocationEntry& e) { a(e.one, e.other); }
void fields(auto& a, VestEntry& e) { a(e.key); }
void fields(auto& a, DrawEntry& e) { a(e.proof); }

static_assert(std::variant_size_v<EntryBody> == 11, "each kind of entry has a body");

// The body type of kind `kKind`; kinds count from 1.
template <std::size_t kKind = 1>
Result<EntryBody> read_body(std::uint8_t kind, ByteReader in) {
  if constexpr (kKind > std::variant_size_v<EntryBody>) {
    return Error::invalid("an entry of kind ", kind, ", which is unknown");
  } else {
    if (kind != kKind) return read_body<kKind + 1>(kind, in);
    std::variant_alternative_t<kKind - 1, EntryBody> body;
    FieldReader reader{in};
    fields(reader, body);
    REQUIRE(!reader.in.failed() && reader.in.remaining() == 0, "an entry of kind ", kind,
            " does not have the length of its kind");
    TRY_VOID(reader.status);
    return EntryBody(std::move(body));
  }
}

}  // namespace

Bytes write_entry(const Entry& entry) {
  FieldWriter out;
  out(static_cast<std::uint8_t>(entry.body.index() + 1), entry.time);
  EntryBody body = entry.body;
  std::visit([&out](auto& one) { fields(out, one); }, body);
  return std::move(out.bytes);
}

Result<Entry> parse_entry(ByteSpan bytes) {
  ByteReader reader(bytes);
  Entry entry;
  const auto kind = reader.read<std::uint8_t>();
  entry.time = reader.read<std::int64_t>();
  REQUIRE(!reader.failed(), "an entry of ", bytes.size(), " bytes is too short for any kind");
  TRY(entry.body, read_body(kind, reader));
  return entry;
}

ByteSpan receipt_in(ByteSpan entry) {
  constexpr std::size_t kBegin = 1 + sizeof(std::int64_t) + PublicKey::kBytes;
  constexpr std::size_t kBytes = kBegin + kReceiptBytes + sizeof(ReceiptEntry::cached);
  constexpr std::byte kKind{5};
  const bool is_receipt = entry.size() == kBytes && entry.front() == kKind;
  return is_receipt ? entry.subspan(kBegin, kReceiptBytes) : ByteSpan();
}

}  // namespace hearth::ledger
