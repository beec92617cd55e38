#include "coordinator/http/generation/answer_identity.h"

#include <spdlog/fmt/fmt.h>

#include "base/check.h"
#include "base/hex.h"
#include "base/limits.h"
#include "ledger/salt.h"

namespace hearth::coordinator::http {

AnswerIdentity::AnswerIdentity(const HttpOptions& options, Random& random,
                               const GenerationRequest& request, const std::optional<Keep>& keep,
                               std::int64_t created)
    : ledger_(options.ledger), secret_(options.secret), created_(created) {
  // A seed of 53 bits comes back unchanged through every JSON reader.
  constexpr int kJsonExactShift = 64 - 53;
  seed_ = keep ? keep->seed : random.next() >> kJsonExactShift;
  if (request.seed) seed_ = *request.seed;
  id_ = fmt::format("{}cmpl-{:016x}", request.chat ? "chat" : "",
                    keep ? keep->answer : random.next());
  if (ledger_ != nullptr && ledger_->fault().empty()) {
    const Hash256 own = keyed_blake2b(secret_, as_bytes("receipt of " + id_));
    receipt_ = ledger::answer_name(created_, own.bytes);
  }
}

std::string AnswerIdentity::receipt_text() const { return receipt_ ? to_hex(*receipt_) : ""; }

Hash256 AnswerIdentity::salt() const {
  return keyed_blake2b(secret_, as_bytes("salt of receipt " + receipt_text()));
}

std::optional<ReceiptOrder> AnswerIdentity::receipt_order(std::uint32_t choice) const {
  if (!receipt_) return std::nullopt;
  static_assert(limits::kHttpSequences <= 256, "the number of a choice is one byte of its name");
  INVARIANT(choice < limits::kHttpSequences, "a request has at most kHttpSequences choices");
  const ledger::RequestId request =
      ledger::request_of(*receipt_, static_cast<std::uint16_t>(choice));
  return ReceiptOrder{request, ledger::choice_salt(salt(), request)};
}

std::optional<AnswerProof> AnswerIdentity::proof(std::uint32_t max_tokens) const {
  if (!receipt_ || !ledger_->fault().empty()) return std::nullopt;
  return AnswerProof{receipt_text(), salt().hex(), max_tokens};
}

HeaderFields AnswerIdentity::headers() const {
  if (!receipt_) return {};
  return {{"x-hearth-receipt", receipt_text()}};
}

}  // namespace hearth::coordinator::http
