#include "ledger/entry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bytes.h"

namespace hearth::ledger {
namespace {

// Each kind lists its fields once; Archive writes or reads them.
struct Writer {
  ByteWriter out;
  Status status = ok_status();
  template <std::size_t kBytes>
  void bytes(std::array<std::byte, kBytes>& value) {
    out.append(value);
  }
  void key(PublicKey& value) { out.append(value.bytes()); }
  void key_or_empty(PublicKey& value) { key(value); }
  template <typename T>
  void number(T& value) {
    out.write(value);
  }
};

struct EntryReader {
  ByteReader in;
  Status status = ok_status();
  template <std::size_t kBytes>
  void bytes(std::array<std::byte, kBytes>& value) {
    const ByteSpan taken = in.take(kBytes);
    std::copy(taken.begin(), taken.end(), value.begin());
  }
  void key(PublicKey& value) {
    auto parsed = PublicKey::parse(in.take(PublicKey::kBytes));
    if (parsed) {
      value = *parsed;
    } else if (status) {
      status = parsed.error();
    }
  }
  void key_or_empty(PublicKey& value) {
    ByteReader ahead = in;
    const ByteSpan taken = ahead.take(PublicKey::kBytes);
    const bool is_empty =
        std::ranges::all_of(taken, [](std::byte one) { return one == std::byte{}; });
    if (!is_empty) return key(value);
    in = ahead;
    value = {};
  }
  template <typename T>
  void number(T& value) {
    value = in.read<T>();
  }
};

template <typename Archive>
void fields(Archive& a, RulesEntry& e) {
  a.bytes(e.policy.bytes);
  a.key(e.cluster);
}
template <typename Archive>
void fields(Archive& a, MemberEntry& e) {
  a.key(e.key);
  a.bytes(e.owner.bytes);
  auto vouched = static_cast<std::uint8_t>(e.is_vouched ? 1 : 0);
  a.number(vouched);
  if (vouched > 1 && a.status) a.status = Error::invalid("a member is vouched for or not: 1 or 0");
  e.is_vouched = vouched == 1;
}
template <typename Archive>
void fields(Archive& a, ChangeEntry& e) {
  a.key(e.key);
}
template <typename Archive>
void fields(Archive& a, GrantEntry& e) {
  a.key(e.to);
  a.number(e.amount);
}
template <typename Archive>
void fields(Archive& a, ReceiptEntry& e) {
  a.key_or_empty(e.payer);
  a.bytes(e.receipt);
}
template <typename Archive>
void fields(Archive& a, SealEntry& e) {
  a.number(e.receipt);
  a.key(e.auditor);
  a.bytes(e.seal.bytes);
  a.bytes(e.signature);
}
template <typename Archive>
void fields(Archive& a, OpeningEntry& e) {
  a.number(e.receipt);
  a.key(e.auditor);
  a.bytes(e.root.bytes);
  a.bytes(e.salt.bytes);
}
template <typename Archive>
void fields(Archive& a, VerdictEntry& e) {
  a.number(e.receipt);
  a.key_or_empty(e.guilty);
  auto verdict = static_cast<std::uint8_t>(e.verdict);
  a.number(verdict);
  if ((verdict < 1 || verdict > 3) && a.status) {
    a.status = Error::invalid("verdict " + std::to_string(verdict) + " is unknown");
  }
  e.verdict = static_cast<Verdict>(verdict);
  if ((e.verdict == Verdict::kUnjudged) != (e.guilty == PublicKey()) && a.status) {
    a.status = Error::invalid(
        "a verdict names who is guilty, and only an unjudged one "
        "has an empty key");
  }
  a.bytes(e.evidence.bytes);
}
template <typename Archive>
void fields(Archive& a, EquivocationEntry& e) {
  a.bytes(e.one);
  a.bytes(e.other);
}
template <typename Archive>
void fields(Archive& a, VestEntry& e) {
  a.key(e.key);
}
template <typename Archive>
void fields(Archive& a, DrawEntry& e) {
  a.bytes(e.proof);
}

static_assert(std::variant_size_v<EntryBody> == 11, "each kind of entry has a body");

// The body type of kind `kKind`; kinds count from 1.
template <std::size_t kKind = 1>
Result<EntryBody> read_body(std::uint8_t kind, ByteReader in) {
  if constexpr (kKind > std::variant_size_v<EntryBody>) {
    return Error::invalid("an entry of kind " + std::to_string(kind) + ", which is unknown");
  } else {
    if (kind != kKind) return read_body<kKind + 1>(kind, in);
    std::variant_alternative_t<kKind - 1, EntryBody> body;
    EntryReader reader{in};
    fields(reader, body);
    REQUIRE(!reader.in.failed() && reader.in.remaining() == 0,
            "an entry of kind " + std::to_string(kind) + " has not the length of its kind");
    TRY_VOID(reader.status);
    return EntryBody(std::move(body));
  }
}

}  // namespace

Bytes write_entry(const Entry& entry) {
  Bytes bytes;
  ByteWriter head(bytes);
  head.write(static_cast<std::uint8_t>(entry.body.index() + 1));
  head.write(entry.time);
  EntryBody body = entry.body;
  Writer writer{ByteWriter(bytes)};
  std::visit([&writer](auto& one) { fields(writer, one); }, body);
  return bytes;
}

Result<Entry> parse_entry(ByteSpan bytes) {
  ByteReader reader(bytes);
  Entry entry;
  const auto kind = reader.read<std::uint8_t>();
  entry.time = reader.read<std::int64_t>();
  REQUIRE(!reader.failed(),
          "an entry of " + std::to_string(bytes.size()) + " bytes is too short for any kind");
  TRY(entry.body, read_body(kind, reader));
  return entry;
}

ByteSpan receipt_in(ByteSpan entry) {
  constexpr std::size_t kBytes = 1 + sizeof(std::int64_t) + PublicKey::kBytes + kReceiptBytes;
  constexpr std::byte kKind{5};
  const bool is_receipt = entry.size() == kBytes && entry.front() == kKind;
  return is_receipt ? entry.last(kReceiptBytes) : ByteSpan();
}

}  // namespace hearth::ledger
