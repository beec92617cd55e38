// Generation: one running request, n choices of each prompt. Turns what happens to its sequences
// into one answer or one stream, and ends all of them when the client goes or one of them fails.
// Everything on the socket thread; the coordinator's events come through Api::sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/http/api.h"
#include "coordinator/http/choice.h"

namespace hearth::coordinator::http {

// What the pool has made of a request.
struct GenerationInput {
  GenerationRequest request;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::string> echoes;  // a text a prompt, with request.echo
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  static void start(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange,
                    const HttpRequest& http, GenerationInput input);
  Generation(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange, const HttpRequest& http,
             GenerationInput input);

 private:
  friend class ChoiceEvents;
  struct Running {
    Choice choice;
    std::vector<RowHash> hashes;
    SequenceId sequence;
    bool submitted = false;           // the coordinator has it
    bool hashed = false;              // its hashes are all there
    std::optional<Position> stopped;  // by a stop string that this position's token completed
    TimePoint admitted{};
    TimePoint first_token{};
    TimePoint last_token{};
    std::uint32_t prompt_tokens = 0;
    std::uint32_t max_tokens = 0;
  };

  void submit(const SwarmStatus& status);
  void submit_choice(std::uint32_t index, std::uint32_t max_tokens);
  std::uint32_t max_tokens_of(std::size_t prompt, std::uint32_t capacity) const;
  void on_submitted(std::uint32_t index, const Result<SequenceId>& result);
  void refuse(const Error& error);
  void on_admitted(std::uint32_t index);
  void on_token(std::uint32_t index, const SampledToken& token);
  void on_hashes(std::uint32_t index, std::vector<RowHash> hashes);
  void on_error(const Error& error);

  // A stop string ended it and its hashes are still to come.
  bool waits_for_hashes(const Running& running) const {
    return running.stopped && input_.request.return_hashes && !running.hashed;
  }
  void stop_sequence(Running& running);
  void settle(Running& running);  // after its last event
  void observe(Running& running, bool end);
  void flush(Running& running);
  void complete();
  void fail(const ApiError& error);
  void end();  // cancels what runs, forgets this generation
  void send(const OrderedJson& event);
  OrderedJson closing_objects() const;  // timings and hearth
  Usage usage() const;
  Timings timings() const;
  AnswerHead head() const;

  std::shared_ptr<Api> api_;
  std::shared_ptr<Exchange> exchange_;
  GenerationInput input_;
  std::uint64_t seed_ = 0;
  std::string id_;
  TimePoint arrived_;
  std::int64_t created_ = 0;
  SwarmStatus status_;  // at submission
  std::vector<Running> running_;
  std::uint32_t accepted_ = 0;  // by the coordinator
  std::uint32_t finished_ = 0;
  bool streaming_ = false;  // the stream's head is out
  bool ended_ = false;
};

}  // namespace hearth::coordinator::http
