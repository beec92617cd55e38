#include "ledger/statements.h"

#include "ledger/fields.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kSealPurpose = "hearth seal v1";
constexpr std::string_view kAnswerPurpose = "hearth answer v1";

Bytes signed_bytes(const SealEntry& seal, const PublicKey& cluster) {
  return pack(cluster, seal.receipt, seal.seal);
}

Bytes signed_bytes(const Answer& answer, const PublicKey& cluster) {
  const auto flag = [](bool is_set) { return static_cast<std::uint8_t>(is_set ? 1 : 0); };
  return pack(cluster, answer.receipt, static_cast<std::uint8_t>(answer.plea),
              flag(answer.weights_whole), flag(answer.self_test_passed));
}

}  // namespace

Hash256 seal_of(std::uint64_t receipt, const PublicKey& auditor, const Hash256& root,
                const Hash256& salt) {
  return keyed_blake2b(salt, pack("hearth sealed root v1", receipt, auditor, root));
}

SealEntry sign_seal(std::uint64_t receipt, const Hash256& seal, const PublicKey& cluster,
                    const SecretKey& auditor) {
  SealEntry entry{receipt, auditor.public_key(), seal, {}};
  entry.signature = auditor.sign(kSealPurpose, signed_bytes(entry, cluster));
  return entry;
}

bool check_seal(const SealEntry& seal, const PublicKey& cluster) {
  return verify(seal.auditor, kSealPurpose, signed_bytes(seal, cluster), seal.signature);
}

Answer sign_answer(Answer answer, const PublicKey& cluster, const SecretKey& accused) {
  answer.accused = accused.public_key();
  answer.signature = accused.sign(kAnswerPurpose, signed_bytes(answer, cluster));
  return answer;
}

bool check_answer(const Answer& answer, const PublicKey& cluster) {
  return verify(answer.accused, kAnswerPurpose, signed_bytes(answer, cluster), answer.signature);
}

}  // namespace hearth::ledger
