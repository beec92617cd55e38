// Bad input on the socket: every case has its answer, the connection survives or closes cleanly,
// memory stays where it was, and the next client is served.
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <set>
#include <thread>

#include "tests/unit/coordinator/http/wire/local_port.h"
#include "tests/unit/coordinator/http/wire/raw_client.h"

namespace hearth::coordinator::http {
namespace {

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

struct Case {
  const char* name;
  std::string bytes;
  int status;
  const char* code;  // null: any
};

std::string completion_bytes(const std::string& fields) {
  return post("/v1/completions", R"({"model":"tiny","prompt":"a",)" + fields + "}");
}
std::string chat_bytes(const std::string& content) {
  return post(
      "/v1/chat/completions",
      R"({"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":)" + content + "}]}");
}
// A tool whose schema has an expression that cannot be compiled.
std::string tool_bytes(const std::string& fields) {
  return post("/v1/chat/completions",
              R"({"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"a"}],)"
              R"("tools":[{"type":"function","function":{"name":"f","parameters":{"properties":)"
              R"({"a":{"type":"string","pattern":"("}}}}}])" +
                  fields + "}");
}
std::string chunked(const std::string& chunks) {
  return "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         "Transfer-Encoding: chunked\r\n\r\n" +
         chunks;
}

const std::string host = "Host: localhost\r\n";
const std::string json = "Content-Type: application/json\r\n";

std::vector<Case> framing_cases() {
  return {
      {"header of megabytes", "GET / HTTP/1.1\r\nX: " + std::string(4 << 20, 'a'), 431, nullptr},
      {"10k headers", "GET / HTTP/1.1\r\n" + host + repeat("X: y\r\n", 10000) + "\r\n", 431,
       nullptr},
      {"long target", get("/" + std::string(20000, 'a')), 414, nullptr},
      {"longer target", get("/" + std::string(200000, 'a')), 431, nullptr},
      {"NUL in a header", "GET / HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10), 400,
       nullptr},
      {"folded header", "GET /livez HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", 400,
       "bad_request"},
      {"header folded by a tab", "GET /livez HTTP/1.1\r\nHost:\r\n\tlocalhost\r\n\r\n", 400,
       "bad_request"},
      {"fold before the end", "GET /livez HTTP/1.1\r\n" + host + " \r\n\r\n", 400, "bad_request"},
      {"bare LF", "GET / HTTP/1.1\nHost: localhost\n\n", 400, nullptr},
      {"CL and TE",
       "POST /tokenize HTTP/1.1\r\n" + host + json +
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400, nullptr},
      {"TE and CL",
       "POST /tokenize HTTP/1.1\r\n" + host + json +
           "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
       400, nullptr},
      {"two CL",
       "POST /tokenize HTTP/1.1\r\n" + host + json +
           "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
       400, nullptr},
      {"unequal CL", "POST /tokenize HTTP/1.1\r\n" + host + json + "Content-Length: 2, 3\r\n\r\n{}",
       400, nullptr},
      {"negative CL", "POST /tokenize HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400,
       nullptr},
      {"unknown TE",
       "POST /tokenize HTTP/1.1\r\n" + host + json + "Transfer-Encoding: xchunked\r\n\r\n", 400,
       "bad_framing"},
      {"chunk of 2^64", chunked("10000000000000000\r\n"), 400, nullptr},
      {"huge chunk", chunked("fffffffffffffff\r\n"), 413, "body_too_large"},
      {"chunk extension flood", chunked("1;" + std::string(1 << 20, 'e')), 431, nullptr},
  };
}

