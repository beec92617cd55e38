// One request against a coordinator and a client that the test plays, in one thread: every order of
// events that threads could bring.
#include "coordinator/http/generation/generation.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>

#include "base/hex.h"
#include "coordinator/http/api/router.h"
#include "coordinator/http/routes/prompt.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {
namespace {

struct GenerationTest : ::testing::Test {
  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  std::deque<ThreadGate::Task> tasks;
  std::deque<ThreadGate::Task> pool_tasks;
  std::map<std::size_t, Position> generated;  // tokens of a prompt of three
  std::shared_ptr<PlayedClient> client = std::make_shared<PlayedClient>();
  std::shared_ptr<Api> api = std::make_shared<Api>(
      HttpOptions(), tiny_model().served, port, clock, random,
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
      [this](ThreadGate::Task task) { pool_tasks.push_back(std::move(task)); });

  void pump() {
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  void start(GenerationRequest request, std::size_t prompt_tokens = 3,
             Dialect dialect = Dialect::kOpenAi) {
    GenerationInput input;
    input.dialect = dialect;
    generated.clear();
    input.request = std::move(request);
    input.prompts = {std::vector<TokenId>(prompt_tokens, 70)};
    HttpRequest http;
    http.arrived = clock.now();
    Generation::start(api, client, http, std::move(input));
    pump();
  }
  static GenerationRequest completion(std::uint32_t n = 1, bool stream = false) {
    GenerationRequest request;
    request.chat = false;
    request.n = n;
    request.stream = stream;
    return request;
  }
  void accept(std::size_t i) {
    port.submitted[i].done(SequenceId(i + 1));
    port.submitted[i].events->on_admitted();
    pump();
  }
  void token(std::size_t i, TokenId token, FinishReason finish = FinishReason::kNone) {
    SampledToken out;
    out.sequence = SequenceId(i + 1);
    out.position = 3 + generated[i]++;
    out.token = token;
    out.finish = finish;
    port.submitted[i].events->on_token(out);
    pump();
  }
  static std::string text_of(const std::vector<TokenId>& tokens) {
    return decode_tokens(tiny_model().served, tokens, false);
  }
  static std::string header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }
  Json error() const { return Json::parse(client->response->body)["error"]; }
};

TEST_F(GenerationTest, DefaultLengthsSeedsAndEndTokens) {
  GenerationRequest request = completion(3);
  request.seed = UINT64_MAX;
  start(request);
  ASSERT_EQ(port.submitted.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const SamplingParams& sampling = port.submitted[i].request.sampling;
    EXPECT_EQ(sampling.max_tokens, kCompletionMaxTokens);
    EXPECT_EQ(sampling.seed, UINT64_MAX + i) << "counts up and wraps";
    EXPECT_EQ(sampling.stop_tokens, api->model.tokenizer->end_tokens());
  }
  GenerationRequest chat;
  chat.ignore_eos = true;
  client = std::make_shared<PlayedClient>();
  start(chat, 500);
  ASSERT_EQ(port.submitted.size(), 4U);
  EXPECT_EQ(port.submitted[3].request.sampling.max_tokens, 12U) << "what the context leaves";
  EXPECT_TRUE(port.submitted[3].request.sampling.stop_tokens.empty());
}

// The names of the events of a stream.
std::vector<std::string> event_names(const std::string& text) {
  std::vector<std::string> out;
  constexpr std::string_view kField = "event: ";
  for (std::size_t at = text.find(kField); at != std::string::npos; at = text.find(kField, at)) {
    at += kField.size();
    out.push_back(text.substr(at, text.find('\n', at) - at));
  }
  return out;
}

GenerationRequest embedding_of(std::uint32_t values) {
  GenerationRequest request;
  request.chat = false;
  request.only_prompt = true;
  request.max_tokens = 1;
  request.embedding = EmbeddingForm{.values = values};
  return request;
}

TEST_F(GenerationTest, EmbeddingsAreTheAnswer) {
  start(embedding_of(2));
  ASSERT_EQ(port.submitted.size(), 1U);
  EXPECT_EQ(port.submitted[0].request.embedding, 2U);
  EXPECT_EQ(port.submitted[0].request.sampling.max_tokens, 1U);
  accept(0);
  port.submitted[0].events->on_embedding({0.6F, 0.8F});
  pump();
  EXPECT_FALSE(client->response) << "the sequence has not ended";
  token(0, 70, FinishReason::kLength);
  ASSERT_TRUE(client->response);
  const Json body = Json::parse(client->response->body);
  EXPECT_EQ(body["data"][0]["embedding"], Json::parse("[0.6,0.8]"));
  EXPECT_EQ(body["usage"]["total_tokens"], 3);
}

TEST_F(GenerationTest, AnInputThatIsTooLargeIsNamed) {
  start(embedding_of(2), 512);
  ASSERT_TRUE(client->response);
  EXPECT_EQ(client->response->status, 400U);
  EXPECT_EQ(error()["param"], "input");
  EXPECT_EQ(error()["code"], "context_length_exceeded");
  EXPECT_NE(error()["message"].get<std::string>().find("512 tokens is too large: at most 511"),
            std::string::npos);
}

TEST_F(GenerationTest, AStreamSpeaksItsDialect) {
  GenerationRequest request;
  request.stream = true;
  start(request, 3, Dialect::kAnthropic);
  accept(0);
  token(0, 70);
  token(0, 71, FinishReason::kLength);
  EXPECT_EQ(event_names(client->text),
            (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                      "content_block_delta", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_TRUE(client->finished && !client->broken);
  EXPECT_EQ(client->text.find("[DONE]"), std::string::npos);
}

TEST_F(GenerationTest, LinesOfOllamaAreNoEvents) {
  GenerationRequest request;
  request.stream = true;
  start(request, 3, Dialect::kOllama);
  accept(0);
  token(0, 70);
  token(0, 71, FinishReason::kLength);
  EXPECT_TRUE(client->form.lines);
  std::string said;
  std::string_view rest = client->text;
  Json last;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    ASSERT_NE(end, std::string_view::npos);
    last = Json::parse(rest.substr(0, end));
    said += last["message"]["content"].get<std::string>();
    rest.remove_prefix(end + 1);
  }
  EXPECT_EQ(said, text_of({70, 71}));
  EXPECT_EQ(last["done_reason"], "length");
  EXPECT_EQ(last["eval_count"], 2);
}

TEST_F(GenerationTest, ErrorsHaveTheShapeOfTheDialect) {
  GenerationRequest request;
  start(request, 3, Dialect::kAnthropic);
  port.submitted[0].done(Error{ErrorCode::kUnavailable, "no pipeline"});
  pump();
  ASSERT_TRUE(client->response);
  EXPECT_EQ(client->response->status, 529U);
  EXPECT_EQ(error()["type"], "overloaded_error");
  EXPECT_NE(header(*client->response, "Retry-After"), "");

  request.stream = true;
  client = std::make_shared<PlayedClient>();
  start(request, 3, Dialect::kResponses);
  accept(1);
  token(1, 70);
  port.submitted[1].events->on_error({ErrorCode::kNumeric, "it left its range"});
  pump();
  EXPECT_TRUE(client->broken);
  EXPECT_EQ(event_names(client->text).back(), "response.failed");
}

// Which no client has asked for.
TEST_F(GenerationTest, ADefaultLengthIsWhatTheContextLeaves) {
  start(completion(), api->model.spec.context - 2);
  ASSERT_EQ(port.submitted.size(), 1U);
  EXPECT_EQ(port.submitted[0].request.sampling.max_tokens, 2U);
  EXPECT_TRUE(port.submitted[0].request.may_shorten) << "to the KV memory, too";
  GenerationRequest whole = completion();
  whole.fills_context = true;
  client = std::make_shared<PlayedClient>();
  start(whole, 100);
  ASSERT_EQ(port.submitted.size(), 2U);
  EXPECT_EQ(port.submitted[1].request.sampling.max_tokens, api->model.spec.context - 100);
  GenerationRequest named = completion();
  named.max_tokens = 16;
  client = std::make_shared<PlayedClient>();
  start(named, api->model.spec.context - 2);
  EXPECT_EQ(client->response->status, 400U);
}

// All other clients wait while the socket thread writes JSON.
TEST_F(GenerationTest, ALongAnswerIsMadeOnThePool) {
  GenerationRequest request = completion();
  request.sampling.logprobs = true;
  request.max_tokens = 200;
  start(request);
  accept(0);
  for (std::uint32_t i = 0; i < 200; ++i) {
    SampledToken sampled;
    sampled.sequence = SequenceId(1);
    sampled.position = 3 + i;
    sampled.token = 70;
    sampled.top = std::vector<TokenLogprob>(limits::kTopLogprobs * 8);
    if (i == 199) sampled.finish = FinishReason::kLength;
    port.submitted[0].events->on_token(sampled);
    pump();
  }
  EXPECT_FALSE(client->response) << "not on this thread";
  ASSERT_EQ(pool_tasks.size(), 1U);
  pool_tasks.front()();
  EXPECT_FALSE(client->response) << "not from the pool";
  pump();
  ASSERT_TRUE(client->response);
  const Json answer = Json::parse(client->response->body);
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 200U);
}

// Of all clients together, or of one key.
TEST_F(GenerationTest, TooManyKeptRequestsNameTheLimitThatIsReached) {
  for (const auto& [owner, limit] :
       {std::pair{"", limits::kKeptRequests}, std::pair{"key", limits::kKeptRequestsOwner}}) {
    KeptRequests kept(Hash256{}, "fp", nullptr);
    for (std::size_t i = 0; i < limit; ++i) {
      EXPECT_EQ(kept.add(kept.keep(owner, std::to_string(i), "/", ""), nullptr), std::nullopt);
    }
    EXPECT_EQ(kept.add(kept.keep(owner, "one more", "/", ""), nullptr), limit);
  }
}

TEST_F(GenerationTest, AnAnswerNamesItsReceipts) {
  start(completion());
  EXPECT_FALSE(port.submitted[0].request.receipt) << "where none are kept";
  struct Ledger final : LedgerView {
    std::string fault() const override { return said; }
    std::string said;
  } ledger;
  api->options.ledger = &ledger;
  client = std::make_shared<PlayedClient>();
  start(completion(2));
  ASSERT_EQ(port.submitted.size(), 3U);
  for (const std::size_t i : {1, 2}) {
    accept(i);
    token(i, 70, FinishReason::kStop);
  }
  ASSERT_TRUE(client->response);
  const std::string name = Json::parse(client->response->body)["hearth"]["receipt"];
  EXPECT_EQ(client->response->headers, (HeaderFields{{"x-hearth-receipt", name}}));
  const ReceiptOrder one = *port.submitted[1].request.receipt;
  const ReceiptOrder two = *port.submitted[2].request.receipt;
  EXPECT_EQ(to_hex(one.request), name + "0000");
  EXPECT_EQ(to_hex(two.request), name + "0001");
  EXPECT_NE(one.salt, two.salt);
  const Json hearth = Json::parse(client->response->body)["hearth"];
  Hash256 salt;
  const Bytes digits = from_hex(hearth["salt"].get<std::string>()).value();
  std::copy(digits.begin(), digits.end(), salt.bytes.begin());
  EXPECT_EQ(one.salt, ledger::choice_salt(salt, one.request));
  EXPECT_EQ(two.salt, ledger::choice_salt(salt, two.request));
  EXPECT_EQ(hearth["max_tokens"], kCompletionMaxTokens);
  client = std::make_shared<PlayedClient>();
  start(completion(1, true));
  accept(3);
  token(3, 70, FinishReason::kStop);
  const std::string streamed = client->events().back()["hearth"]["receipt"];
  EXPECT_NE(streamed, name);
  EXPECT_EQ(client->headers, (HeaderFields{{"x-hearth-receipt", streamed}}));
  // What will not be in the log is not named: not by an answer that had begun, and by no other.
  client = std::make_shared<PlayedClient>();
  start(completion());
  accept(4);
  ledger.said = "no space left on the disk";
  token(4, 70, FinishReason::kStop);
  EXPECT_FALSE(Json::parse(client->response->body)["hearth"].contains("receipt"));
  client = std::make_shared<PlayedClient>();
  start(completion());
  EXPECT_FALSE(port.submitted[5].request.receipt);
  accept(5);
  token(5, 70, FinishReason::kStop);
  EXPECT_EQ(client->response->headers, HeaderFields());
  EXPECT_FALSE(Json::parse(client->response->body)["hearth"].contains("receipt"));
}

// In one second of the clock: the same key, body and time make another computation of it.
TEST_F(GenerationTest, WhatIsComputedAgainUnderItsKeyHasReceiptsOfItsOwn) {
  struct Ledger final : LedgerView {
    std::string fault() const override { return ""; }
    std::optional<std::int64_t> time() const override { return 1'800'000'000; }
  } ledger;
  api->options.ledger = &ledger;
  const Keep keep = api->kept.keep("owner", "key", "/v1/completions", "body");
  const auto begin = [&] {
    client = std::make_shared<PlayedClient>();
    GenerationInput input;
    input.request = completion();
    input.prompts = {{70, 70, 70}};
    input.keep = keep;
    HttpRequest http;
    http.arrived = clock.now();
    Generation::start(api, client, http, std::move(input));
    pump();
    return *port.submitted.back().request.receipt;
  };
  const ReceiptOrder first = begin();
  accept(0);
  api->kept.find(keep.name)->generation->forget();
  const ReceiptOrder second = begin();
  EXPECT_NE(second.request, first.request);
  ledger::AnswerName name{};
  std::copy_n(second.request.begin(), name.size(), name.begin());
  EXPECT_EQ(ledger::asked_at(name), 1'800'000'000) << "by the time of the log";
  EXPECT_NE(second.salt, first.salt);
  EXPECT_EQ(port.submitted[0].request.sampling.seed, port.submitted[1].request.sampling.seed);
}

TEST_F(GenerationTest, AnotherProcessNamesTheReceiptsAsTheFirstOne) {
  struct Ledger final : LedgerView {
    std::string fault() const override { return ""; }
  } ledger;
  api->options.ledger = &ledger;
  GenerationInput input;
  input.request = completion();
  input.prompts = {{70, 70, 70}};
  input.keep = api->kept.keep("owner", "key", "/v1/completions", "body");
  Begun begun;
  begun.created = clock.unix_seconds() - 5;
  begun.receipt = ledger::answer_name(begun.created, Bytes(10, std::byte{7}));
  begun.lengths = {4};
  begun.answers.resize(1);
  ASSERT_TRUE(Generation::resume(api, std::move(input), begun));
  pump();
  ASSERT_EQ(port.submitted.size(), 1U);
  EXPECT_EQ(port.submitted[0].request.receipt->request, ledger::request_of(*begun.receipt, 0));
}

TEST_F(GenerationTest, WhatDoesNotFitIsRefusedBeforeAnySubmission) {
  GenerationRequest request = completion();
  request.max_tokens = 510;
  start(request);
  EXPECT_TRUE(port.submitted.empty());
  EXPECT_EQ(error()["code"], "context_length_exceeded");
  EXPECT_EQ(error()["param"], "prompt");
  PipelineStatus small;
  small.state = "serving";
  small.kv_pages = 2;
  small.kv_page_tokens = 8;
  PipelineStatus forming = small;
  forming.state = "forming";
  forming.kv_pages = 100;
  port.swarm.pipelines = {small, forming};
  for (const std::uint32_t tokens : {13U, 14U}) {
    client = std::make_shared<PlayedClient>();
    request.max_tokens = tokens;
    start(request);
    EXPECT_EQ(client->response.has_value(), tokens == 14) << "16 positions serve";
  }
  EXPECT_NE(error()["message"].get<std::string>().find("KV memory"), std::string::npos);
  EXPECT_TRUE(port.cancelled.empty());
}

TEST_F(GenerationTest, AStreamOfTwoChoicesClosesOnce) {
  GenerationRequest request = completion(2, true);
  request.chat = true;
  request.include_usage = true;
  start(request);
  accept(0);
  token(0, 70);
  EXPECT_FALSE(client->streaming) << "not before all are accepted";
  accept(1);
  token(1, 71);
  token(1, 2, FinishReason::kStop);
  token(0, 72, FinishReason::kLength);
  ASSERT_TRUE(client->finished && client->done());
  EXPECT_FALSE(client->broken);
  std::map<int, std::string> reasons;
  std::map<int, int> roles;
  std::size_t closings = 0;
  const auto events = client->events();
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json& choice = events[i]["choices"][0];
    const int index = choice["index"];
    EXPECT_FALSE(reasons.contains(index)) << "nothing follows the end of a choice";
    roles[index] += choice["delta"].contains("role") ? 1 : 0;
    if (choice["finish_reason"].is_string()) reasons[index] = choice["finish_reason"];
    closings += events[i].contains("timings") ? 1 : 0;
    EXPECT_EQ(events[i].contains("timings"), i + 2 == events.size());
  }
  EXPECT_EQ(reasons, (std::map<int, std::string>{{0, "length"}, {1, "stop"}}));
  EXPECT_EQ(roles, (std::map<int, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(closings, 1U);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 4);
  EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 3);
  EXPECT_TRUE(port.cancelled.empty());
  EXPECT_TRUE(api->generations.empty());
}

TEST_F(GenerationTest, AClientThatGoesCancelsWhatRunsAndWhatComes) {
  start(completion(3));
  accept(0);
  accept(1);
  token(0, 70, FinishReason::kLength);
  std::exchange(client->leave, nullptr)();
  EXPECT_TRUE(port.cancelled.empty()) << "the submission is not answered yet";
  accept(2);
  EXPECT_EQ(port.cancelled, (std::vector<std::uint64_t>{2, 3})) << "the first has ended by itself";
  token(1, 70);
  port.submitted[1].events->on_error({ErrorCode::kUnavailable, "late"});
  pump();
  EXPECT_FALSE(client->response.has_value());
  EXPECT_TRUE(api->generations.empty());
}

TEST_F(GenerationTest, AClientThatGoesAtOnceCancelsWhatRuns) {
  start(completion(2, true));
  accept(0);
  accept(1);
  token(0, 70, FinishReason::kLength);
  token(1, 70);
  std::exchange(client->leave, nullptr)();
  EXPECT_EQ(port.cancelled, std::vector<std::uint64_t>{2}) << "the first has ended by itself";
  EXPECT_TRUE(api->generations.empty());
}

TEST_F(GenerationTest, OnlyAWholeAnswerIsInTheBackground) {
  start(completion());
  EXPECT_TRUE(port.submitted[0].request.background);
  client = std::make_shared<PlayedClient>();
  start(completion(1, true));
  EXPECT_FALSE(port.submitted[1].request.background) << "a user watches a stream come";
}

TEST_F(GenerationTest, ARefusalNamesTheWaitForAllThatIsAhead) {
  port.swarm.tokens_per_second = 0.5;
  GenerationRequest first = completion(1, true);
  first.max_tokens = 100;
  start(first);
  accept(0);
  for (int i = 0; i < 10; ++i) token(0, 70);
  client = std::make_shared<PlayedClient>();
  start(completion(1));
  port.submitted[1].done(Error{ErrorCode::kNoCapacity, "the queue is full"});
  pump();
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 429U);
  EXPECT_EQ(header(*client->response, "Retry-After"), "180");
  const std::string message = error()["message"];
  EXPECT_NE(message.find("room in about 3 minutes"), std::string::npos) << message;
  // A burst into an idle swarm, before its first token is counted.
  port.swarm.tokens_per_second = 0;
  port.swarm.waiting = 40;
  client = std::make_shared<PlayedClient>();
  start(completion(1));
  port.submitted[2].done(Error{ErrorCode::kNoCapacity, "the queue is full"});
  pump();
  EXPECT_EQ(header(*client->response, "Retry-After"), "1") << "of 90 tokens";
}

TEST_F(GenerationTest, ARefusedChoiceEndsTheRequest) {
  port.swarm.waiting = 5;
  start(completion(3));
  accept(0);
  port.submitted[1].done(Error{ErrorCode::kNoCapacity, "the queue is full"});
  pump();
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 429U);
  EXPECT_TRUE(port.cancelled.empty()) << "the coordinator takes all choices or none";
  accept(2);
  EXPECT_TRUE(port.cancelled.empty());
}

