// Requests that outlive their clients and their process, against a coordinator and clients that the
// test plays; and rows of a store that somebody else has written into.
#include <gtest/gtest.h>

#include <deque>

#include "coordinator/http/api/router.h"
#include "coordinator/http/generation/generation.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/coordinator/store/store_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {
namespace {

// One server process: its Api, its coordinator, its timers.
struct Process {
  explicit Process(std::shared_ptr<RequestStore> requests) {
    HttpOptions options;
    options.requests = std::move(requests);
    api = std::make_shared<Api>(
        options, tiny_model().served, port, clock, random,
        [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
        [](ThreadGate::Task task) { task(); });
    api->later = [this](Duration time, ThreadGate::Task task) {
      timers.push_back({clock.now() + time, std::move(task)});
    };
  }
  ~Process() { crash(); }
  // No client hears of it, and nothing is tidied up; what was written is there.
  void crash() {
    if (!api) return;
    tasks.clear();
    timers.clear();
    api->generations.clear();
    api->kept.clear();
    port.submitted.clear();
    api.reset();
  }
  void resume() {
    auto loaded = api->options.requests->load();
    ASSERT_TRUE(loaded.ok());
    resume_requests(api, std::move(loaded->rows));
    pump();
  }

  void pump() {
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  void pass(Duration time) {
    clock.advance(time);
    for (auto& timer : std::exchange(timers, {})) {
      if (timer.first <= clock.now()) {
        timer.second();
      } else {
        timers.push_back(std::move(timer));
      }
    }
    pump();
  }
  std::shared_ptr<PlayedClient> ask(const Json& body, const std::string& key,
                                    const std::string& seen = "", const std::string& owner = "") {
    auto client = std::make_shared<PlayedClient>();
    HttpRequest http;
    http.path = "/v1/completions";
    http.body = body.dump();
    http.arrived = clock.now();
    http.policy.owner = owner;
    if (!key.empty()) http.idempotency_key = key;
    if (!seen.empty()) http.last_event_id = seen;
    handle_completion({api, std::move(http), client});
    pump();
    return client;
  }
  void accept(std::size_t i) {
    port.submitted[i].done(SequenceId(i + 1));
    port.submitted[i].events->on_admitted();
    pump();
  }
  void token(std::size_t i, TokenId id, FinishReason finish = FinishReason::kNone) {
    const auto& request = port.submitted[i].request;
    SampledToken out;
    out.position = static_cast<Position>(request.prompt.size() + request.answer.size() + told[i]++);
    out.token = id;
    out.finish = finish;
    port.submitted[i].events->on_token(out);
    pump();
  }

  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  std::deque<ThreadGate::Task> tasks;
  std::vector<std::pair<TimePoint, ThreadGate::Task>> timers;
  std::map<std::size_t, std::size_t> told;
  std::shared_ptr<Api> api;
};

struct ResumeTest : ::testing::Test {
  StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();
  std::shared_ptr<RequestStore> requests = *open_request_store(folder.path());
  const Json stream = {{"model", "tiny"},
                       {"prompt", "hello"},
                       {"max_tokens", 6},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}}}};

  static std::string code(const PlayedClient& client) {
    return client.response ? Json::parse(client.response->body)["error"].value("code", "") : "";
  }
  // A process that has told one token, and is no more.
  void one_told_and_gone() const {
    Process first(requests);
    first.ask(stream, "key");
    first.accept(0);
    first.token(0, 70);
  }
  // The answer that nothing disturbs.
  static std::string undisturbed(const Json& body) {
    Process process(nullptr);
    const auto client = process.ask(body, "");
    process.accept(0);
    for (TokenId id = 70; id < 76; ++id) {
      process.token(0, id, id == 75 ? FinishReason::kLength : FinishReason::kNone);
    }
    return client->content();
  }
};

using namespace std::chrono_literals;

