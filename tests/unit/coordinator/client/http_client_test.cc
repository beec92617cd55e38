#include "coordinator/client/http_client.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "tests/unit/coordinator/client/web_server.h"

namespace hearth::client {
namespace {

std::vector<std::string> events_of(const std::vector<std::string>& pieces) {
  EventStreamParser parser;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    const auto pushed = parser.push(piece, [&](std::string_view event, const std::string&) {
      events.emplace_back(event);
      return true;
    });
    EXPECT_TRUE(pushed.ok());
  }
  return events;
}

const char* const kStream =
    ": ping\n\ndata: {\"a\":1}\n\ndata:no space\r\n\r\nevent: x\nid: 7\ndata: one\ndata: two\n\n"
    ": ping\n\ndata: [DONE]\n\n";

TEST(EventStreamParser, TakesDataAndSkipsTheRest) {
  const std::vector<std::string> expected = {"{\"a\":1}", "no space", "one\ntwo", "[DONE]"};
  EXPECT_EQ(events_of({kStream}), expected);
}

TEST(EventStreamParser, TheCutOfThePiecesDoesNotMatter) {
  const std::string stream = kStream;
  const auto whole = events_of({stream});
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(events_of({stream.substr(0, cut), stream.substr(cut)}), whole) << cut;
  }
}

TEST(EventStreamParser, AnIdStaysUntilTheNext) {
  EventStreamParser parser;
  std::vector<std::string> ids;
  const std::string stream = "data: a\n\nid: 1-2\ndata: b\n\ndata: c\n\nid:3\ndata: d\n\nid: half";
  const auto pushed = parser.push(stream, [&](std::string_view, const std::string& id) {
    ids.push_back(id);
    return true;
  });
  EXPECT_TRUE(pushed.ok());
  EXPECT_EQ(ids, (std::vector<std::string>{"", "1-2", "1-2", "3"}));
}

TEST(EventStreamParser, StopsWhenAsked) {
  EventStreamParser parser;
  int count = 0;
  EXPECT_FALSE(
      *parser.push(kStream, [&](std::string_view, const std::string&) { return ++count < 2; }));
  EXPECT_EQ(count, 2);
}

// The first error of pushing a piece again and again, up to so many bytes.
std::optional<Error> error_within(std::size_t bytes, const std::string& head,
                                  const std::string& piece) {
  EventStreamParser parser;
  const auto skip = [](std::string_view, const std::string&) { return true; };
  EXPECT_TRUE(parser.push(head, skip).ok());
  for (std::size_t sent = 0; sent < bytes; sent += piece.size()) {
    if (const auto pushed = parser.push(piece, skip); !pushed.ok()) return pushed.error();
  }
  return std::nullopt;
}

TEST(EventStreamParser, AnEventIsBounded) {
  constexpr std::size_t kLimit = limits::kClientBodyBytes;
  const std::string mebibyte(1 << 20, 'x');
  EXPECT_FALSE(error_within(kLimit / 2, "data: ", mebibyte));
  EXPECT_FALSE(error_within(2 * kLimit, "", "data: " + mebibyte + "\n\n"))
      << "many events are fine";
  for (const auto& [head, piece] : {std::pair<std::string, std::string>("data: ", mebibyte),
                                    {": comment", mebibyte},
                                    {"", "data: " + mebibyte + "\n"}}) {
    const auto error = error_within(2 * kLimit, head, piece);
    ASSERT_TRUE(error) << head;
    EXPECT_EQ(error->code, ErrorCode::kInvalidInput);
  }
}

TEST(HttpClient, AnUnboundedStreamEndsWithAnError) {
  WebServer server([](const std::string& head) {
    return reply("200 OK", "Content-Type: text/event-stream\r\n",
                 std::string(limits::kClientBodyBytes + 1, 'x'), head);
  });
  HttpClient client;
  const auto got = client.post_stream(server.address(), "{}", {},
                                      [](std::string_view, const std::string&) { return true; });
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kInvalidInput);
}

TEST(HttpClient, ThisMachineIsNeverAskedThroughAProxy) {
  WebServer server([](const std::string& head) { return reply("200 OK", "", "here", head); });
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
    for (const char* others : {"", "example.org", "*"}) {
      setenv(name, "http://127.0.0.1:9", 1);
      setenv("no_proxy", others, 1);
      HttpClient client;
      std::string address = server.address();
      const auto numeric = client.get(address, {});
      const auto named = client.get(address.replace(7, 9, "localhost"), {});
      unsetenv(name);
      unsetenv("no_proxy");
      ASSERT_TRUE(numeric.ok()) << name << ": " << numeric.error().message;
      EXPECT_EQ(numeric->body, "here");
      EXPECT_TRUE(named.ok()) << name;
    }
  }
}

TEST(HttpClient, OtherMachinesAreAskedThroughTheProxy) {
  WebServer proxy([](const std::string& head) { return reply("200 OK", "", "proxied", head); });
  setenv("http_proxy", proxy.address().c_str(), 1);
  HttpClient client;
  const auto got = client.get("http://192.0.2.1/x", {});
  unsetenv("http_proxy");
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_TRUE(proxy.heads()[0].starts_with("GET http://192.0.2.1/x ")) << proxy.heads()[0];
}

