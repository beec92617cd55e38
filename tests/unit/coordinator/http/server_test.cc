// The API on a real socket over the real one-process pipeline.
#include "coordinator/http/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/limits.h"
#include "tests/unit/coordinator/http/wire/local_port.h"
#include "tests/unit/coordinator/http/wire/raw_client.h"

namespace hearth::coordinator::http {
namespace {

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.version = "test";
    options.timeouts.ping = 1;
    auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }

  RawAnswer ask(const std::string& bytes) {
    RawClient client(server_->port());
    client.send(bytes);
    return client.read_answer();
  }
  RawAnswer complete(Json fields) {
    fields["model"] = "tiny";
    if (!fields.contains("prompt")) fields["prompt"] = "hello";
    return ask(post("/v1/completions", fields.dump()));
  }
  RawAnswer chat(Json fields) {
    fields["model"] = "tiny";
    fields["messages"] = Json::array({{{"role", "user"}, {"content", "hello"}}});
    return ask(post("/v1/chat/completions", fields.dump()));
  }
  static std::vector<Json> events(const RawAnswer& answer, bool* done = nullptr) {
    std::vector<Json> out;
    std::size_t at = 0;
    while ((at = answer.body.find("data: ", at)) != std::string::npos) {
      const std::size_t end = answer.body.find("\n\n", at);
      const std::string data = answer.body.substr(at + 6, end - at - 6);
      at = end;
      if (data == "[DONE]") {
        if (done != nullptr) *done = true;
        continue;
      }
      out.push_back(Json::parse(data));
    }
    return out;
  }
  void wait_idle() {
    while (port_.running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  SystemClock clock_;
  SystemRandom random_;
  LocalPort port_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServerTest, RefusesAddressesThatOthersCanReach) {
  HttpOptions options;
  options.host = "0.0.0.0";
  const auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("without keys"), std::string::npos);
  options.host = "evil.example";
  EXPECT_FALSE(HttpServer::start(options, tiny_model().served, port_, clock_, random_).ok());
}

TEST_F(ServerTest, SaysThatThePortIsTaken) {
  HttpOptions options;
  options.port = server_->port();
  const auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ErrorCode::kIo);
}

TEST_F(ServerTest, ChatAnswersInOneObject) {
  const RawAnswer answer = chat({{"max_tokens", 5}, {"seed", 7}, {"ignore_eos", true}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["system_fingerprint"], "fp_test");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  EXPECT_EQ(json["usage"]["total_tokens"], 5 + json["usage"]["prompt_tokens"].get<int>());
  EXPECT_EQ(json["hearth"]["seed"], 7);
  EXPECT_TRUE(json["timings"].contains("predicted_per_second"));
  EXPECT_FALSE(answer.headers.at("x-request-id").empty());
}

TEST_F(ServerTest, StreamEqualsTheWholeAnswer) {
  const Json base = {
      {"max_tokens", 24}, {"seed", 3}, {"return_token_ids", true}, {"ignore_eos", true}};
  const Json whole = chat(base).json();
  Json streamed = base;
  streamed["stream"] = true;
  streamed["stream_options"] = {{"include_usage", true}};
  const RawAnswer answer = chat(streamed);
  ASSERT_TRUE(answer.complete);
  EXPECT_EQ(answer.headers.at("content-type").rfind("text/event-stream", 0), 0U);
  EXPECT_EQ(answer.body.rfind(": ping\n\n", 0), 0U);
  bool done = false;
  const auto chunks = events(answer, &done);
  EXPECT_TRUE(done);
  std::string text;
  Json ids = Json::array();
  std::set<std::string> names;
  for (const Json& chunk : chunks) {
    names.insert(chunk["id"].get<std::string>());
    if (chunk["choices"].empty()) continue;
    EXPECT_TRUE(chunk["usage"].is_null());
    text += chunk["choices"][0]["delta"].value("content", "");
    for (const Json& id : chunk["choices"][0]["token_ids"]) ids.push_back(id);
  }
  EXPECT_EQ(names.size(), 1U);
  EXPECT_EQ(chunks.front()["choices"][0]["delta"]["role"], "assistant");
  const Json& last = chunks[chunks.size() - 2];
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(last["choices"][0]["delta"], Json::object());
  EXPECT_TRUE(last.contains("timings"));
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 24);
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_EQ(ids, whole["choices"][0]["token_ids"]);
}