TEST_F(ResumeTest, AfterACrashAtEveryTokenTheStreamGoesOnBehindWhatWasSeen) {
  const std::string whole = undisturbed(stream);
  for (TokenId crash = 70; crash <= 75; ++crash) {
    ASSERT_TRUE(requests->clear().ok());
    std::string before;
    std::string seen;
    std::uint64_t seed = 0;
    {
      Process first(requests);
      const auto client = first.ask(stream, "key");
      first.accept(0);
      for (TokenId id = 70; id < crash; ++id) first.token(0, id);
      before = client->content();
      seen = client->last_id;
      seed = first.port.submitted[0].request.sampling.seed;
    }
    Process second(requests);
    second.resume();
    ASSERT_EQ(second.port.submitted.size(), 1U) << crash;
    const GenerateRequest& request = second.port.submitted[0].request;
    EXPECT_EQ(request.sampling.seed, seed);
    EXPECT_EQ(request.sampling.max_tokens, 6U);
    EXPECT_EQ(request.answer.size(), static_cast<std::size_t>(crash - 70)) << "nothing again";
    const auto client = second.ask(stream, "key", seen);
    EXPECT_EQ(second.port.submitted.size(), 1U) << "it is the one that goes on";
    second.accept(0);
    for (TokenId id = crash; id <= 75; ++id) {
      second.token(0, id, id == 75 ? FinishReason::kLength : FinishReason::kNone);
    }
    EXPECT_TRUE(client->done());
    EXPECT_EQ(before + client->content(), whole) << crash;
    EXPECT_EQ(client->events().back()["usage"]["completion_tokens"], 6);
  }
}

TEST_F(ResumeTest, WhatItsOwnerSharesIsSharedByTheNextProcessToo) {
  for (const bool share : {true, false}) {
    ASSERT_TRUE(requests->clear().ok());
    Json body = stream;
    body["hearth"] = {{"share", share}};
    {
      Process first(requests);
      first.ask(body, "key");
      ASSERT_EQ(first.port.submitted.size(), 1U);
      EXPECT_EQ(first.port.submitted[0].request.policy.share, share);
      first.accept(0);  // which is when it is kept
    }
    Process second(requests);
    second.resume();
    ASSERT_EQ(second.port.submitted.size(), 1U);
    EXPECT_EQ(second.port.submitted[0].request.policy.share, share);
  }
}

TEST_F(ResumeTest, WhatHadNoSpeculationHasNoneInTheNextProcess) {
  for (const bool speculation : {true, false}) {
    ASSERT_TRUE(requests->clear().ok());
    Json body = stream;
    body["hearth"] = {{"speculation", speculation}};
    {
      Process first(requests);
      first.ask(body, "key");
      ASSERT_EQ(first.port.submitted.size(), 1U);
      EXPECT_EQ(first.port.submitted[0].request.drafts, speculation);
      first.accept(0);
    }
    Process second(requests);
    second.resume();
    ASSERT_EQ(second.port.submitted.size(), 1U);
    EXPECT_EQ(second.port.submitted[0].request.drafts, speculation);
  }
}

// What was told and not yet written is computed again, and not told again.
TEST_F(ResumeTest, TokensThatTheDiskNeverSawAreNotToldTwice) {
  const std::string whole = undisturbed(stream);
  std::string before;
  std::string seen;
  {
    Process first(nullptr);
    const auto client = first.ask(stream, "key");
    first.accept(0);
    for (TokenId id = 70; id < 74; ++id) first.token(0, id);
    before = client->content();
    seen = client->last_id;
  }
  Process second(requests);
  second.resume();
  EXPECT_TRUE(second.port.submitted.empty());
  const auto client = second.ask(stream, "key", seen);
  ASSERT_EQ(second.port.submitted.size(), 1U);
  second.accept(0);
  for (TokenId id = 70; id <= 75; ++id) {
    second.token(0, id, id == 75 ? FinishReason::kLength : FinishReason::kNone);
  }
  EXPECT_TRUE(client->done());
  EXPECT_EQ(before + client->content(), whole);
}

TEST_F(ResumeTest, AFinishedAnswerIsGivenAgainWithoutComputing) {
  for (const bool streamed : {true, false}) {
    ASSERT_TRUE(requests->clear().ok());
    Json body = stream;
    body["stream"] = streamed;
    std::string first_answer;
    {
      Process first(requests);
      const auto client = first.ask(body, "key");
      first.accept(0);
      for (TokenId id = 70; id <= 75; ++id) {
        first.token(0, id, id == 75 ? FinishReason::kLength : FinishReason::kNone);
      }
      const auto again = first.ask(body, "key");
      EXPECT_EQ(first.port.submitted.size(), 1U);
      first_answer = streamed ? client->content() : client->response->body;
      EXPECT_EQ(streamed ? again->content() : again->response->body, first_answer);
    }
    Process second(requests);
    second.resume();
    const auto client = second.ask(body, "key");
    EXPECT_TRUE(second.port.submitted.empty());
    if (streamed) {
      EXPECT_EQ(client->content(), first_answer);
      EXPECT_TRUE(client->done());
    } else {
      const Json a = Json::parse(first_answer);
      const Json b = Json::parse(client->response->body);
      for (const char* field : {"id", "choices", "usage", "hearth", "model"}) {
        EXPECT_EQ(a[field], b[field]) << field;
      }
    }
    second.pass(601s);
    EXPECT_FALSE(second.ask(body, "key")->done());
    EXPECT_EQ(second.port.submitted.size(), 1U) << "it was kept for ten minutes";
  }
}