TEST(HttpClient, AnAddressIsShownWithoutWhatMayBeSecret) {
  for (const auto& [url, shown] : std::vector<std::pair<std::string, std::string>>{
           {"https://a.org/m.gguf", "https://a.org/m.gguf"},
           {"https://u:p@a.org/m@1.gguf", "https://...@a.org/m@1.gguf"},
           {"https://u:p@q@a.org", "https://...@a.org"},
           {"https://a.org/m.gguf?sig=1#x", "https://a.org/m.gguf?..."},
           {"https://a.org/m.gguf#x", "https://a.org/m.gguf?..."},
           {"//u:p@a.org/m", "//...@a.org/m"},
           {"/m?sig=1", "/m?..."}}) {
    EXPECT_EQ(without_secrets(url), shown);
  }
  HttpClient client;
  const auto lost = client.get("http://user:secret@127.0.0.1:9/x?key=secret", {});
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().message.find("secret"), std::string::npos) << lost.error().message;
  const auto refused = check_redirect("https://a.org/x?secret", "http://b.org/y?secret");
  EXPECT_EQ(refused.error().message.find("secret"), std::string::npos) << refused.error().message;
}

TEST(HttpClient, RedirectsStayEncryptedOrOnThisMachine) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"https://a.org/x", "https://b.org/y"},
           {"https://a.org/x", "/y"},
           {"https://a.org/x", "//b.org/y"},
           {"http://127.0.0.1:80/x", "http://localhost:81/y"},
           {"http://[::1]/x", "y"},
           {"http://localhost/x", "https://b.org/y"}}) {
    EXPECT_TRUE(check_redirect(from, to).ok()) << from << " to " << to;
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"https://a.org/x", "http://a.org/x"},
           {"https://a.org/x", "HTTP://a.org/x"},
           {"https://a.org/x", "http:/a.org/x"},
           {"https://a.org/x", "http://127.0.0.1/x"},
           {"http://127.0.0.1/x", "http://b.org/y"},
           {"http://127.0.0.1/x", "//b.org/y"},
           {"http://127.0.0.1/x", "http://127.0.0.1.b.org/y"},
           {"https://a.org/x", "ftp://a.org/x"},
           {"https://a.org/x", "file:///etc/hostname"}}) {
    const auto refused = check_redirect(from, to);
    ASSERT_FALSE(refused.ok()) << from << " to " << to;
    EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  }
}

struct Download : ::testing::Test {
  HttpClient client;
  std::string file;
  int restarts = 0;

  Result<HttpReply> download(const std::string& url, std::uint64_t offset) {
    HttpClient::Options options;
    options.follow_redirects = true;
    return client.download(
        url, offset, options,
        [&]() -> Status {
          ++restarts;
          return ok_status();
        },
        [&](std::string_view bytes) -> Status {
          file += bytes;
          return ok_status();
        });
  }
};

TEST_F(Download, ARedirectToPlainHttpElsewhereIsRefused) {
  WebServer server([](const std::string& head) {
    if (head.starts_with("GET /here ")) return reply("200 OK", "", "file", head);
    if (head.starts_with("GET /near ")) {
      return reply("302 Found", "Location: /here\r\n", "moved", head);
    }
    return reply("302 Found", "Location: http://192.0.2.1/x\r\n", "moved", head);
  });
  const auto refused = download(server.address() + "/far", 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused) << refused.error().message;
  EXPECT_NE(refused.error().message.find("http://192.0.2.1/x"), std::string::npos);
  const auto followed = download(server.address() + "/near", 0);
  ASSERT_TRUE(followed.ok()) << followed.error().message;
  EXPECT_EQ(file, "file");
}

TEST_F(Download, APartThatBeginsElsewhereIsNotTaken) {
  std::string range;
  WebServer server(
      [&](const std::string& head) { return reply("206 Partial Content", range, "part", head); });
  for (const char* other :
       {"", "Content-Range: bytes 0-3/8\r\n", "Content-Range: bytes 40-43/80\r\n",
        "Content-Range: items 4-7/8\r\n"}) {
    range = other;
    const auto refused = download(server.address(), 4);
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  }
  EXPECT_EQ(file, "");
  range = "Content-Range: bytes 4-7/8\r\n";
  EXPECT_TRUE(download(server.address(), 4).ok());
  EXPECT_EQ(file, "part");
  EXPECT_EQ(restarts, 0);
}

TEST(HttpClient, NobodyThereIsUnavailable) {
  HttpClient client;
  const auto reply = client.get("http://127.0.0.1:9/", {});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
}

TEST(HttpClient, OtherProtocolsAreRefused) {
  HttpClient client;
  EXPECT_FALSE(client.get("file:///etc/hostname", {}).ok());
}

}  // namespace
}  // namespace hearth::client
