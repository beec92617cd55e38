// Generation: one running request, n choices of each prompt. Turns what happens to its sequences
// into one answer or one stream for each of its clients, and ends all of them when one fails.
//
// A plain one has one client and ends with it. One with a Keep may have several, one after the
// other or at once: each is told what it has not been told before. Without any it goes on for a
// grace period; its answer is kept for a while (kept_requests.h), and so is what another process
// needs to go on with it.
//
// Everything on the socket thread; the coordinator's events come through Api::sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/http/api/api.h"
#include "coordinator/http/generation/event_id.h"
#include "coordinator/http/generation/kept_request.h"
#include "coordinator/http/generation/listener.h"
#include "coordinator/http/generation/verification.h"
#include "coordinator/http/openai/choice.h"
#include "ledger/receipt.h"

namespace hearth::coordinator::http {

// What the pool has made of a request.
struct GenerationInput {
  GenerationRequest request;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::string> echoes;  // a text a prompt, with request.echo
  std::optional<Keep> keep = {};    // its clients may come back to it
};

// A parsed request as its stages get it. Slow; any thread.
ApiResult<GenerationInput> tokenise(const ServedModel& served, GenerationRequest request);

// What an earlier process has done of a request.
struct Begun {
  std::int64_t created = 0;
  std::vector<std::uint32_t> lengths;              // max_tokens, by prompt
  std::vector<std::vector<SampledToken>> answers;  // by choice: tokens in order, from the first
  std::chrono::seconds kept{};                     // that a whole answer stays
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `seen`: what the client has of the answer already, of one with a Keep.
  static void start(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange,
                    const HttpRequest& http, GenerationInput input,
                    std::optional<EventId> seen = std::nullopt);
  // Without a client as yet. Waits for a pipeline, which the workers may still have to form. False
  // when there is no room for it.
  static bool resume(std::shared_ptr<Api> api, GenerationInput input, Begun begun);
  Generation(std::shared_ptr<Api> api, GenerationInput input, TimePoint arrived,
             std::int64_t created);

  // One more client.
  void attach(std::shared_ptr<Exchange> exchange, std::optional<EventId> seen);
  // Whether an event of this id can have come from it.
  bool may_have_sent(const EventId& seen) const;
  // That the coordinator has yet to compute for it, at most.
  std::uint64_t tokens_to_come() const;
  // Ends it, and what is kept of it, whoever listens.
  void forget();

 private:
  friend class ChoiceEvents;
  struct Running {
    Choice choice;
    std::vector<RowHash> hashes = {};
    SequenceId sequence = {};
    std::uint32_t run = 0;                 // counts submissions; what others say is late
    bool submitted = false;                // the coordinator has it
    bool accepted = false;                 // and has had it before
    bool admitted_here = false;            // by this process
    bool hashed = false;                   // its hashes are all there
    bool settled = false;                  // nothing of it is to come
    std::optional<Position> stopped = {};  // by a stop string that this position's token completed
    TimePoint admitted{};
    TimePoint first_token{};
    TimePoint last_token{};
    std::uint64_t prompt_tokens = 0;
    Credits::Hold paid = {};  // until nothing of it can begin from here any more
  };

  void submit(const SwarmStatus& status);
  std::optional<ApiError> reserve();  // credit for all choices that run; generation_credits.cc
  OrderedJson credits_object() const;
  void submit_choice(std::uint32_t index);
  SamplingParams sampling_of(std::size_t prompt) const;  // of its first choice
  std::uint32_t max_tokens_of(std::size_t prompt, std::uint32_t capacity) const;
  void restore(std::vector<std::vector<SampledToken>> answers);
  void on_submitted(std::uint32_t index, const Result<SequenceId>& result);
  void on_admitted(std::uint32_t index);
  void on_token(std::uint32_t index, const SampledToken& token);
  void on_hashes(std::uint32_t index, std::vector<RowHash> hashes);
  void on_error(std::uint32_t index, const Error& error);
  void on_audit(std::uint32_t index, const AuditOutcome& outcome);
  ApiError error_of(const Error& error) const;
  bool retries(std::uint32_t index, const Error& error);

  // A stop string ended it and its hashes are still to come.
  bool waits_for_hashes(const Running& running) const {
    return running.stopped && input_.request.return_hashes && !running.hashed;
  }
  bool whole() const { return finished_ == running_.size() && accepted_ == running_.size(); }
  void stop_sequence(Running& running);
  void settle(Running& running);  // after its last event
  void observe(Running& running, bool end);

  // generation_clients.cc
  void leave(Listener& listener);
  void arm_grace();
  void keep_answer(std::chrono::seconds time);
  void tell_all();
  void tell(Listener& listener);
  void tell(const Running& running);
  void tell(Listener& listener, const Running& running);
  void complete();
  bool verifies();                  // the answer is whole, and others are computing it again
  void tell_verification();         // to all that stream
  void answer(Listener& listener);  // the whole of it
  void fail(const ApiError& error);
  void end();  // cancels what runs, forgets this generation
  std::vector<std::shared_ptr<Listener>> take_listeners();
  KeptRequest kept_request() const;
  OrderedJson closing_objects() const;  // timings and hearth
  Usage usage() const;
  Timings timings() const;
  AnswerHead head() const;
  std::string receipt_text() const;  // empty: it has none
  std::optional<AnswerProof> proof() const;
  Hash256 answer_salt() const;  // of what has receipts
  HeaderFields headers() const;
  std::optional<ReceiptOrder> receipt_order(std::uint32_t index) const;

  std::shared_ptr<Api> api_;
  GenerationInput input_;
  std::vector<std::shared_ptr<Listener>> listeners_;  // those that have gone, too, for a while
  std::uint64_t seed_ = 0;
  std::string id_;
  std::optional<ledger::AnswerName> receipt_;  // what its receipts are found by
  TimePoint arrived_;
  std::int64_t created_ = 0;
  SwarmStatus status_;                  // at submission
  std::vector<std::uint32_t> lengths_;  // max_tokens, by prompt
  std::vector<Running> running_;
  std::uint32_t accepted_ = 0;  // by the coordinator
  std::uint32_t finished_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  bool resumed_ = false;      // an earlier process began it
  bool restarted_ = false;    // and its clients may have heard more of it than is known here
  TimePoint patience_{};      // of one that was: until then it waits for a pipeline
  std::uint64_t visits_ = 0;  // of clients; a grace period ends with the next one
  bool ended_ = false;        // nothing is computed any more
  Verification verification_;
  bool verifying_ = false;  // whole, and told as far as it goes
};

}  // namespace hearth::coordinator::http