TEST_F(ResumeTest, TwoClientsOnOneKeyHearTheSame) {
  Process process(requests);
  const auto one = process.ask(stream, "key");
  process.accept(0);
  process.token(0, 70);
  const auto two = process.ask(stream, "key");
  process.token(0, 71);
  std::exchange(one->leave, nullptr)();
  process.pass(11s);
  EXPECT_TRUE(process.port.cancelled.empty()) << "one is still there";
  process.token(0, 72, FinishReason::kStop);
  EXPECT_TRUE(two->done());
  EXPECT_EQ(process.port.submitted.size(), 1U);
  EXPECT_EQ(two->content().rfind(one->content(), 0), 0U);
}

TEST_F(ResumeTest, WithoutAClientItRunsForTheGraceAndNoLonger) {
  Process process(requests);
  auto client = process.ask(stream, "key");
  process.accept(0);
  process.token(0, 70);
  std::exchange(client->leave, nullptr)();
  process.pass(9s);
  EXPECT_TRUE(process.port.cancelled.empty());
  client = process.ask(stream, "key");
  process.pass(9s);
  EXPECT_TRUE(process.port.cancelled.empty()) << "somebody came back";
  std::exchange(client->leave, nullptr)();
  process.pass(11s);
  EXPECT_EQ(process.port.cancelled, std::vector<std::uint64_t>{1});
  process.ask(stream, "key");
  EXPECT_EQ(process.port.submitted.size(), 2U) << "anew";
}

TEST_F(ResumeTest, APlainRequestEndsWithItsClientAndIsNotWritten) {
  {
    Process process(requests);
    const auto client = process.ask(stream, "");
    process.accept(0);
    process.token(0, 70);
    EXPECT_EQ(client->text.find("id: "), std::string::npos);
    std::exchange(client->leave, nullptr)();
    EXPECT_EQ(process.port.cancelled, std::vector<std::uint64_t>{1});
  }
  EXPECT_TRUE(requests->load()->rows.empty());
}

TEST_F(ResumeTest, WhatIsResumedAndClaimedByNobodyEnds) {
  one_told_and_gone();
  {
    Process second(requests);
    second.resume();
    second.accept(0);
    second.pass(11s);
    EXPECT_EQ(second.port.cancelled, std::vector<std::uint64_t>{1});
  }
  EXPECT_TRUE(requests->load()->rows.empty());
}

TEST_F(ResumeTest, AfterARestartItWaitsForThePipeline) {
  one_told_and_gone();
  Process second(requests);
  second.resume();
  const auto client = second.ask(stream, "key");
  EXPECT_TRUE(client->streaming) << "nothing that it could be refused with is left";
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(second.port.submitted.size(), i + 1);
    second.port.submitted[i].done(Error{ErrorCode::kUnavailable, "no pipeline serves"});
    second.pump();
    second.pass(100ms);
  }
  second.accept(20);
  second.token(20, 71, FinishReason::kStop);
  EXPECT_TRUE(client->done());
}

TEST_F(ResumeTest, NoPipelineForAMinuteIsOneTypedError) {
  one_told_and_gone();
  Process second(requests);
  second.resume();
  const auto client = second.ask(stream, "key");
  second.clock.advance(61s);
  second.port.submitted[0].done(Error{ErrorCode::kUnavailable, "no pipeline serves"});
  second.pump();
  ASSERT_TRUE(client->finished && client->broken);
  EXPECT_EQ(client->events().back()["error"]["code"], "no_pipeline");
}

