// Any bytes as an entry of a ledger: what is accepted has one encoding. And as entries of books, in
// pieces: what they take, they take from any sender, and never fail but with a reason.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ledger/books.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  using namespace hearth::ledger;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto entry = parse_entry(bytes);
  INVARIANT(entry.ok() || !entry.error().message.empty(), "a refusal says why");
  if (entry) {
    INVARIANT(write_entry(*entry) == Bytes(bytes.begin(), bytes.end()), "one encoding");
  }

  static const PublicKey cluster = SecretKey::from_seed(Bytes(32)).value().public_key();
  Books books;
  (void)books.apply(write_entry({0, RulesEntry{policy_hash(Policy()), cluster}}));
  ByteSpan rest = bytes;
  while (!rest.empty()) {  // each piece behind its length in two bytes, as in a bundle
    if (rest.size() < 2) break;
    const std::size_t length =
        std::to_integer<std::size_t>(rest[0]) << 8 | std::to_integer<std::size_t>(rest[1]);
    rest = rest.subspan(2);
    const Status applied = books.apply(rest.first(std::min(length, rest.size())));
    if (!applied) {
      INVARIANT(!applied.error().message.empty(), "a refusal says why");
      break;
    }
    rest = rest.subspan(std::min(length, rest.size()));
  }
  return 0;
}
