#include "coordinator/http/wire/sse.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {
namespace {

// The reading side of the event stream format: the data of every event, comments skipped.
std::vector<std::string> read_events(std::string_view text) {
  std::vector<std::string> events;
  std::string data;
  bool any = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {"broken: a line without its end"};
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty()) {
      if (any) events.push_back(data);
      data.clear();
      any = false;
    } else if (line.starts_with("data:")) {
      line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
      if (any) data += '\n';
      data += line;
      any = true;
    } else if (!line.starts_with(':')) {
      return {"broken: " + std::string(line)};
    }
  }
  return events;
}

// The reading side of chunked transfer coding.
std::string read_chunks(std::string_view text, bool& ended) {
  std::string out;
  ended = false;
  while (!text.empty() && !ended) {
    const std::size_t line = text.find("\r\n");
    if (line == std::string_view::npos) return "broken size";
    const std::size_t size = std::stoul(std::string(text.substr(0, line)), nullptr, 16);
    text.remove_prefix(line + 2);
    if (text.size() < size + 2 || text.substr(size, 2) != "\r\n") return "broken chunk";
    out += text.substr(0, size);
    text.remove_prefix(size + 2);
    ended = size == 0;
  }
  if (!text.empty()) return "bytes after the end";
  return out;
}

TEST(SseTest, AnyTextSurvivesJsonEventsAndChunks) {
  SeededRandom random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> sent;
    std::string queue;
    std::string wire;
    for (std::uint64_t i = random.next() % 20; i > 0; --i) {
      std::string text;
      for (std::uint64_t n = random.next() % 40; n > 0; --n) {
        text += static_cast<char>(random.next() % 256);  // line ends, colons, broken UTF-8
      }
      sent.push_back(dump(OrderedJson(text)));
      queue += sse_event(sent.back());
      if (random.next() % 3 == 0) queue += kSsePing;
      if (random.next() % 2 == 0) wire += http_chunk(std::exchange(queue, {}));
    }
    wire += http_chunk(queue);
    wire += http_chunk("");  // nothing: must not end the body
    wire += kLastChunk;
    bool ended = false;
    ASSERT_EQ(read_events(read_chunks(wire, ended)), sent);
    EXPECT_TRUE(ended);
  }
}

TEST(SseTest, ChunkSizesAtTheBordersOfHexDigits) {
  for (const std::size_t size : {1U, 9U, 10U, 15U, 16U, 255U, 256U, 4095U, 4096U, 65'536U}) {
    const std::string bytes(size, 'x');
    bool ended = true;
    EXPECT_EQ(read_chunks(http_chunk(bytes), ended), bytes) << size;
    EXPECT_FALSE(ended);
  }
}

}  // namespace
}  // namespace hearth::coordinator::http