TEST_F(ResumeTest, AStopOfTheServerInterruptsAndEndsNothing) {
  std::string before;
  std::string seen;
  {
    Process first(requests);
    const auto kept = first.ask(stream, "key");
    const auto plain = first.ask(stream, "");
    first.accept(0);
    first.accept(1);
    first.token(0, 70);
    first.token(1, 70);
    first.api->suspending = true;
    for (auto& each : first.port.submitted) {
      each.events->on_error({ErrorCode::kUnavailable, "the server is shutting down"});
    }
    first.pump();
    EXPECT_TRUE(kept->finished && kept->broken && !kept->done());
    EXPECT_EQ(plain->events().back()["error"]["code"], "no_pipeline");
    before = kept->content();
    EXPECT_FALSE(kept->events().back().contains("error"));
    seen = kept->last_id;
    EXPECT_EQ(first.ask(stream, "key")->response->status, 503U);
  }
  Process second(requests);
  second.resume();
  const auto client = second.ask(stream, "key", seen);
  second.accept(0);
  second.token(0, 71, FinishReason::kLength);
  EXPECT_TRUE(client->done());
}

TEST_F(ResumeTest, NobodyGetsAnAnswerThatIsNotTheirs) {
  Process process(requests);
  const auto first = process.ask(stream, "key", "", "alice");
  process.accept(0);
  process.token(0, 70);
  static_cast<void>(first->events());
  const std::string seen = first->last_id;
  Json other = stream;
  other["prompt"] = "hullo";
  EXPECT_EQ(code(*process.ask(other, "key", "", "alice")), "idempotency_key_reused");
  EXPECT_EQ(process.ask(other, "key", "", "alice")->response->status, 422U);
  EXPECT_EQ(code(*process.ask(stream, "key", seen, "bob")), "event_of_another_answer");
  EXPECT_EQ(process.ask(stream, "key", seen, "bob")->response->status, 409U);
  EXPECT_EQ(code(*process.ask(stream, "other key", seen, "alice")), "event_of_another_answer");
  for (const char* bad : {"1", "0123456789abcdef-1.1", "0123456789abcdef-x"}) {
    EXPECT_EQ(code(*process.ask(stream, "key", bad, "alice")), "bad_last_event_id") << bad;
  }
  Json whole = stream;
  whole["stream"] = false;
  EXPECT_EQ(code(*process.ask(whole, "new", seen, "alice")), "bad_last_event_id");
  EXPECT_EQ(process.port.submitted.size(), 1U) << "none of them costs anything";
  process.ask(stream, "key", "", "bob");
  EXPECT_EQ(process.port.submitted.size(), 2U) << "a key is its owner's";
}

TEST_F(ResumeTest, AnEventThatWasNeverSentIsRefused) {
  const auto id = [](const std::string& seen, const char* told) {
    return seen.substr(0, 17) + told;
  };
  std::string seen;
  const auto refused = [&](Process& process, const char* told) {
    const auto client = process.ask(stream, "key", id(seen, told));
    if (!client->response) return false;
    EXPECT_EQ(client->response->status, 400U) << told;
    EXPECT_EQ(code(*client), "bad_last_event_id");
    EXPECT_NE(client->response->body.find("was not sent yet"), std::string::npos);
    return true;
  };
  {
    Process process(requests);
    const auto first = process.ask(stream, "key");
    process.accept(0);
    process.token(0, 70);
    static_cast<void>(first->events());
    seen = first->last_id;
    EXPECT_FALSE(refused(process, "2")) << "the role and a token";
    for (const char* told : {"3", "999999", "4000000000", "2u"}) {
      EXPECT_TRUE(refused(process, told)) << told;
    }
    process.token(0, 71, FinishReason::kStop);
    EXPECT_FALSE(refused(process, "4u")) << "two tokens, the end and the usage";
    for (const char* told : {"5", "5u", "999999"}) EXPECT_TRUE(refused(process, told)) << told;
  }
  // A process that has none of it: what an earlier one can have sent, and no more.
  Process process(nullptr);
  EXPECT_TRUE(refused(process, "999999"));
  EXPECT_TRUE(process.port.submitted.empty());
  EXPECT_FALSE(refused(process, "3"));
  EXPECT_FALSE(refused(process, "3")) << "it runs, and is not there again yet";
  EXPECT_TRUE(refused(process, "999999"));
}