std::vector<Case> head_cases() {
  const std::string host = "Host: localhost\r\n";
  const std::string json = "Content-Type: application/json\r\n";
  return {
      {"body over the limit",
       "POST /tokenize HTTP/1.1\r\n" + host + json + "Content-Length: 9000000\r\n\r\n", 413,
       "body_too_large"},
      {"no length", "POST /tokenize HTTP/1.1\r\n" + host + json + "\r\n", 411, nullptr},
      {"trailing garbage", "\x01\x02\x03 garbage\r\n\r\n", 400, nullptr},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, nullptr},
      {"TLS hello",
       std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, '\x07'),
       400, nullptr},
      {"%00 in the path", get("/v1/models/%00"), 400, nullptr},
      {"broken escape", get("/v1/models/%zz"), 400, nullptr},
      {"path traversal", get("/v1/models/../../etc/passwd"), 404, "model_not_found"},
      {"absolute form", get("http://localhost/livez"), 200, nullptr},
      {"absolute form of a stranger", get("http://evil.example/livez"), 403, nullptr},
      {"no Host", "GET /livez HTTP/1.1\r\n\r\n", 400, nullptr},
      {"two Hosts", get("/livez", "Host: localhost\r\n"), 400, nullptr},
      {"rebinding Host", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403,
       "host_not_allowed"},
      {"rebinding look-alike", "GET /livez HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 403,
       "host_not_allowed"},
      {"foreign Origin", get("/v1/models", "Origin: https://evil.example\r\n"), 403,
       "origin_not_allowed"},
      {"a picture of another site's page", get("/v1/models", "Sec-Fetch-Site: cross-site\r\n"), 403,
       "origin_not_allowed"},
      {"two Origins",
       get("/v1/models", "Origin: http://localhost\r\nOrigin: http://evil.example\r\n"), 400,
       "bad_request"},
      {"two encodings",
       "POST /tokenize HTTP/1.1\r\n" + host + json +
           "Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
       400, "bad_request"},
      {"gzip body",
       "POST /tokenize HTTP/1.1\r\n" + host + json +
           "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
       415, nullptr},
      {"form body",
       "POST /tokenize HTTP/1.1\r\n" + host +
           "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}",
       415, nullptr},
      {"token of a megabyte", get("/livez", "Authorization: Bearer " + std::string(1 << 20, 't')),
       431, nullptr},
      {"wrong method", "DELETE /v1/models HTTP/1.1\r\n" + host + "\r\n", 405, "method_not_allowed"},
      {"unknown path", get("/wp-admin"), 404, "not_found"},
      {"unknown method", "BREW / HTTP/1.1\r\n" + host + "\r\n", 405, "method_not_allowed"},
  };
}

std::vector<Case> json_cases() {
  return {
      {"depth 10^5", post("/tokenize", R"({"content":)" + repeat("[", 100000)), 400,
       "invalid_json"},
      {"10^6 keys", post("/tokenize", "{" + repeat("\"k\":0,", 1000000) + "\"content\":\"a\"}"),
       400, "invalid_json"},
      {"duplicate keys", post("/tokenize", R"({"content":5,"content":"a"})"), 200, nullptr},
      {"1e400", completion_bytes(R"("temperature":1e400)"), 400, "invalid_json"},
      {"NaN", completion_bytes(R"("temperature":NaN)"), 400, "invalid_json"},
      {"minus zero", completion_bytes(R"("temperature":-0,"max_tokens":1)"), 200, nullptr},
      {"lone surrogate", post("/tokenize", R"({"content":"\ud800"})"), 400, "invalid_json"},
      {"invalid UTF-8", post("/tokenize", "{\"content\":\"\xff\"}"), 400, "invalid_json"},
      {"overlong UTF-8", post("/tokenize", "{\"content\":\"\xc0\x80\"}"), 400, "invalid_json"},
      {"empty body", post("/tokenize", ""), 400, "invalid_json"},
      {"array for object", post("/v1/completions", "[]"), 400, nullptr},
      {"trailing garbage in JSON", post("/tokenize", R"({"content":"a"} x)"), 400, "invalid_json"},
      {"n of 10^9", completion_bytes(R"("n":1000000000)"), 400, "invalid_value"},
      {"best_of 10^6", completion_bytes(R"("best_of":1000000)"), 400, nullptr},
      {"logprobs 10^6", completion_bytes(R"("logprobs":1000000)"), 400, "invalid_value"},
      {"prompt list of 10^5",
       post("/v1/completions",
            R"({"model":"tiny","prompt":["a")" + repeat(",\"a\"", 100000) + "]}"),
       400, "invalid_value"},
      {"max_tokens -2", completion_bytes(R"("max_tokens":-2)"), 400, "invalid_value"},
      {"max_tokens 0", completion_bytes(R"("max_tokens":0)"), 400, "invalid_value"},
      {"max_tokens 2^31", completion_bytes(R"("max_tokens":2147483648)"), 400, "invalid_value"},
      {"max_tokens 1.5", completion_bytes(R"("max_tokens":1.5)"), 400, "invalid_value"},
      {"past the context", completion_bytes(R"("max_tokens":100000)"), 400,
       "context_length_exceeded"},
      {"n_discard is unknown", completion_bytes(R"("n_discard":-1,"max_tokens":1)"), 200, nullptr},
  };
}

