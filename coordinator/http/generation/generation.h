// Generation: one running request. It submits the choices of an answer to the coordinator, passes
// their tokens to the answer and to the audience, and cancels running sequences when the request
// ends.
//
// A plain request has one client and ends with it. A request with an Idempotency-Key may have
// several clients, one after the other or at once; each gets what it has not received yet. Without
// a client it continues for a grace period. Its answer is kept for a while (api/kept_requests.h),
// and so are the values with which another process continues it (kept_request.h).
//
// Everything on the socket thread; the coordinator's events come through Api::sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/http/api/api.h"
#include "coordinator/http/generation/answer.h"
#include "coordinator/http/generation/audience.h"
#include "coordinator/http/generation/event_id.h"
#include "coordinator/http/generation/verification.h"
#include "coordinator/proof/credits.h"
#include "coordinator/store/requests.h"

namespace hearth::coordinator::http {

// Turns a request that was made at `created` (unix seconds) into the tokens of its prompts, and its
// schema and tools into a grammar, which is kept for its policy's owner. Slow; any thread.
ApiResult<GenerationInput> tokenise(const ServedModel& served, GenerationRequest request,
                                    std::int64_t created);

// The part of a request that an earlier process has done.
struct Begun {
  std::int64_t created = 0;
  std::optional<ledger::AnswerName> receipt = {};  // as it named its receipts
  std::vector<std::uint32_t> lengths;              // max_tokens, by prompt
  std::vector<std::vector<SampledToken>> answers;  // by choice: tokens in order, from the first
  std::chrono::seconds kept{};                     // how long a whole answer stays
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `seen`: the part of the answer that the client already has, for a request with an
  // Idempotency-Key.
  static void start(std::shared_ptr<Api> api, std::shared_ptr<ResponseWriter> writer,
                    const HttpRequest& http, GenerationInput input,
                    std::optional<EventId> seen = std::nullopt);
  // Continues a request of an earlier process, with no client yet; waits for a pipeline if none
  // serves. False when too many requests are kept.
  static bool resume(std::shared_ptr<Api> api, GenerationInput input, Begun begun);
  Generation(std::shared_ptr<Api> api, GenerationInput input, TimePoint arrived,
             std::int64_t created, const std::optional<ledger::AnswerName>& receipt = std::nullopt);

  // One more client.
  void attach(std::shared_ptr<ResponseWriter> writer, std::optional<EventId> seen);
  // Whether the id can be that of an event of this request.
  bool may_have_sent(const EventId& seen) const;
  // Tokens that the coordinator has yet to generate for it, at most.
  std::uint64_t tokens_to_come() const;
  // Ends the request and deletes what is kept of it, even while clients listen.
  void forget();

 private:
  friend class ChoiceEvents;
  // A choice in the coordinator.
  struct Run {
    SequenceId sequence = {};
    std::uint32_t number = 0;  // number of its submission: events of earlier ones are stale
    bool submitted = false;    // the coordinator has it, and cancel() would end it
    bool admitted = false;     // by this process
    // Until the coordinator holds the credit, or the sequence can no longer start.
    Credits::Hold credit = {};
  };

  void begin();
  // The error when a prompt and its length together exceed the positions.
  std::optional<ApiError> too_long(std::uint64_t positions, const char* where) const;
  // The length of a request that names none: the tokens that half of the account's free credit pays
  // for, so that another request still finds credit. If half pays for no token, all of it.
  void shorten_to_credit();
  // Holds credit for every choice that is not settled, at the price of its whole length. An error
  // when the account cannot pay, or when the ledger cannot be written now.
  std::optional<ApiError> hold_credit();
  void submit(std::vector<std::uint32_t> choices);
  GenerateRequest request_of(std::uint32_t choice) const;
  void on_submitted(const std::vector<std::uint32_t>& choices, const SubmitAnswer& answer);
  void accept(const std::vector<std::uint32_t>& choices, const SubmitAnswer& answer);
  void cancel(Run& run);
  void on_loading(std::uint32_t choice, const LoadProgress& progress);
  void on_admitted(std::uint32_t choice);
  void on_cached(std::uint32_t choice, std::uint32_t positions);
  void on_scores(std::uint32_t choice, std::vector<SampledToken> scores);
  void on_drafts(std::uint32_t choice, const DraftCounts& counts);
  void on_embedding(std::uint32_t choice, std::vector<float> values);
  void on_token(std::uint32_t choice, const SampledToken& token);
  void on_hashes(std::uint32_t choice, std::vector<RowHash> hashes);
  void on_error(std::uint32_t choice, const Error& error);
  void on_audit(std::uint32_t choice, const AuditOutcome& outcome);
  ApiError refusal_of(const SubmitAnswer& answer) const;
  bool retries(const std::vector<std::uint32_t>& choices, const Error& error);

  // All choices are settled, and the coordinator has accepted the request.
  bool whole() const { return answer_.settled() && accepted_; }
  void open();  // begins the streams of all listeners
  void stop_sequence(std::uint32_t choice);
  void settle(std::uint32_t choice);  // after its last event
  OrderedJson closing() const;        // timings and the hearth object

  void leave(Listener& listener);
  void arm_grace();
  bool waits_for_audits();
  void complete();
  void keep_answer(std::chrono::seconds time);
  void fail(const ApiError& error);
  void end();  // cancels what runs, and forgets this generation

  std::shared_ptr<Api> api_;
  const TimePoint arrived_;
  Answer answer_;
  Verification verification_;
  Audience audience_;
  std::vector<Run> runs_;     // by choice
  std::uint64_t visits_ = 0;  // of clients; a grace period ends with the next one
  // An earlier process may have sent its clients more of the answer than this one has.
  bool told_elsewhere_ = false;
  // For a request that an earlier process accepted: until this time a refusal is retried and not
  // sent.
  std::optional<TimePoint> retry_until_;
  bool accepted_ = false;   // by the coordinator, of this or an earlier process
  bool open_ = false;       // streams have begun, so a refusal can no longer have an HTTP status
  bool ended_ = false;      // nothing is computed any more
  bool verifying_ = false;  // the answer is complete and sent, and waits for its audits
};

// Reads the requests that an earlier process stored, and continues those that were running; keeps
// the answers of the others for their remaining time. The rows are untrusted: a program that can
// write to the store's file may have written them. Those that cannot be read are logged and
// removed. Socket thread, once, before the first request.
void resume_requests(const std::shared_ptr<Api>& api, std::vector<RequestRow> rows);
// By choice: its tokens from the first up to the first gap. `prompts`: their lengths, by choice.
std::vector<std::vector<SampledToken>> read_answers(const std::vector<Bytes>& rows,
                                                    const std::vector<std::size_t>& prompts,
                                                    const StepShape& shape);

}  // namespace hearth::coordinator::http