TEST_F(ServerTest, SeedRepeatsAndChoicesCountUpFromIt) {
  const Json three =
      complete({{"max_tokens", 12}, {"seed", -5}, {"n", 3}, {"return_token_ids", true}}).json();
  ASSERT_EQ(three["choices"].size(), 3U) << three.dump();
  for (int i = 0; i < 3; ++i) {
    const Json one =
        complete({{"max_tokens", 12}, {"seed", -5 + i}, {"return_token_ids", true}}).json();
    EXPECT_EQ(three["choices"][i]["index"], i);
    EXPECT_EQ(three["choices"][i]["token_ids"], one["choices"][0]["token_ids"]);
  }
  EXPECT_NE(three["choices"][0]["token_ids"], three["choices"][1]["token_ids"]);
  // A seed that the server chose is reported and repeats the answer.
  const Json chosen = complete({{"max_tokens", 12}, {"return_token_ids", true}}).json();
  const Json again =
      complete({{"max_tokens", 12}, {"return_token_ids", true}, {"seed", chosen["hearth"]["seed"]}})
          .json();
  EXPECT_EQ(chosen["choices"][0]["token_ids"], again["choices"][0]["token_ids"]);
}

TEST_F(ServerTest, AllKindsOfPromptsAgree) {
  const Json tokens = ask(post("/tokenize", R"({"content":"hello"})")).json()["tokens"];
  const Json settings = {{"max_tokens", 4}, {"seed", 1}, {"temperature", 0}};
  const auto with = [&](const Json& prompt) {
    Json fields = settings;
    fields["prompt"] = prompt;
    return complete(fields).json();
  };
  const Json text = with("hello")["choices"][0]["text"];
  EXPECT_EQ(with(Json::array({"hello", "hello"}))["choices"][1]["text"], text);
  EXPECT_EQ(with(tokens)["choices"][0]["text"], text);
  EXPECT_EQ(with(Json::array({tokens, tokens}))["choices"][1]["text"], text);
}

TEST_F(ServerTest, StopStringIsCutOutAndEndsTheSequence) {
  const Json base = {{"max_tokens", 60}, {"seed", 2}, {"ignore_eos", true}};
  const std::string text = complete(base).json()["choices"][0]["text"];
  ASSERT_GT(text.size(), 12U);
  // From the middle, at the border of a character.
  std::size_t at = text.size() / 2;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  std::size_t end = std::min(at + 5, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(at, end - at);
  for (const bool stream : {false, true}) {
    Json fields = base;
    fields["stop"] = stop;
    fields["stream"] = stream;
    const RawAnswer answer = complete(fields);
    std::string shown;
    std::string reason;
    if (stream) {
      for (const Json& chunk : events(answer)) {
        shown += chunk["choices"][0]["text"].get<std::string>();
        if (chunk["choices"][0]["finish_reason"].is_string()) {
          reason = chunk["choices"][0]["finish_reason"];
        }
      }
    } else {
      shown = answer.json()["choices"][0]["text"];
      reason = answer.json()["choices"][0]["finish_reason"];
    }
    EXPECT_EQ(shown, text.substr(0, text.find(stop)));
    EXPECT_EQ(reason, "stop");
    wait_idle();
  }
}

TEST_F(ServerTest, LogprobsInBothShapes) {
  const Json chat_json =
      chat({{"max_tokens", 3}, {"ignore_eos", true}, {"logprobs", true}, {"top_logprobs", 2}})
          .json();
  const Json content = chat_json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3U) << chat_json.dump();
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_LE(content[0]["logprob"].get<double>(), 0.0);
  EXPECT_TRUE(content[0]["bytes"].is_array());
  const Json legacy = complete({{"max_tokens", 3}, {"ignore_eos", true}, {"logprobs", 2}})
                          .json()["choices"][0]["logprobs"];
  EXPECT_EQ(legacy["tokens"].size(), 3U);
  EXPECT_EQ(legacy["token_logprobs"].size(), 3U);
  EXPECT_EQ(legacy["text_offset"][0], 0);
}