std::vector<Case> sampling_cases() {
  return {
      {"bias out of the vocabulary", completion_bytes(R"("logit_bias":{"400":1})"), 400,
       "invalid_value"},
      {"bias NaN", completion_bytes(R"("logit_bias":{"4":"NaN"})"), 400, "invalid_value"},
      {"token id negative", post("/v1/completions", R"({"model":"tiny","prompt":[-1]})"), 400,
       "invalid_value"},
      {"token id too large", post("/v1/completions", R"({"model":"tiny","prompt":[400]})"), 400,
       "invalid_value"},
      {"temperature -1", completion_bytes(R"("temperature":-1)"), 400, "invalid_value"},
      {"temperature 1e-40", completion_bytes(R"("temperature":1e-40,"max_tokens":2)"), 200,
       nullptr},
      {"top_p -1", completion_bytes(R"("top_p":-1)"), 400, "invalid_value"},
      {"stop list of 10^5", completion_bytes(R"("stop":["a")" + repeat(",\"a\"", 100000) + "]"),
       400, "invalid_value"},
      {"stop empty", completion_bytes(R"("stop":"")"), 400, "invalid_value"},
      {"seed 2^64", completion_bytes(R"("seed":18446744073709551616)"), 400, "invalid_value"},
      {"unknown fields", completion_bytes(R"("store":true,"x":{"y":[1]},"max_tokens":1)"), 200,
       nullptr},
      {"tools of a completion",
       completion_bytes(
           R"("tools":[{"type":"function","function":{"parameters":{"pattern":"("}}}])"),
       400, "unsupported_value"},
      {"a schema that masks nothing is not compiled", tool_bytes(""), 200, nullptr},
      {"a broken pattern", tool_bytes(R"(,"tool_choice":"required")"), 400, "invalid_value"},
      {"a grammar that calls itself first",
       completion_bytes(R"("grammar":"root ::= root \"a\" | \"a\"")"), 400, "invalid_value"},
      {"a choice of 10^5",
       completion_bytes(R"("guided_choice":["a")" + repeat(",\"a\"", 100000) +
                        "],\"max_tokens\":1"),
       400, "invalid_value"},
      {"embeddings in the request", chat_bytes(R"([{"type":"image_url","image_url":{"url":"x"}}])"),
       400, "unsupported_content"},
      {"a URL is not fetched", chat_bytes(R"([{"type":"input_audio"}])"), 400,
       "unsupported_content"},
      {"unknown model", post("/v1/completions", R"({"model":"../../x","prompt":"a"})"), 404,
       "model_not_found"},
      {"1 MB without spaces", chat_bytes("\"" + std::string(1 << 20, 'x') + "\""), 400,
       "context_length_exceeded"},
      {"10^5 emoji", chat_bytes("\"" + repeat("\xF0\x9F\x91\xA9\xE2\x80\x8D", 100000) + "\""), 400,
       "context_length_exceeded"},
  };
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class HostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.timeouts.header = 1;
    options.timeouts.body = 1;
    options.timeouts.write = 1;
    auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  void run(const std::vector<Case>& cases) {
    for (const Case& each : cases) {
      RawClient client(server_->port());
      client.send(each.bytes);
      const RawAnswer answer = client.read_answer();
      if (each.status != 0) {
        EXPECT_EQ(answer.status, each.status) << each.name << answer.body;
      } else {
        EXPECT_GE(answer.status, 400) << each.name;
      }
      if (each.code != nullptr) {
        EXPECT_EQ(answer.error_code(), each.code) << each.name;
      }
      if (answer.status >= 400) {
        EXPECT_TRUE(answer.complete) << each.name;
        const Json error = answer.json()["error"];
        for (const char* key : {"message", "type", "param", "code"}) {
          EXPECT_TRUE(error.contains(key)) << each.name << " lacks " << key;
        }
      }
      if (answer.headers.contains("connection") && answer.headers.at("connection") == "close") {
        EXPECT_TRUE(client.closed()) << each.name;
      } else {
        client.send(get("/livez"));
        EXPECT_EQ(client.read_answer().status, 200) << each.name;
      }
    }
  }

  SystemClock clock_;
  SystemRandom random_;
  LocalPort port_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HostileTest, Framing) { run(framing_cases()); }
TEST_F(HostileTest, Heads) { run(head_cases()); }
TEST_F(HostileTest, Bodies) {
  run(json_cases());
  run(sampling_cases());
}

TEST_F(HostileTest, MemoryStaysWhereItWas) {
  const auto barrage = [this] {
    run(framing_cases());
    run(head_cases());
    run(json_cases());
    run(sampling_cases());
  };
  barrage();  // buffers and arenas reach their size
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 4; ++i) barrage();
  const std::size_t after = resident_bytes();
  RecordProperty("resident_bytes_before", std::to_string(before));
  RecordProperty("resident_bytes_after", std::to_string(after));
  EXPECT_LT(after, before + (96U << 20)) << "before " << before << ", after " << after;
}

TEST_F(HostileTest, SlowHeadAndBodyEndIn408) {
  RawClient head(server_->port());
  head.send("GET /livez HT");
  EXPECT_EQ(head.read_answer().status, 408);
  EXPECT_TRUE(head.closed());
  RawClient body(server_->port());
  body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.read_answer().status, 408);
  EXPECT_TRUE(body.closed());
}

