#include "coordinator/http/api/head.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "coordinator/http/api/router.h"
#include "coordinator/http/wire/sse.h"

namespace hearth::coordinator::http {
namespace {

const HostNames kHostNames{{"127.0.0.1"}};

TEST(AccessTest, HostsOfThisMachineOnly) {
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "[::1]:1",
                           "127.9.9.9", "hearth.localhost", "mine"}) {
    EXPECT_TRUE(host_allowed(host, {{"mine"}})) << host;
  }
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                           "127.0.0", "127.0.0.1:99999999", "localhost:80x", "[::1", "0.0.0.0",
                           "192.168.1.2", "127.0.0.1@evil.example"}) {
    EXPECT_FALSE(host_allowed(host, kHostNames)) << host;
  }
}

TEST(AccessTest, OriginsOfThisMachineAndDesktopShells) {
  for (const char* origin : {"http://localhost:3000", "https://127.0.0.1", "app://x", "file://",
                             "tauri://localhost", "vscode-webview://a"}) {
    EXPECT_TRUE(origin_allowed(origin, "", kHostNames)) << origin;
  }
  for (const char* origin :
       {"null", "http://evil.example", "http://localhost.evil.example", "ftp://localhost"}) {
    EXPECT_FALSE(origin_allowed(origin, "", kHostNames)) << origin;
  }
}

TEST(AccessTest, PathsAreDecodedOnce) {
  std::string out;
  EXPECT_TRUE(decode_path("/a%2Fb%2541", out));
  EXPECT_EQ(out, "/a/b%41");
  for (const char* bad : {"/%", "/%4", "/%zz", "/%00", "/%0a", "/%7f"}) {
    EXPECT_FALSE(decode_path(bad, out)) << bad;
  }
}

RequestHead good() {
  RequestHead head;
  head.method = "POST";
  head.target = "/tokenize?x=1";
  head.hosts = 1;
  head.host = "localhost";
  head.content_lengths = 1;
  head.content_length = 2;
  return head;
}

TEST(HeadTest, GoodHeadsPass) {
  const HeadCheck check = check_head(good(), kHostNames);
  EXPECT_FALSE(check.error.has_value());
  EXPECT_EQ(check.path, "/tokenize");
  EXPECT_FALSE(check_body_head(good()).has_value());
  RequestHead json = good();
  json.content_type = "Application/JSON; charset=utf-8";
  json.expect = "100-Continue";
  EXPECT_FALSE(check_body_head(json).has_value());
}

TEST(HeadTest, BrokenFramingCloses) {
  RequestHead head = good();
  head.transfer_encodings = 1;
  head.transfer_encoding = "chunked";
  HeadCheck check = check_head(head, kHostNames);
  ASSERT_TRUE(check.error.has_value());
  EXPECT_TRUE(check.close);
  head.content_lengths = 0;
  EXPECT_FALSE(check_head(head, kHostNames).error.has_value());
  head.transfer_encoding = "chunked, identity";
  EXPECT_TRUE(check_head(head, kHostNames).close);
  head = good();
  head.version = 20;
  EXPECT_EQ(check_head(head, kHostNames).error->status, 505U);
}

TEST(HeadTest, ResponsesCarryTheirLengthAndId) {
  HttpResponse response;
  response.body = "{}";
  AnswerContext context;
  context.request_id = "req-1";
  const std::string text = response_head(response, context, BodyFraming::kLength);
  EXPECT_NE(text.find("HTTP/1.1 200 OK\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nContent-Length: 2\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nx-request-id: req-1\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
  EXPECT_EQ(text.find("Date"), std::string::npos) << "no date rather than a wrong one";
  context.date = http_date(784'111'777);
  EXPECT_NE(response_head(response, context, BodyFraming::kChunked)
                .find("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            std::string::npos);
}

TEST(HeadTest, DatesAreThoseOfHttp) {
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(951'782'400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(http_date(4'102'444'799), "Thu, 31 Dec 2099 23:59:59 GMT");
}

TEST(RouterTest, MethodsAndPaths) {
  EXPECT_NE(find_route("POST", "/v1/chat/completions").handler, nullptr);
  EXPECT_NE(find_route("HEAD", "/health").handler, nullptr);
  EXPECT_NE(find_route("GET", "/v1/models/org/name").handler, nullptr);
  const RouteMatch wrong = find_route("GET", "/v1/chat/completions");
  ASSERT_TRUE(wrong.refusal.has_value());
  EXPECT_EQ(wrong.refusal->status, 405U);
  EXPECT_EQ(wrong.refusal->headers.front().first, "Allow");
  EXPECT_EQ(find_route("GET", "/v1/models/").refusal->status, 404U);
  EXPECT_EQ(find_route("POST", "/v1/audio/speech").refusal->status, 404U);
}

TEST(SseTest, Frames) {
  EXPECT_EQ(sse_event("{}"), "data: {}\n\n");
  EXPECT_EQ(http_chunk("0123456789abcdef0"), "11\r\n0123456789abcdef0\r\n");
  EXPECT_EQ(http_chunk(""), "");
}

TEST(HeadTest, WhatAClientComesBackWithIsOnePlainValue) {
  RequestHead head;
  head.content_length = 2;
  const auto code = [&] {
    const auto error = check_body_head(head);
    return error ? *error->code : std::string();
  };
  for (const std::string& good :
       {std::string("k"), std::string("a key, \"quoted\""), std::string(255, 'x')}) {
    head.idempotency_keys = {good};
    EXPECT_EQ(code(), "") << good;
  }
  const std::vector<std::vector<std::string>> wrong = {{""},         {std::string(256, 'x')},
                                                       {"a", "a"},   {std::string("a\0b", 3)},
                                                       {"t\tb"},     {"\x7f"},
                                                       {"k\xc3\xa9"}};
  for (const auto& bad : wrong) {
    head.idempotency_keys = bad;
    EXPECT_EQ(code(), "bad_idempotency_key") << bad.front();
  }
  head.idempotency_keys = {"k"};
  for (const auto& bad : wrong) {
    if (bad.front().size() == 256) continue;
    head.last_event_ids = bad;
    EXPECT_EQ(code(), "bad_last_event_id") << bad.front();
  }
  head.last_event_ids = {std::string(limits::kLastEventIdBytes + 1, '1')};
  EXPECT_EQ(code(), "bad_last_event_id");
  head.last_event_ids = {"0123456789abcdef-1"};
  EXPECT_EQ(code(), "");
  head.idempotency_keys.clear();
  EXPECT_EQ(code(), "bad_last_event_id") << "there is nothing to go on with";
}

}  // namespace
}  // namespace hearth::coordinator::http
