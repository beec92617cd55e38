#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "cli/home/own_server.h"
#include "cli/run/answer.h"
#include "cli/terminal/interrupt.h"
#include "coordinator/client/api_client.h"
#include "coordinator/client/http_client.h"
#include "coordinator/client/parse_reply.h"
#include "coordinator/client/saved_answer.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

constexpr auto kRetryPause = std::chrono::milliseconds(250);
constexpr auto kFarewell = std::chrono::milliseconds(1000);
constexpr auto kAnswerPatience = std::chrono::seconds(60);  // without a byte from the server
// Attempts without any HTTP response, from the first on; after these, no API listens there.
constexpr int kSilentMost = 3;

class SwarmAnswerer final : public Answerer {
 public:
  Result<Answer> ask(const RunOptions& options, const Question& question,
                     const std::function<void(std::string_view)>& on_text) override {
    options_ = options;
    const bool chat = question.raw_prompt.empty() && !question.messages.empty();
    url_ = options_.api_base + (chat ? "/v1/chat/completions" : "/v1/completions");
    answer_ = {};
    head_ = {};
    answer_.figures.seed = question.seed;
    last_event_.clear();
    done_ = false;
    reached_ = again_ = answered_ = false;
    silent_ = 0;
    times_ = AnswerTimes();
    heard_ = clock_.now();
    headers_ = client::api_headers(options_.api_key);
    if (!options_.no_resume) {
      Hash256 key;
      random_bytes(key.bytes);
      headers_["Idempotency-Key"] = key.hex();
    }
    asked_ = request(question, chat);
    const std::string body = asked_.dump(-1, ' ', false, Json::error_handler_t::replace);
    Status asked = post(body, on_text);
    // The server may be restarting, or a machine in between has cut the connection.
    while (!asked.ok() && comes_back()) {
      std::this_thread::sleep_for(kRetryPause);
      if (interrupted()) break;
      asked = post(body, on_text);
    }
    forget();
    if (interrupted()) {
      answer_.finish_reason = "cancelled";
    } else if (!asked.ok()) {
      return std::move(asked).error();
    }
    return finish();
  }

 private:
  // The answer is complete or given up: the server can stop the request and forget it.
  void forget() {
    if (options_.no_resume || !http_.connected()) return;
    client::HttpClient::Options http;
    http.headers = headers_;
    http.timeout = kFarewell;
    http.after_cancel = true;
    static_cast<void>(http_.erase(options_.api_base + "/v1/requests", http));
  }

  // One connection: the answer, or the part of it that has not arrived yet.
  Status post(const std::string& body, const std::function<void(std::string_view)>& on_text) {
    client::HttpClient::Options http;
    http.headers = headers_;
    if (!last_event_.empty()) http.headers["Last-Event-ID"] = last_event_;
    error_ = ok_status();
    lost_ = false;
    if (options_.timeout_seconds > 0) {
      const double left = options_.timeout_seconds - times_.seconds();
      if (left <= 0) return answer_timed_out(options_);
      http.timeout = std::chrono::milliseconds(static_cast<long>(std::ceil(left * 1000)));
    }
    auto reply =
        http_.post_stream(url_, body, http, [&](std::string_view event, const std::string& id) {
          return on_event(event, id, on_text);
        });
    reached_ = reached_ || http_.connected();
    answered_ = answered_ || http_.answered();
    if (http_.connected() && !answered_) ++silent_;
    if (!error_.ok()) return std::move(error_).error();
    if (!reply.ok()) {
      Error error = std::move(reply).error();
      if (error.code == ErrorCode::kTimeout && options_.timeout_seconds > 0) {
        return answer_timed_out(options_);
      }
      lost_ = error.code == ErrorCode::kUnavailable;
      if (lost_ && silent_ == kSilentMost) return no_server(http_, options_.api_base);
      if (lost_ && !reached_) error.message += "; no server answers there; " + no_server_step();
      return error;
    }
    if (reply->status >= 400) {
      // A refusal is final only on the first connection.
      const bool may_pass = reply->headers["x-should-retry"] != "false";
      lost_ = again_ && may_pass && (reply->status == 503 || reply->status == 429);
      return client::api_error(*reply, url_);
    }
    lost_ = !done_;
    if (lost_) return Error::of(ErrorCode::kUnavailable, "the stream from ", url_, " broke off");
    return ok_status();
  }

  bool comes_back() {
    if (options_.no_resume || interrupted() || !lost_ || !reached_) return false;
    if (silent_ == kSilentMost) return false;
    again_ = true;
    return clock_.now() - heard_ < kAnswerPatience;
  }