TEST_F(HostileTest, PipelinesOfTenThousand) {
  RawClient client(server_->port());
  std::thread sender([&] { client.send(repeat(get("/livez"), 10000)); });
  int answers = 0;
  while (answers < 10000 && client.read_answer().status == 200) ++answers;
  sender.join();
  EXPECT_EQ(answers, 10000);
}

// Keeps what is logged while it lives.
class LogCapture {
 public:
  LogCapture() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~LogCapture() { spdlog::set_default_logger(previous_); }
  bool wait_for(const std::string& text) {
    for (int i = 0; i < 6000; ++i) {
      for (const std::string& line : sink_->last_formatted()) {
        if (line.find(text) != std::string::npos) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  const std::shared_ptr<spdlog::logger> previous_ = spdlog::default_logger();
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(64);
};

// The token ids of a stream, by choice.
std::map<int, Json> ids_of(const std::string& events) {
  std::map<int, Json> ids;
  for (std::size_t at = 0; (at = events.find("data: {", at)) != std::string::npos; ++at) {
    const Json event = Json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    for (const Json& choice : event["choices"]) {
      for (const Json& id : choice["token_ids"]) ids[choice["index"]].push_back(id);
    }
  }
  return ids;
}

// Megabytes of events, of which the client reads none.
TEST_F(HostileTest, AStreamWhoseBufferIsFullEnds) {
  auto server = HttpServer::start({}, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok());
  LogCapture log;
  RawClient client((*server)->port(), 2048);
  const std::string body =
      R"({"model":"tiny","prompt":["a","b","c","d"],"n":8,"max_tokens":500,"ignore_eos":true,)"
      R"("stream":true,"logprobs":20})";
  client.send(post("/v1/completions", body));
  EXPECT_TRUE(log.wait_for("its client left 1048576 bytes of it unread"));
  while (port_.running > 0) std::this_thread::yield();
  EXPECT_GE(port_.cancelled, 1U);
  EXPECT_FALSE(client.read_until("[DONE]"));
}

// More than the kernel takes for a client, and less than the stream's buffer has room for.
const char* const kHalfAMegabyte =
    R"({"model":"tiny","prompt":["a","b"],"n":2,"max_tokens":500,"ignore_eos":true,)"
    R"("stream":true,"seed":1,"return_token_ids":true})";

TEST_F(HostileTest, AWriteWithoutProgressEndsTheConnection) {
  LogCapture log;
  RawClient client(server_->port(), 2048);  // of a server that waits for one second
  client.send(post("/v1/completions", kHalfAMegabyte));
  EXPECT_TRUE(log.wait_for("its client read nothing for 1 seconds"));
  while (port_.running > 0) std::this_thread::yield();
  EXPECT_FALSE(client.read_until("[DONE]"));
}

TEST_F(HostileTest, GenerationDoesNotWaitForItsReader) {
  HttpOptions options;
  options.timeouts.write = 600;
  auto patient = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(patient.ok());
  RawClient reader((*patient)->port());
  reader.send(post("/v1/completions", kHalfAMegabyte));
  const RawAnswer expected = reader.read_answer();
  ASSERT_TRUE(expected.complete);

  RawClient sleeper((*patient)->port(), 2048);
  sleeper.send(post("/v1/completions", kHalfAMegabyte));
  while (port_.submitted < 8) std::this_thread::yield();
  while (port_.running > 0) std::this_thread::yield();
  EXPECT_EQ(port_.cancelled, 0U) << "all of it was computed, though none of it was read";
  const RawAnswer late = sleeper.read_answer();
  EXPECT_TRUE(late.complete);
  EXPECT_EQ(ids_of(late.body), ids_of(expected.body));
}

// Its next requests fill the read buffer, so that no read is pending which would report the close.
TEST_F(HostileTest, ACloseBehindUnreadRequestsCancels) {
  port_.paused = true;
  auto client = std::make_unique<RawClient>(server_->port());
  client->send(post("/v1/completions", R"({"model":"tiny","prompt":"a","max_tokens":400})"));
  // More than the session reads, and less than also fills the kernel's window: a close behind a
  // window that is shut never arrives.
  const std::size_t bytes = limits::kHttpReadBytes + 16 * limits::kKiB;
  client->send(repeat(get("/livez"), bytes / get("/livez").size()));
  while (port_.running == 0) std::this_thread::yield();
  client->finish_sending();
  while (port_.running > 0) std::this_thread::yield();
  EXPECT_EQ(port_.cancelled, 1U);
  port_.paused = false;
}

TEST_F(HostileTest, IdleConnectionsMakeRoom) {
  auto server = HttpServer::start({}, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok());
  const std::uint16_t port = (*server)->port();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::uint32_t i = 0; i < limits::kHttpConnections + 100; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    if (i % 100 != 0) continue;
    clients.back()->send(get("/v1/models"));
    EXPECT_EQ(clients.back()->read_answer().status, 200) << i;
  }
  RawClient next(port);
  next.send(get("/v1/models"));
  EXPECT_EQ(next.read_answer().status, 200);
  // Who has said nothing for longest was told why it had to go.
  const RawAnswer told = clients[1]->read_answer();
  EXPECT_EQ(told.status, 429);
  EXPECT_EQ(told.error_code(), "too_many_connections");
  EXPECT_EQ(told.headers.at("retry-after"), "1");
  EXPECT_TRUE(clients[1]->closed());
}

// Of bodies counts what has come, not what was announced.
TEST_F(HostileTest, BodiesThatDoNotComeTakeNoRoom) {
  auto server = HttpServer::start({}, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok());
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < 2 * limits::kHttpBodiesBytes / limits::kHttpBodyBytes; ++i) {
    clients.push_back(std::make_unique<RawClient>((*server)->port()));
    const std::string length =
        i % 2 == 0 ? "Transfer-Encoding: chunked\r\n"
                   : "Content-Length: " + std::to_string(limits::kHttpBodyBytes) + "\r\n";
    clients.back()->send("POST /tokenize HTTP/1.1\r\n" + host + json + "Expect: 100-continue\r\n" +
                         length + "\r\n");
    EXPECT_TRUE(clients.back()->read_until("100 Continue")) << i;
  }
  RawClient other((*server)->port());
  other.send(post("/tokenize", R"({"content":"a"})"));
  EXPECT_EQ(other.read_answer().status, 200);
}

TEST_F(HostileTest, BusyConnectionsLeaveAnAnswerToWhoLooksAfterThem) {
  HttpOptions options;
  options.timeouts.body = 600;  // none of them ends while the others are opened
  auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok());
  std::vector<std::unique_ptr<RawClient>> clients;
  const std::string begun =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n";
  for (std::uint32_t i = 0; i < limits::kHttpConnections; ++i) {
    clients.push_back(std::make_unique<RawClient>((*server)->port()));
    clients.back()->send(begun);
    EXPECT_TRUE(clients.back()->read_until("100 Continue")) << "its request is being read";
  }
  const auto ask_one_more = [&](const std::string& request) {
    RawClient client((*server)->port());
    client.send(request);
    RawAnswer answer = client.read_answer();
    EXPECT_TRUE(client.closed()) << "a reserved place answers once";
    return answer;
  };
  for (const char* probe : {"/livez", "/readyz", "/health", "/metrics", "/api/v1/state"}) {
    EXPECT_EQ(ask_one_more(get(probe)).status, 200) << probe;
  }
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    for (const std::string& other : {get("/v1/models"), post("/tokenize", R"({"content":"a"})")}) {
      const RawAnswer refused = ask_one_more(other);
      EXPECT_EQ(refused.status, 429);
      EXPECT_EQ(refused.error_code(), "too_many_connections");
      ids.insert(refused.headers.at("x-request-id"));
    }
  }
  EXPECT_EQ(ids.size(), 40U);
  // At once, each with its request: all of them are answered, and none is reset.
  std::vector<std::unique_ptr<RawClient>> late;
  for (std::uint32_t i = 0; i < 2 * limits::kHttpProbeConnections; ++i) {
    late.push_back(std::make_unique<RawClient>((*server)->port()));
  }
  for (const auto& client : late) client->send(get("/v1/models"));
  for (const auto& client : late) EXPECT_EQ(client->read_answer().status, 429);
  clients.clear();
  while (true) {  // their places are free as soon as the server has seen them go
    RawClient next((*server)->port());
    next.send(get("/v1/models"));
    if (next.read_answer().status == 200) break;
  }
}

}  // namespace
}  // namespace hearth::coordinator::http