TEST_F(GenerationTest, ErrorsSayWhetherWorkWasDone) {
  const auto has_final = [this] {
    for (const auto& [name, value] : client->response->headers) {
      if (name == "x-should-retry") return value == "false";
    }
    return false;
  };
  for (const bool produced : {false, true}) {
    client = std::make_shared<PlayedClient>();
    port.submitted.clear();
    start(completion());
    accept(0);
    if (produced) token(0, 70);
    port.submitted[0].events->on_error({ErrorCode::kUnavailable, "worker attic was lost"});
    pump();
    ASSERT_TRUE(client->response.has_value());
    EXPECT_EQ(client->response->status, 503U);
    EXPECT_EQ(has_final(), produced);
    EXPECT_EQ(error()["message"], "worker attic was lost");
  }
}

// So that a client's library comes back by itself.
TEST_F(GenerationTest, AStreamThatWaitsForAPipelineIsRefusedWithAStatus) {
  port.serves = false;
  start(completion(1, true));
  port.submitted[0].done(SequenceId(1));
  pump();
  EXPECT_FALSE(client->streaming);
  port.submitted[0].events->on_error({ErrorCode::kUnavailable, "no pipeline came back in time"});
  pump();
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 503U);

  client = std::make_shared<PlayedClient>();
  port.submitted.clear();
  start(completion(1, true));
  port.submitted[0].done(SequenceId(2));
  pump();
  EXPECT_FALSE(client->streaming);
  port.submitted[0].events->on_admitted();
  pump();
  EXPECT_TRUE(client->streaming) << "as soon as it runs";
}

