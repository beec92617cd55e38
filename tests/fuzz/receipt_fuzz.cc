// Any bytes as a receipt: as they are, and once more with the signature of a known worker, so that
// what lies behind the signature is reached. What is accepted has one encoding.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ledger/receipt.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  using namespace hearth::ledger;
  static const SecretKey key = SecretKey::from_seed(Bytes(SecretKey::kSeedBytes)).value();
  const PublicKey& cluster = key.public_key();
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto plain = parse_receipt(bytes, cluster);
  INVARIANT(plain.ok() || !plain.error().message.empty(), "a refusal says why");
  if (size < kReceiptBytes) return 0;

  Bytes body(bytes.begin(), bytes.begin() + (kReceiptBytes - kSignatureBytes));
  std::copy(cluster.bytes().begin(), cluster.bytes().end(), body.begin() + 224);
  Bytes message(cluster.bytes().begin(), cluster.bytes().end());
  message.insert(message.end(), body.begin(), body.end());
  const Signature signature = key.sign("hearth receipt v1", message);
  body.insert(body.end(), signature.begin(), signature.end());
  const auto receipt = parse_receipt(body, cluster);
  if (!receipt) {
    INVARIANT(!receipt.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto again = sign_receipt(*receipt, cluster, key);
  INVARIANT(again.ok() && *again == body, "what is accepted has one encoding");
  return 0;
}