TEST_F(ServerTest, LogitBiasForcesAToken) {
  const Json json = complete({{"max_tokens", 4},
                              {"temperature", 0},
                              {"return_token_ids", true},
                              {"logit_bias", {{"70", 100}}}})
                        .json();
  EXPECT_EQ(json["choices"][0]["token_ids"], Json::array({70, 70, 70, 70}));
  const Json never = complete({{"max_tokens", 4},
                               {"temperature", 0},
                               {"return_token_ids", true},
                               {"logit_bias", Json::parse(R"([[70,100],[70,false]])")}})
                         .json();
  ASSERT_TRUE(never.contains("choices")) << never.dump();
  for (const Json& id : never["choices"][0]["token_ids"]) EXPECT_NE(id, 70);
}

TEST_F(ServerTest, AnEchoWithLogprobsScoresThePrompt) {
  const std::vector<TokenId> ids = {72, 105, 33, 72, 105, 34};
  const Json answer =
      complete({{"prompt", ids}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}}).json();
  const Json& told = answer["choices"][0]["logprobs"];
  ASSERT_EQ(told["token_logprobs"].size(), ids.size() + 1) << answer.dump();
  EXPECT_TRUE(told["token_logprobs"][0].is_null());
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const std::vector<TokenId> before(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i));
    const Json forced = complete({{"prompt", before},
                                  {"max_tokens", 1},
                                  {"temperature", 0},
                                  {"logprobs", 1},
                                  {"ignore_eos", true},
                                  {"logit_bias", {{std::to_string(ids[i]), 100}}}})
                            .json()["choices"][0]["logprobs"];
    EXPECT_EQ(told["token_logprobs"][i], forced["token_logprobs"][0]) << i;
    EXPECT_EQ(told["top_logprobs"][i], forced["top_logprobs"][0]) << i;
  }
  const Json none =
      complete({{"prompt", ids}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}}).json();
  EXPECT_EQ(none["choices"][0]["text"],
            "Ef\x1E"
            "Ef\x1F")
      << "id 3 is the byte 0";
  EXPECT_EQ(none["choices"][0]["logprobs"]["token_logprobs"].size(), ids.size());
  EXPECT_EQ(none["usage"]["completion_tokens"], 0);
  const RawAnswer stream = complete(
      {{"prompt", ids}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"stream", true}});
  Json joined = Json::array();
  for (const Json& event : events(stream)) {
    if (event["choices"].empty() || event["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& one : event["choices"][0]["logprobs"]["token_logprobs"]) joined.push_back(one);
  }
  EXPECT_EQ(joined.size(), ids.size() + 1) << stream.body;
  const RawAnswer many =
      complete({{"prompt", std::vector<std::vector<TokenId>>(64, std::vector<TokenId>(400, 65))},
                {"n", 2},
                {"echo", true},
                {"logprobs", 20},
                {"max_tokens", 1}});
  EXPECT_EQ(many.status, 400);
  EXPECT_NE(many.body.find("the limit is 524288"), std::string::npos) << many.body;
}

TEST_F(ServerTest, HashesCoverEveryPositionAndStage) {
  const Json json = complete({{"prompt", Json::array({65, 66, 67})},
                              {"max_tokens", 3},
                              {"ignore_eos", true},
                              {"return_hashes", true}})
                        .json();
  const Json hashes = json["hearth"]["hashes"];
  // Positions 0 to 4 are computed (the last token sampled never is), by two stages.
  ASSERT_EQ(hashes.size(), 10U) << json.dump();
  EXPECT_EQ(hashes[0]["layers"], Json::array({0, 2}));
  EXPECT_EQ(hashes[0]["out"], hashes[1]["in"]);
  EXPECT_EQ(hashes[0]["in"].get<std::string>().size(), 64U);
}

TEST_F(ServerTest, DisconnectCancels) {
  for (const bool stream : {true, false}) {
    port_.paused = true;
    const std::uint32_t before = port_.cancelled;
    {
      RawClient client(server_->port());
      const Json body = {{"model", "tiny"}, {"prompt", "hi"},   {"max_tokens", 400},
                         {"n", 2},          {"stream", stream}, {"ignore_eos", true}};
      const std::uint32_t running = port_.submitted;
      client.send(post("/v1/completions", body.dump()));
      while (port_.submitted < running + 2) std::this_thread::yield();
    }
    while (port_.cancelled < before + 2) std::this_thread::yield();
    port_.paused = false;
    wait_idle();
  }
}

TEST_F(ServerTest, WhatClientsLeaveOutOrAddIsUnderstood) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1})";
  const RawAnswer answer =
      ask("POST /chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
          "Content-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["choices"][0]["message"]["annotations"], Json::array());
  EXPECT_EQ(ask(get("/models/tiny")).json()["id"], "tiny");
  const RawAnswer stream = complete({{"stream", true}, {"max_tokens", 1}});
  EXPECT_EQ(stream.headers.at("x-accel-buffering"), "no") << "else nginx collects events";
}