TEST_F(GenerationTest, AnErrorInAStreamIsItsLastEvent) {
  start(completion(2, true));
  accept(0);
  accept(1);
  token(0, 70);
  port.submitted[1].events->on_error({ErrorCode::kNumeric, "left the range"});
  token(0, 71);
  pump();
  ASSERT_TRUE(client->finished);
  EXPECT_TRUE(client->broken);
  EXPECT_FALSE(client->done());
  EXPECT_EQ(client->events().back()["error"]["code"], "numeric_range");
  EXPECT_EQ(port.cancelled, (std::vector<std::uint64_t>{1, 2}));
}

// The stop string ends the sequence in the coordinator, too; also when the answer to the submission
// comes after the tokens.
TEST_F(GenerationTest, AStopStringCancelsTheSequence) {
  const std::string stop = api->model.tokenizer->token_bytes(70, false);
  for (const bool late : {false, true}) {
    client = std::make_shared<PlayedClient>();
    port.submitted.clear();
    port.cancelled.clear();
    GenerationRequest request = completion();
    request.stop = {stop};
    start(request);
    if (!late) accept(0);
    token(0, 70);
    if (late) accept(0);
    EXPECT_EQ(port.cancelled, std::vector<std::uint64_t>{1}) << late;
    ASSERT_TRUE(client->response.has_value()) << late;
    const Json choice = Json::parse(client->response->body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["text"], "");
    token(0, 71);
    EXPECT_EQ(port.cancelled.size(), 1U);
  }
}

