#include <gtest/gtest.h>

#include "coordinator/http/api/head.h"

namespace hearth::coordinator::http {
namespace {

const HostNames kNames{{"swarm.home"}};

struct HostCase {
  const char* host;
  bool allowed;
};

constexpr HostCase kHosts[] = {
    {"localhost", true},
    {"localhost:1", true},
    {"localhost:65535", true},
    {"LocalHost", true},
    {"a.b.localhost:80", true},
    {"127.0.0.1", true},
    {"127.255.255.254:11434", true},
    {"[::1]", true},
    {"[::1]:8080", true},
    {"swarm.home", true},
    {"SWARM.home:80", true},
    {"", false},
    {":80", false},
    {"localhost:", false},
    {"localhost:-1", false},
    {"localhost:8 0", false},
    {"localhost:123456", false},
    {"localhost:80:80", false},
    {"localhost/", false},
    {"localhost, evil.example", false},
    {"user@localhost", false},
    {"localhost@evil.example", false},
    {"localhost#.evil.example", false},
    {"localhost.evil.example", false},
    {"evil-localhost", false},
    {"xlocalhost", false},
    {"127.1", false},
    {"127.0.0.1.", false},
    {"127.0.0.1.nip.io", false},
    {"127.0.0.0x1", false},
    {"127..0.1", false},
    {"127.0.0.1.1", false},
    {"127.0.0.0001", false},
    {"2130706433", false},
    {"0x7f000001", false},
    {"128.0.0.1", false},
    {"0", false},
    {"[::1", false},
    {"::1:80", false},
    {"[::1]x", false},
    {"[::1]:", false},
    {"[::ffff:127.0.0.1]", true},
    {"[::ffff:127.1.2.3]:80", true},
    {"[::ffff:192.168.1.20]", false},
    {"[0:0:0:0:0:0:0:1]", true},
    {"localhost.", true},
    {"localhost.:11500", true},
    {"swarm.home.", true},
    {"localhost..", false},
    {".", false},
    {"[::2]", false},
    {"swarm.home.evil.example", false},
    {"xswarm.home", false},
};

TEST(AccessTest, HostTable) {
  for (const HostCase& each : kHosts) {
    EXPECT_EQ(host_allowed(each.host, kNames), each.allowed) << each.host;
    // An http origin is allowed exactly when its host is.
    EXPECT_EQ(origin_allowed(std::string("http://") + each.host, "", kNames), each.allowed)
        << each.host;
    EXPECT_EQ(origin_allowed(std::string("https://") + each.host, "", kNames), each.allowed);
    EXPECT_FALSE(origin_allowed(each.host, "", kNames)) << "no scheme: " << each.host;
    EXPECT_FALSE(origin_allowed(std::string("ws://") + each.host, "", kNames));
  }
  EXPECT_FALSE(host_allowed("", {{""}})) << "an empty configured host allows nothing";
  EXPECT_FALSE(host_allowed(":1", {{""}}));
}

// A name server can point any name at this machine, and no name server chooses an address.
TEST(AccessTest, ReachedOverANetworkItHasAddressesToo) {
  const HostNames open{{"den", "den.local"}, true};
  for (const char* host : {"192.168.1.20:11500", "10.0.0.1", "0.0.0.0:1", "[fd00::1]:11500",
                           "[::ffff:127.0.0.1]", "den", "DEN.local:80", "localhost"}) {
    EXPECT_TRUE(host_allowed(host, open)) << host;
  }
  for (const char* host : {"evil.example", "192.168.1.20.nip.io", "192.168.1", "0x7f000001",
                           "2130706433", "192.168.1.256", "den.evil.example", "[fd00::1", "",
                           "192.168.1.20@evil.example", "[evil.example]"}) {
    EXPECT_FALSE(host_allowed(host, open)) << host;
  }
}

TEST(AccessTest, APageOfTheHostThatWasAskedMayCall) {
  const HostNames open{{"den"}, true};
  EXPECT_TRUE(origin_allowed("http://192.168.1.20:11500", "192.168.1.20:11500", open));
  EXPECT_TRUE(origin_allowed("http://den:3000", "192.168.1.20:11500", open));
  EXPECT_FALSE(origin_allowed("http://192.168.1.21:11500", "192.168.1.20:11500", open))
      << "another machine's page";
  EXPECT_FALSE(origin_allowed("http://192.168.1.20:80", "192.168.1.20:11500", open))
      << "another server's page";
  EXPECT_FALSE(origin_allowed("http://", "", open));
}

TEST(AccessTest, OnlyTheTwoListedSchemesNameHosts) {
  for (const char* origin :
       {"null", "", "http:/localhost", "http:localhost", "//localhost", "HTTP://evil.example",
        "file:", "app:/x", "chrome-extension://x", "data://localhost", "http://", "https://"}) {
    EXPECT_FALSE(origin_allowed(origin, "127.0.0.1", kNames)) << origin;
  }
}

TEST(AccessTest, APartOfAnotherSitesPageIsRefusedWithoutAnOrigin) {
  RequestHead head;
  head.method = "GET";
  head.target = "/api/v1/ledger";
  head.hosts = 1;
  head.host = "127.0.0.1:11500";
  EXPECT_FALSE(check_head(head, kNames).error);
  head.cross_site = true;
  const HeadCheck refused = check_head(head, kNames);
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->status, 403U);
  EXPECT_EQ(refused.error->code, "origin_not_allowed");
  head.origin =
      "http://localhost:3000";  // of an allowed page, which a browser may call another site
  EXPECT_FALSE(check_head(head, kNames).error);
}

// The head check asks both questions, and answers 403 with the code of the one that failed.
TEST(AccessTest, TheHeadCheckAppliesBothTables) {
  for (const HostCase& each : kHosts) {
    RequestHead head;
    head.method = "GET";
    head.target = "/livez";
    head.hosts = 1;
    head.host = each.host;
    const HeadCheck plain = check_head(head, kNames);
    EXPECT_EQ(!plain.error, each.allowed) << each.host;
    if (plain.error) {
      EXPECT_EQ(plain.error->status, 403U);
      EXPECT_EQ(plain.error->code, "host_not_allowed");
      EXPECT_FALSE(plain.close) << "nothing of a body is to come";
    }
    if (std::string(each.host).empty()) continue;
    head.host = "localhost";
    head.origin = std::string("https://") + each.host;
    const HeadCheck page = check_head(head, kNames);
    EXPECT_EQ(!page.error, each.allowed) << head.origin;
    if (page.error) {
      EXPECT_EQ(page.error->code, "origin_not_allowed");
    }
  }
}

TEST(AccessTest, TheRefusalNamesTheHostAndTheFlags) {
  RequestHead head;
  head.method = "GET";
  head.target = "/livez";
  head.hosts = 1;
  head.host = "host.docker.internal:11500";
  const HeadCheck check = check_head(head, kNames);
  ASSERT_TRUE(check.error);
  for (const char* part :
       {"'host.docker.internal'", "--host ADDRESS", "--host-name host.docker.internal"}) {
    EXPECT_NE(check.error->message.find(part), std::string::npos) << check.error->message;
  }
}

TEST(AccessTest, TargetsOfBothForms) {
  struct Case {
    const char* target;
    const char* path;  // null: refused
    unsigned status;
  };
  const Case cases[] = {
      {"/", "/", 0},
      {"/a?b=%zz", "/a", 0},
      {"/a#b%zz", "/a", 0},
      {"/%41%2e%2F", "/A./", 0},
      {"/caf%C3%A9", "/caf\xC3\xA9", 0},
      {"//evil.example/x", "//evil.example/x", 0},
      {"http://localhost:1/x", "/x", 0},
      {"https://127.0.0.1", "/", 0},
      {"http://evil.example/x", nullptr, 403},
      {"http:///x", nullptr, 403},
      {"http://localhost@evil.example/", nullptr, 403},
      {"", nullptr, 400},
      {"*", nullptr, 400},
      {"x", nullptr, 400},
      {"localhost:80", nullptr, 400},
      {"ftp://localhost/x", nullptr, 400},
      {"/%", nullptr, 400},
      {"/%1", nullptr, 400},
      {"/%g0", nullptr, 400},
      {"/a%00", nullptr, 400},
      {"/a%1f", nullptr, 400},
      {"/a\x7f", nullptr, 400},
  };
  for (const Case& each : cases) {
    RequestHead head;
    head.method = "GET";
    head.target = each.target;
    head.hosts = 1;
    head.host = "localhost";
    const HeadCheck check = check_head(head, kNames);
    if (each.path != nullptr) {
      EXPECT_FALSE(check.error.has_value()) << each.target;
      EXPECT_EQ(check.path, each.path);
    } else {
      ASSERT_TRUE(check.error.has_value()) << each.target;
      EXPECT_EQ(check.error->status, each.status) << each.target;
    }
  }
}

TEST(AccessTest, CorsIsAnsweredToTheAllowedOriginOnly) {
  HttpResponse response;
  AnswerContext context;
  context.request_id = "r";
  EXPECT_EQ(response_head(response, context, BodyFraming::kLength).find("Access-Control"),
            std::string::npos);
  context.origin = "http://localhost:3000";
  const std::string head = response_head(response, context, BodyFraming::kChunked);
  EXPECT_NE(head.find("\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n"),
            std::string::npos);
  EXPECT_NE(head.find("\r\nVary: Origin\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nTransfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos) << "never both";
  EXPECT_EQ(head.find("Allow-Origin: *"), std::string::npos);
  EXPECT_EQ(head.find("Allow-Credentials"), std::string::npos);
}

TEST(AccessTest, PreflightsListMethodsAndEchoHeaders) {
  RequestHead head;
  head.method = "OPTIONS";
  const auto value = [](const HttpResponse& response, const std::string& name) {
    for (const auto& [key, text] : response.headers) {
      if (key == name) return text;
    }
    return std::string("absent");
  };
  HttpResponse plain = options_response(head);
  EXPECT_EQ(plain.status, 204U);
  EXPECT_EQ(value(plain, "Allow"), "GET, HEAD, POST, DELETE, OPTIONS");
  EXPECT_EQ(value(plain, "Access-Control-Allow-Methods"), "absent");
  head.origin = "app://x";
  EXPECT_EQ(value(options_response(head), "Access-Control-Allow-Headers"),
            "Authorization, Content-Type");
  head.requested_headers = "x-stainless-os";
  EXPECT_EQ(value(options_response(head), "Access-Control-Allow-Headers"), "x-stainless-os");
}

}  // namespace
}  // namespace hearth::coordinator::http