TEST_F(ServerTest, AClientThatHasClosedItsSendingHalfGetsItsAnswer) {
  for (const bool stream : {false, true}) {
    port_.paused = true;
    RawClient client(server_->port());
    const Json body = {{"model", "tiny"}, {"prompt", "hi"}, {"max_tokens", 3}, {"stream", stream}};
    client.send(post("/v1/completions", body.dump()));
    client.finish_sending();
    const std::string probe = stream ? ": ping\n\n" : "100 Continue\r\n\r\n";
    ASSERT_TRUE(client.read_until(probe));
    if (!stream) {
      ASSERT_TRUE(client.read_until(probe + "HTTP/1.1 " + probe)) << "a few times";
    }
    port_.paused = false;
    const RawAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.complete);
    wait_idle();
  }
  EXPECT_EQ(port_.cancelled, 0U);
}

TEST_F(ServerTest, SilentStreamIsKeptAlive) {
  port_.paused = true;
  RawClient client(server_->port());
  client.send(
      post("/v1/completions", R"({"model":"tiny","prompt":"hi","max_tokens":3,"stream":true})"));
  ASSERT_TRUE(client.read_until(": ping\n\n"));
  client.buffer().erase(0, client.buffer().find(": ping") + 8);
  EXPECT_TRUE(client.read_until(": ping\n\n"));  // a second one, without any token
  port_.paused = false;
  EXPECT_TRUE(client.read_until("data: [DONE]"));
}

TEST_F(ServerTest, ALineOfJsonIsNeverInterrupted) {
  port_.paused = true;
  RawClient client(server_->port());
  client.send(post("/api/chat", R"({"model":"tiny:latest","options":{"num_predict":3},
                                    "messages":[{"role":"user","content":"hi"}]})"));
  // Two pings, each a chunk of one space.
  ASSERT_TRUE(client.read_until("1\r\n \r\n1\r\n \r\n"));
  EXPECT_NE(client.buffer().find("application/x-ndjson"), std::string::npos);
  port_.paused = false;
  EXPECT_TRUE(client.read_until("\"done\":true"));
}

TEST_F(ServerTest, CapabilitiesAreThoseOfTheTemplate) {
  const auto shown = [](HttpServer& server) {
    RawClient client(server.port());
    client.send(post("/api/show", R"({"model":"tiny"})"));
    return client.read_answer().json()["capabilities"];
  };
  EXPECT_EQ(shown(*server_), Json::parse(R"(["completion"])")) << "no syntax of a template";
  ServedModel served = tiny_model().served;
  model::ChatSyntax syntax;
  for (const bool thinks : {false, true}) {
    syntax.thinks = thinks;
    served.syntax = std::make_shared<model::ChatSyntax>(syntax);
    LocalPort port;
    const auto server = HttpServer::start(HttpOptions{}, served, port, clock_, random_);
    ASSERT_TRUE(server.ok());
    EXPECT_EQ(shown(**server), Json::parse(thinks ? R"(["completion","tools","thinking"])"
                                                  : R"(["completion","tools"])"));
  }
}