// Hashes of the positions that were computed belong to the answer, in whatever order they come.
TEST_F(GenerationTest, AStoppedChoiceWaitsForItsHashes) {
  const std::string stop = api->model.tokenizer->token_bytes(70, false);
  for (const bool late : {false, true}) {
    for (const bool stream : {false, true}) {
      client = std::make_shared<PlayedClient>();
      port = {};
      GenerationRequest request = completion(1, stream);
      request.stop = {stop};
      request.return_hashes = true;
      start(request);
      if (!late) accept(0);
      token(0, 71);
      token(0, 70);
      if (late) accept(0);
      EXPECT_EQ(port.stopped, (std::vector<std::pair<std::uint64_t, Position>>{{1, 4}}));
      EXPECT_FALSE(client->response || client->finished);
      token(0, 72);
      std::vector<RowHash> hashes(6);  // two more than the text needs
      for (Position i = 0; i < 6; ++i) hashes[i].position = i;
      port.submitted[0].events->on_hashes(hashes);
      pump();
      const Json answer = stream ? client->events().back() : Json::parse(client->response->body);
      ASSERT_EQ(answer["hearth"]["hashes"].size(), 4U) << answer.dump();
      EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
      EXPECT_EQ(stream, client->done());
      EXPECT_TRUE(port.cancelled.empty());
    }
  }
}