TEST_F(ResumeTest, AClientThatIsDoneTakesItsRequestWithIt) {
  Process process(requests);
  const auto client = process.ask(stream, "key");
  process.accept(0);
  const auto forget = [&](const std::string& owner) {
    auto done = std::make_shared<PlayedClient>();
    HttpRequest http;
    http.policy.owner = owner;
    http.idempotency_key = "key";
    handle_forget({process.api, http, done});
    process.pump();
    return done->response->status;
  };
  EXPECT_EQ(forget("somebody"), 404U);
  EXPECT_EQ(forget(""), 204U);
  EXPECT_EQ(process.port.cancelled, std::vector<std::uint64_t>{1});
  EXPECT_EQ(forget(""), 404U);
  process.crash();
  EXPECT_TRUE(requests->load()->rows.empty());
}

TEST_F(ResumeTest, SeveralChoicesGoOnEachFromItsOwnPlace) {
  Json body = stream;
  body["n"] = 2;
  std::string seen;
  {
    Process first(requests);
    const auto client = first.ask(body, "key");
    first.accept(0);
    first.accept(1);
    first.token(0, 70);
    first.token(1, 80);
    first.token(1, 81);
    first.token(1, 82, FinishReason::kStop);
    static_cast<void>(client->events());
    seen = client->last_id;
  }
  Process second(requests);
  second.resume();
  ASSERT_EQ(second.port.submitted.size(), 1U) << "the other is whole";
  const auto client = second.ask(body, "key", seen);
  second.accept(0);
  second.token(0, 71, FinishReason::kStop);
  ASSERT_TRUE(client->done());
  const auto events = client->events();
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) EXPECT_EQ(choice["index"], 0);
  }
  EXPECT_TRUE(events[events.size() - 2].contains("timings"));
}

TEST_F(ResumeTest, HostileRowsAreRemovedAndTheRestGoesOn) {
  {
    Process first(requests);
    first.ask(stream, "key");
    first.accept(0);
    first.token(0, 70);
    first.token(0, 71);
  }
  auto rows = requests->load()->rows;
  ASSERT_EQ(rows.size(), 1U);
  const auto hostile = [&](const std::string& name, auto change) {
    RequestRow row = rows[0];
    row.name = blake2b(as_bytes(name));
    change(row);
    ASSERT_TRUE(requests->write({row}).ok());
  };
  hostile("empty", [](RequestRow& row) { row.request.clear(); });
  hostile("noise", [](RequestRow& row) { row.request.assign(100, std::byte{0xff}); });
  hostile("old", [](RequestRow& row) { row.ended = 1; });
  hostile("older", [](RequestRow& row) { row.ended = INT64_MIN; });
  hostile("no tokens", [](RequestRow& row) { row.tokens = {Bytes(50, std::byte{7})}; });
  SampledToken strange;
  strange.sequence = SequenceId(99);
  hostile("strange choice", [&](RequestRow& row) { row.tokens = encode_tokens({strange}); });
  Process second(requests);
  second.clock.advance(1h);
  second.resume();
  ASSERT_EQ(second.port.submitted.size(), 3U) << "the two without tokens begin anew";
  std::multiset<std::size_t> begun;
  for (const auto& each : second.port.submitted) begun.insert(each.request.answer.size());
  EXPECT_EQ(begun, (std::multiset<std::size_t>{0, 0, 2}));
  second.crash();
  EXPECT_EQ(requests->load()->rows.size(), 3U);
}

TEST(ReadAnswersTest, StopsAtAGapAndSkipsWhatItHas) {
  const auto token = [](std::uint64_t choice, Position position, FinishReason finish) {
    SampledToken out;
    out.sequence = SequenceId(choice);
    out.position = position;
    out.finish = finish;
    return out;
  };
  constexpr auto kGoesOn = FinishReason::kNone;
  std::vector<Bytes> rows;
  const auto add = [&](std::vector<SampledToken> tokens) {
    for (Bytes& row : encode_tokens(std::move(tokens))) rows.push_back(std::move(row));
  };
  add({token(0, 3, kGoesOn), token(1, 5, kGoesOn)});
  add({token(0, 3, kGoesOn)});
  add({token(0, 4, kGoesOn), token(1, 7, kGoesOn)});
  add({token(0, 5, FinishReason::kStop)});
  add({token(0, 6, kGoesOn)});
  const StepShape shape{8, 100, 64, false};
  const auto answers = read_answers(rows, {3, 5}, shape);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].size(), 3U) << "nothing follows an end";
  EXPECT_EQ(answers[1].size(), 1U) << "its second is missing";
}

}  // namespace
}  // namespace hearth::coordinator::http