TEST_F(ServerTest, DialectsAnswerTheSame) {
  const Json plain = Json::parse(chat({{"max_tokens", 4}, {"seed", 5}}).body);
  const std::string text = plain["choices"][0]["message"]["content"];
  const Json message = Json::parse(ask(post("/v1/messages", R"({"max_tokens":4,"seed":5,
                                   "messages":[{"role":"user","content":"hello"}]})"))
                                       .body);
  EXPECT_EQ(message["content"][0]["text"], text);
  const Json response = Json::parse(
      ask(post("/v1/responses", R"({"max_output_tokens":4,"seed":5,"input":"hello"})")).body);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], text);
  const Json said = Json::parse(ask(post("/api/generate", R"({"prompt":"hello","stream":false,
                                    "options":{"num_predict":4,"seed":5}})"))
                                    .body);
  EXPECT_EQ(said["response"], text);
  const Json counted = Json::parse(
      ask(post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"hello"}]})"))
          .body);
  EXPECT_EQ(counted["input_tokens"], plain["usage"]["prompt_tokens"]);
  EXPECT_EQ(ask(post("/v1/messages", "{}")).status, 400);
  EXPECT_EQ(ask(post("/api/generate", R"({"model":"other"})")).status, 404);
  EXPECT_EQ(ask(post("/api/embed", R"({"input":"x"})")).status, 400);
}

TEST_F(ServerTest, CoordinatorErrorsBecomeStatusCodes) {
  port_.refuse_with = ErrorCode::kUnavailable;
  RawAnswer answer = complete({});
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.error_code(), "no_pipeline");
  EXPECT_GE(std::stoi(answer.headers.at("retry-after")), 1);
  port_.refuse_with = ErrorCode::kNoCapacity;
  answer = complete({{"stream", true}});
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.error_code(), "rate_limit_exceeded");
  EXPECT_LE(std::stoi(answer.headers.at("retry-after")), 60);
  EXPECT_FALSE(answer.headers.contains("x-should-retry"));
}

TEST_F(ServerTest, ErrorInTheMiddleNeverLooksFinished) {
  port_.fail_after = 2;
  bool done = false;
  const RawAnswer streamed = complete({{"max_tokens", 20}, {"ignore_eos", true}, {"stream", true}});
  const auto chunks = events(streamed, &done);
  EXPECT_FALSE(done);
  ASSERT_FALSE(chunks.empty());
  EXPECT_EQ(chunks.back()["error"]["code"], "no_pipeline");
  for (const Json& chunk : chunks) {
    if (!chunk.contains("choices")) continue;
    EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
  }
  port_.fail_after = 2;
  const RawAnswer whole = complete({{"max_tokens", 20}, {"ignore_eos", true}});
  EXPECT_EQ(whole.status, 503);
  EXPECT_EQ(whole.headers.at("x-should-retry"), "false");
}

TEST_F(ServerTest, OneFailedChoiceCancelsTheOthers) {
  port_.fail_after = 3;
  const RawAnswer answer = complete({{"max_tokens", 300}, {"ignore_eos", true}, {"n", 4}});
  EXPECT_EQ(answer.status, 503);
  while (port_.submitted < 4 || port_.cancelled < 3) std::this_thread::yield();
  wait_idle();
  EXPECT_EQ(port_.cancelled, 3U);
}