TEST_F(GenerationTest, AClosedServerCancelsWhatWasAccepted) {
  start(completion());
  api->sockets.close();
  port.submitted[0].done(SequenceId(9));
  EXPECT_EQ(port.cancelled, std::vector<std::uint64_t>{9});
}

TEST_F(GenerationTest, UnreadinessSaysWhatIsMissing) {
  port.swarm.missing = "no pipeline serves: worker attic is gone";
  handle_ready({api, HttpRequest(), client});
  pump();
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 503U);
  EXPECT_EQ(error()["message"], "no pipeline serves: worker attic is gone");
}

TEST_F(GenerationTest, ASilentCoordinatorIsAnsweredForOnce) {
  ThreadGate::Task deadline;
  api->later = [&](Duration time, ThreadGate::Task task) {
    EXPECT_EQ(time, std::chrono::seconds(limits::kHttpSecondsStatus));
    deadline = std::move(task);
  };
  for (const auto handle : {handle_ready, handle_metrics, handle_state}) {
    for (const bool silent : {true, false}) {
      client = std::make_shared<PlayedClient>();
      port.swarm.ready = true;
      handle({api, HttpRequest(), client});
      if (silent) deadline();
      pump();  // the coordinator's answer, late or not
      deadline();
      ASSERT_TRUE(client->response.has_value());
      EXPECT_EQ(client->response->status, silent ? 503U : 200U);
      if (silent) {
        EXPECT_EQ(error()["code"], "coordinator_silent");
      }
    }
  }
}

}  // namespace
}  // namespace hearth::coordinator::http
