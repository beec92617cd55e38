// Answer: the answer to one request as it grows: n choices of each prompt, their tokens, hashes and
// times, and the JSON objects about it. It does not use clients or the coordinator. A plain state
// machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hex.h"
#include "base/random.h"
#include "coordinator/http/api/kept_requests.h"
#include "coordinator/http/api/options.h"
#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/generation/kept_request.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/requests.h"
#include "coordinator/http/openai/responses.h"
#include "ledger/receipt.h"

namespace hearth::coordinator::http {

// AnswerIdentity: the names of one answer: its id, its seed, and the name and salt of its receipts.
// Immutable. With an Idempotency-Key id and seed follow from owner, key and body, so that another
// process gives the same answer the same ones. The name of its receipts is drawn for each
// computation and is kept with the request: the same key may be computed again in the same second.
class AnswerIdentity {
 public:
  // `created`: unix seconds. `receipt`: the name that an earlier process gave; nothing: a new one.
  AnswerIdentity(const HttpOptions& options, Random& random, const GenerationRequest& request,
                 const std::optional<Keep>& keep, std::int64_t created,
                 const std::optional<ledger::AnswerName>& receipt = std::nullopt);

  const std::string& id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t created() const { return created_; }

  // Whether its stages make receipts.
  bool has_receipts() const { return receipt_.has_value(); }
  const std::optional<ledger::AnswerName>& receipt() const { return receipt_; }
  // The values with which the stages make the receipts of one choice.
  std::optional<ReceiptOrder> receipt_order(std::uint32_t choice) const;
  // Nothing when receipts are not made, or the ledger has failed since.
  std::optional<AnswerProof> proof(std::uint32_t max_tokens) const;
  // x-hearth-receipt, where there are receipts.
  HeaderFields headers() const;

 private:
  ledger::AnswerName new_receipt(Random& random, bool is_kept) const;
  std::string receipt_text() const { return receipt_ ? to_hex(*receipt_) : ""; }
  Hash256 salt() const;  // known to this server and its client

  const LedgerView* ledger_;
  Hash256 secret_;
  std::int64_t created_;
  std::uint64_t seed_;
  std::string id_;
  std::optional<ledger::AnswerName> receipt_;
};

// A parsed request with the tokens of its prompts.
struct GenerationInput {
  GenerationRequest request;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::string> echoes;  // one text a prompt, with request.echo
  std::optional<Keep> keep = {};    // its clients may reconnect to it
  std::uint32_t model = 0;          // ServedModel::number
  // The time that its chat template was given, in unix seconds; nothing: when its answer begins. It
  // is the answer's `created` and stands in the names of its receipts, so that the prompt can be
  // rendered again.
  std::optional<std::int64_t> created = {};
  std::string prompt_tail = {};  // of a chat: AnswerForm
  Dialect dialect = Dialect::kOpenAi;
  OrderedJson frame = {};  // AnswerStart::frame
  std::string fixed = {};  // AnswerStart::fixed
};

class Answer {
 public:
  // One choice. `settled`: nothing of it is to come.
  struct Part {
    Choice choice;
    std::uint64_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;  // prompt tokens that were cached
    std::uint32_t max_tokens = 0;
    std::vector<RowHash> hashes = {};
    bool hashed = false;  // its hashes are all there
    bool settled = false;
    std::optional<Position> stopped = {};  // by a stop string that this position's token completed
    TimePoint admitted{};
    TimePoint first_token{};
    TimePoint last_token{};
  };

  Answer(const ServedModel& model, GenerationInput input, AnswerIdentity identity);

  const ServedModel& model() const { return model_; }
  const GenerationInput& input() const { return input_; }
  const GenerationRequest& request() const { return input_.request; }
  const AnswerIdentity& identity() const { return identity_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(parts_.size()); }
  const std::vector<Part>& parts() const { return parts_; }
  const Part& part(std::uint32_t choice) const { return parts_[choice]; }

  // The inputs of a choice.
  std::size_t prompt_index(std::uint32_t choice) const { return choice / input_.request.n; }
  const std::vector<TokenId>& prompt(std::uint32_t choice) const;
  std::string echo(std::uint32_t choice) const;
  SamplingParams sampling(std::uint32_t choice) const;
  AnswerForm form() const { return {model_.syntax, input_.prompt_tail, identity_.id()}; }

  // The maximum length of each choice: the request's, otherwise the endpoint's default, within the
  // context. The coordinator may lower it. For a resumed request, the earlier process has fixed it
  // by prompt.
  void set_default_lengths();
  void set_length(std::uint32_t choice, std::uint32_t max_tokens);
  void set_lengths(const std::vector<std::uint32_t>& by_prompt);

  // The events of a choice, in order.
  void restore(std::uint32_t choice, std::vector<SampledToken> tokens, TimePoint now);
  void admit(std::uint32_t choice, TimePoint now) { parts_[choice].admitted = now; }
  void set_cached(std::uint32_t choice, std::uint32_t positions);
  void score(std::uint32_t choice, std::vector<SampledToken> scores);
  void embed(std::uint32_t choice, std::vector<float> values);
  // True when a client may get something new: text, or the end.
  bool push(std::uint32_t choice, const SampledToken& token, TimePoint now);
  void add_drafts(std::uint32_t choice, const DraftCounts& counts);
  // True when the choice was waiting for them.
  bool add_hashes(std::uint32_t choice, std::vector<RowHash> hashes);
  void settle(std::uint32_t choice);

  // A stop string ended it and its hashes are still to come.
  bool waits_for_hashes(const Part& part) const {
    return part.stopped && input_.request.return_hashes && !part.hashed;
  }
  bool settled() const { return settled_ == parts_.size(); }
  bool has_tokens() const;
  std::uint64_t tokens_left(std::uint32_t choice) const;

  // The objects that clients get.
  AnswerHead head() const;
  AnswerStart start() const;
  std::uint64_t cached_tokens() const;  // of the prompts
  Usage usage() const;
  Timings timings() const;
  OrderedJson hearth() const;
  KeptRequest kept_request() const;
  std::size_t prompt_tokens() const { return prompt_tokens_; }
  std::size_t bytes() const;  // approximate bytes of memory, without the prompts
  void drop_prompts();        // they are not needed any more

 private:
  const ServedModel& model_;
  GenerationInput input_;
  AnswerIdentity identity_;
  std::vector<Part> parts_;
  std::size_t prompt_tokens_ = 0;
  std::size_t settled_ = 0;
  DraftCounts drafts_{};  // of all choices
};

}  // namespace hearth::coordinator::http