TEST_F(ServerTest, TooLongIsRefusedBeforeAnyWork) {
  const RawAnswer answer = complete({{"max_tokens", 600}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_code(), "context_length_exceeded");
  EXPECT_EQ(port_.submitted, 0U);
}

TEST_F(ServerTest, WhatNoTokenizerCouldFitIsRefusedByItsBytes) {
  const ServedModel& served = tiny_model().served;
  const std::size_t most = served.spec.context * served.tokenizer->longest_token_bytes();
  ASSERT_GT(most, 0U);
  const auto message = [](const RawAnswer& answer) {
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.error_code(), "context_length_exceeded");
    return answer.json()["error"]["message"].get<std::string>();
  };
  const auto bytes = [](std::size_t n) { return "has " + std::to_string(n) + " bytes"; };
  const std::string full = message(complete({{"prompt", std::string(most, ' ')}}));
  EXPECT_EQ(full.find(" bytes"), std::string::npos) << "its tokens were counted: " << full;
  const std::string over = message(complete({{"prompt", std::string(most + 1, ' ')}}));
  EXPECT_NE(over.find(bytes(most + 1)), std::string::npos) << over;
  const Json messages = {{{"role", "user"}, {"content", std::string(most, ' ')}}};
  const Json body = {{"model", "tiny"}, {"messages", messages}};
  EXPECT_NE(message(ask(post("/v1/chat/completions", body.dump()))).find(" bytes; "),
            std::string::npos);
  EXPECT_EQ(port_.submitted, 0U);
}

TEST_F(ServerTest, ReadinessFollowsTheSwarm) {
  EXPECT_EQ(ask(get("/readyz")).status, 200);
  EXPECT_EQ(ask(get("/health")).body, R"({"status":"ok"})");
  port_.ready = false;
  for (const char* path : {"/readyz", "/health", "/v1/health"}) {
    const RawAnswer answer = ask(get(path));
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.error_code(), "no_pipeline");
  }
  EXPECT_EQ(ask(get("/livez")).status, 200);
  EXPECT_EQ(ask(get("/v1/models")).status, 200);
}

TEST_F(ServerTest, ModelsStateAndMetrics) {
  const Json models = ask(get("/v1/models")).json();
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["meta"]["n_vocab"], 400);
  EXPECT_EQ(ask(get("/v1/models/tiny")).status, 200);
  EXPECT_EQ(ask(get("/v1/models/no%2Fsuch")).error_code(), "model_not_found");
  EXPECT_TRUE(ask(get("/api/v1/state")).json()["ready"].get<bool>());
  complete({{"max_tokens", 2}});
  const RawAnswer metrics = ask(get("/metrics"));
  EXPECT_EQ(metrics.headers.at("content-type").rfind("text/plain; version=0.0.4", 0), 0U);
  EXPECT_NE(metrics.body.find("hearth_time_to_first_token_seconds_count{model_name=\"tiny\"} 1\n"),
            std::string::npos)
      << metrics.body;
  EXPECT_NE(metrics.body.find("hearth_kv_cache_usage_ratio"), std::string::npos);
}

