#include "cli/http_client.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth::cli {
namespace {

std::vector<std::string> events_of(const std::vector<std::string>& pieces) {
  EventStreamParser parser;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    parser.push(piece, [&](std::string_view event, const std::string&) {
      events.emplace_back(event);
      return true;
    });
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
  parser.push(stream, [&](std::string_view, const std::string& id) {
    ids.push_back(id);
    return true;
  });
  EXPECT_EQ(ids, (std::vector<std::string>{"", "1-2", "1-2", "3"}));
}

TEST(EventStreamParser, StopsWhenAsked) {
  EventStreamParser parser;
  int count = 0;
  EXPECT_FALSE(
      parser.push(kStream, [&](std::string_view, const std::string&) { return ++count < 2; }));
  EXPECT_EQ(count, 2);
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
}  // namespace hearth::cli