  Json request(const Question& question, bool chat) const {
    Json body = {{"model", options_.model},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"temperature", options_.sampling.temperature},
                 {"top_k", options_.sampling.top_k},
                 {"top_p", options_.sampling.top_p},
                 {"min_p", options_.sampling.min_p},
                 {"repeat_penalty", options_.sampling.repetition_penalty},
                 {"presence_penalty", options_.sampling.presence_penalty},
                 {"frequency_penalty", options_.sampling.frequency_penalty},
                 {"seed", static_cast<std::int64_t>(question.seed)},
                 {"ignore_eos", options_.ignore_eos},
                 {"return_token_ids", true},
                 {"return_hashes", !options_.hashes_file.empty()}};
    if (options_.sampling.max_tokens > 0) body["max_tokens"] = options_.sampling.max_tokens;
    if (!options_.stop.empty()) body["stop"] = options_.stop;
    if (!options_.trust.empty()) body["trust"] = options_.trust;
    if (!options_.verify.empty()) body["hearth"]["verify"] = options_.verify;
    if (!options_.min_level.empty()) body["hearth"]["min_level"] = options_.min_level;
    if (options_.share) body["hearth"]["share"] = true;
    if (options_.no_speculation) body["hearth"]["speculation"] = false;
    if (!chat) {
      body["prompt"] = question.raw_prompt;
      return body;
    }
    body["messages"] = Json::array();
    for (const auto& message : question.messages) {
      body["messages"].push_back({{"role", message.role}, {"content", message.content}});
    }
    return body;
  }

  bool on_event(std::string_view event, const std::string& id,
                const std::function<void(std::string_view)>& on_text) {
    heard_ = clock_.now();
    if (event == "[DONE]") {
      done_ = true;
      return true;
    }
    const Json chunk = client::parse_reply(event);
    if (!chunk.is_object()) {
      error_ = Error::invalid("the server sent an event that is not a JSON object");
      return false;
    }
    if (chunk.contains("error")) {
      error_ = Error::of(ErrorCode::kNoCapacity,
                         "the answer was cut off: ", client::error_sentence(chunk["error"]));
      return false;
    }
    try {
      take(chunk, on_text);
    } catch (const Json::exception& bad) {
      error_ = Error::invalid("the server sent an unexpected chunk: ", bad.what());
      return false;
    }
    if (id.size() <= limits::kLastEventIdBytes) last_event_ = id;
    return true;
  }

  void take(const Json& chunk, const std::function<void(std::string_view)>& on_text) {
    for (const Json& choice : chunk.value("choices", Json::array())) {
      std::string text;
      if (choice.contains("delta")) {
        const Json content = choice["delta"].value("content", Json());
        if (content.is_string()) text = content;
      } else {
        text = choice.value("text", "");
      }
      const Json ids = choice.value("token_ids", Json::array());
      for (const Json& id : ids) answer_.token_ids.push_back(id.get<TokenId>());
      if (!text.empty() || !ids.empty()) times_.on_token();
      answer_.text += text;
      if (!text.empty()) on_text(text);
      const Json reason = choice.value("finish_reason", Json());
      if (reason.is_string()) answer_.finish_reason = reason;
    }
    if (chunk.contains("usage") && chunk["usage"].is_object()) {
      answer_.figures.prompt_tokens = chunk["usage"].value("prompt_tokens", 0U);
      answer_.figures.generated_tokens = chunk["usage"].value("completion_tokens", 0U);
      const Json details = chunk["usage"].value("prompt_tokens_details", Json::object());
      if (details.is_object()) answer_.figures.cached_tokens = details.value("cached_tokens", 0U);
    }
    if (chunk.contains("timings") && chunk["timings"].is_object()) take_drafts(chunk["timings"]);
    if (chunk.contains("hearth") && chunk["hearth"].is_object()) {
      head_["hearth"].update(chunk["hearth"]);
      for (const char* name : {"id", "created", "model"}) {
        if (chunk.contains(name)) head_[name] = chunk[name];
      }
      take_hashes(chunk["hearth"].value("hashes", Json::array()));
      answer_.verified = client::read_verified(head_["hearth"]);
      const Json& hearth = head_["hearth"];
      if (hearth.contains("receipt")) answer_.receipt = hearth["receipt"].get<std::string>();
      if (hearth.contains("credits")) {
        answer_.figures.credits = hearth["credits"].at("price").get<std::int64_t>();
      }
    }
  }

  void take_drafts(const Json& timings) {
    auto& [lookup, grammar, model] = answer_.figures.drafts;
    grammar = {timings.value("draft_n_grammar", 0U), timings.value("draft_n_grammar_accepted", 0U)};
    model = {timings.value("draft_n_model", 0U), timings.value("draft_n_model_accepted", 0U)};
    lookup = {timings.value("draft_n", 0U) - grammar.drafted - model.drafted,
              timings.value("draft_n_accepted", 0U) - grammar.accepted - model.accepted};
  }

  void take_hashes(const Json& hashes) {
    for (const Json& hash : hashes) {
      const Json& layers = hash.at("layers");
      answer_.hashes.push_back({hash.at("step"), hash.at("stage"), layers.at(0), layers.at(1),
                                hash.at("in"), hash.at("out")});
    }
  }

  Answer finish() {
    times_.write(answer_.figures);
    if (answer_.figures.generated_tokens == 0) {
      answer_.figures.generated_tokens = static_cast<std::uint32_t>(answer_.token_ids.size());
    }
    if (!answer_.receipt.empty()) {
      answer_.saved = client::write_saved_answer(asked_, head_, answer_.text, answer_.token_ids,
                                                 answer_.finish_reason);
    }
    // The receipts belong to exactly the answer that is saved.
    if (const auto& right = answer_.verified.right) {
      answer_.text = right->text;
      answer_.token_ids = right->token_ids;
      answer_.finish_reason = right->finish_reason;
    }
    return std::move(answer_);
  }

  RunOptions options_;
  std::string url_;
  client::HttpClient::Headers headers_;
  client::HttpClient http_{interrupted};
  SystemClock clock_;
  Json asked_;  // the body of the request
  Json head_;   // the answer's object beside its choice; null before its last event
  Answer answer_;
  // The last event's id; after a new connection the answer continues behind it.
  std::string last_event_;
  Status error_ = ok_status();
  bool done_ = false;
  bool reached_ = false;   // a server, some time
  bool answered_ = false;  // likewise, with HTTP
  int silent_ = 0;         // connections before that
  bool again_ = false;     // this is not the first connection for this answer
  bool lost_ = false;      // the last connection ended without an answer
  AnswerTimes times_;
  TimePoint heard_{};  // of the server
};

}  // namespace

std::unique_ptr<Answerer> swarm_answerer() { return std::make_unique<SwarmAnswerer>(); }

}  // namespace hearth::cli
