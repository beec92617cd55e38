#include "ledger/seal.h"

#include <string_view>

#include "base/bytes.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kSealPurpose = "hearth seal v1";

Bytes sealed_bytes(const PublicKey& cluster, const SealEntry& seal) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(cluster.bytes());
  writer.write(seal.receipt);
  writer.append(seal.seal.bytes);
  return all;
}

}  // namespace

Hash256 seal_of(std::uint64_t receipt, const PublicKey& auditor, const Hash256& root,
                const Hash256& salt) {
  Bytes all;
  ByteWriter writer(all);
  writer.append(as_bytes("hearth sealed root v1"));
  writer.write(receipt);
  writer.append(auditor.bytes());
  writer.append(root.bytes);
  return keyed_blake2b(salt, all);
}

SealEntry sign_seal(std::uint64_t receipt, const Hash256& seal, const PublicKey& cluster,
                    const SecretKey& auditor) {
  SealEntry entry{receipt, auditor.public_key(), seal, {}};
  entry.signature = auditor.sign(kSealPurpose, sealed_bytes(cluster, entry));
  return entry;
}

bool check_seal(const SealEntry& seal, const PublicKey& cluster) {
  return verify(seal.auditor, kSealPurpose, sealed_bytes(cluster, seal), seal.signature);
}

}  // namespace hearth::ledger