TEST_F(ServerTest, TokensEndpoints) {
  const Json pieces =
      ask(post("/tokenize", R"({"content":"hé","with_pieces":true})")).json()["tokens"];
  ASSERT_FALSE(pieces.empty());
  EXPECT_TRUE(pieces[0].contains("piece"));
  const Json tokens = ask(post("/tokenize", R"({"content":"<|im_end|>h"})")).json()["tokens"];
  EXPECT_EQ(tokens[0], 2);
  Json body;
  body["tokens"] = tokens;
  EXPECT_EQ(ask(post("/detokenize", body.dump())).json()["content"], "<|im_end|>h");
  const Json prompt =
      ask(post("/apply-template", R"({"messages":[{"role":"user","content":"x"}]})")).json();
  EXPECT_EQ(prompt["prompt"], "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ServerTest, UserTextNeverBecomesAControlToken) {
  const auto prompt_tokens = [&](const std::string& content) {
    const Json body = {{"model", "tiny"},
                       {"max_tokens", 1},
                       {"messages", Json::array({{{"role", "user"}, {"content", content}}})}};
    return ask(post("/v1/chat/completions", body.dump()))
        .json()["usage"]["prompt_tokens"]
        .get<int>();
  };
  EXPECT_GT(prompt_tokens("<|im_end|>"), prompt_tokens("x") + 3);
}

TEST_F(ServerTest, SixteenStreamsRunTogether) {
  std::vector<std::thread> threads;
  std::vector<std::string> texts(16);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      const RawAnswer answer =
          complete({{"max_tokens", 20 + i}, {"seed", 9}, {"stream", true}, {"ignore_eos", true}});
      for (const Json& chunk : events(answer)) {
        texts[i] += chunk["choices"][0]["text"].get<std::string>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The same seed: each text begins with the shorter one before it.
  const std::string& first = texts[0];
  for (const std::string& text : texts) {
    EXPECT_EQ(text.substr(0, first.size() - 4), first.substr(0, first.size() - 4));
  }
}

TEST_F(ServerTest, KeepAliveHeadOptionsAndPipelining) {
  RawClient client(server_->port());
  client.send("HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawAnswer head = client.read_answer(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "15");
  client.send(
      "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
      "Access-Control-Request-Headers: authorization,x-stainless-arch\r\n\r\n");
  const RawAnswer options = client.read_answer();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(options.headers.at("access-control-allow-headers"), "authorization,x-stainless-arch");
  std::string many;
  for (int i = 0; i < 500; ++i) many += get("/livez");
  std::thread sender([&] { client.send(many); });
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client.read_answer().status, 200) << i;
  sender.join();
}

TEST_F(ServerTest, ExpectContinueIsMet) {
  RawClient client(server_->port());
  const std::string body = R"({"content":"x"})";
  const std::string whole = post("/tokenize", body, "Expect: 100-continue\r\n");
  client.send(whole.substr(0, whole.size() - body.size()));
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.buffer().clear();
  client.send(body);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, Http10StreamsUntilClose) {
  RawClient client(server_->port());
  const std::string body = R"({"model":"tiny","prompt":"a","max_tokens":2,"stream":true})";
  client.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0U);
  EXPECT_NE(answer.body.find("data: [DONE]\n\n"), std::string::npos);
}

// What is read ahead of an answer is bounded, so that the end behind it is not read.
TEST_F(ServerTest, ADisconnectBehindALargeNextRequestCancelsToo) {
  const Json body = {
      {"model", "tiny"}, {"prompt", "hi"}, {"max_tokens", 400}, {"n", 2}, {"ignore_eos", true}};
  for (const bool reset : {true, false}) {
    port_.paused = true;
    const std::uint32_t before = port_.cancelled;
    const std::uint32_t running = port_.submitted;
    RawClient client(server_->port());
    client.send(post("/v1/completions", body.dump()));
    while (port_.submitted < running + 2) std::this_thread::yield();
    client.send(post("/v1/completions", std::string(limits::kHttpReadBytes + 30'000, ' ')));
    reset ? client.reset() : client.close();
    while (port_.cancelled < before + 2) std::this_thread::yield();
    port_.paused = false;
    wait_idle();
  }
}

TEST_F(ServerTest, StopsWithRequestsInFlight) {
  port_.paused = true;
  RawClient client(server_->port());
  client.send(
      post("/v1/completions", R"({"model":"tiny","prompt":"hi","max_tokens":9,"stream":true})"));
  ASSERT_TRUE(client.read_until(": ping"));
  server_.reset();
  EXPECT_FALSE(client.read_until("[DONE]"));
  while (port_.cancelled < 1) std::this_thread::yield();
}

TEST_F(ServerTest, AnIdleConnectionGivesWayForWantOfDescriptors) {
  RawClient idle(server_->port());
  idle.send(get("/livez"));
  ASSERT_EQ(idle.read_answer().status, 200);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<int> held;
  const auto take_all = [&](int socket) {
    const rlimit few{std::min<rlim_t>(before.rlim_cur, 512), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int more = ::dup(socket); more >= 0; more = ::dup(socket)) held.push_back(more);
  };
  RawClient late(server_->port(), 0, take_all);
  late.send(get("/livez"));
  EXPECT_EQ(late.read_answer().status, 200);
  EXPECT_TRUE(idle.closed());
  for (const int one : held) ::close(one);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace hearth::coordinator::http
