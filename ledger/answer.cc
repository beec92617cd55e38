#include "ledger/answer.h"

#include <string_view>

#include "base/bytes.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kAnswerPurpose = "hearth answer v1";

Bytes words_of(const Answer& answer, const PublicKey& cluster) {
  Bytes words;
  ByteWriter writer(words);
  writer.append(cluster.bytes());
  writer.write(answer.receipt);
  writer.write(static_cast<std::uint8_t>(answer.plea));
  writer.write(static_cast<std::uint8_t>(answer.weights_whole ? 1 : 0));
  writer.write(static_cast<std::uint8_t>(answer.self_test_passed ? 1 : 0));
  return words;
}

}  // namespace

Answer sign_answer(Answer answer, const PublicKey& cluster, const SecretKey& accused) {
  answer.accused = accused.public_key();
  answer.signature = accused.sign(kAnswerPurpose, words_of(answer, cluster));
  return answer;
}

bool check_answer(const Answer& answer, const PublicKey& cluster) {
  return verify(answer.accused, kAnswerPurpose, words_of(answer, cluster), answer.signature);
}

}  // namespace hearth::ledger
