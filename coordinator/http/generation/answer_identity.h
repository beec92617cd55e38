// AnswerIdentity: the names of one answer: its id, its seed, and the name and salt of its receipts.
// Immutable. With an Idempotency-Key all of it follows from owner, key and body, so that another
// process gives the same answer the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/random.h"
#include "coordinator/http/api/kept_requests.h"
#include "coordinator/http/api/options.h"
#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/openai/requests.h"
#include "coordinator/http/openai/responses.h"
#include "ledger/receipt.h"

namespace hearth::coordinator::http {

class AnswerIdentity {
 public:
  // `created`: unix seconds.
  AnswerIdentity(const HttpOptions& options, Random& random, const GenerationRequest& request,
                 const std::optional<Keep>& keep, std::int64_t created);

  const std::string& id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t created() const { return created_; }

  // Whether its stages make receipts.
  bool has_receipts() const { return receipt_.has_value(); }
  // What the stages need to make those of one choice.
  std::optional<ReceiptOrder> receipt_order(std::uint32_t choice) const;
  // Nothing when receipts are not made, or the ledger has failed since.
  std::optional<AnswerProof> proof(std::uint32_t max_tokens) const;
  // x-hearth-receipt, where there are receipts.
  HeaderFields headers() const;

 private:
  std::string receipt_text() const;
  Hash256 salt() const;  // known to this server and its client

  const LedgerView* ledger_;
  Hash256 secret_;
  std::int64_t created_;
  std::uint64_t seed_;
  std::string id_;
  std::optional<ledger::AnswerName> receipt_;
};

}  // namespace hearth::coordinator::http
