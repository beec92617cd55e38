// Server-sent events: framing, and the bounded queue between a generation and a slow socket.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hearth::coordinator::http {

// "data: ...\n\n", with "id: ...\n" before it unless that is empty.
std::string sse_event(std::string_view data, std::string_view id = {});
inline constexpr std::string_view kSsePing = ": ping\n\n";  // a comment: clients skip it
inline constexpr std::string_view kSseDone = "[DONE]";

// One chunk of HTTP/1.1 chunked transfer coding; an empty one would end the body, so it is none.
std::string http_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Bytes on their way to one client. None are taken while `limit` are already unread: the client is
// then cut off. A single event larger than the limit (the hashes of a long prompt) counts as half
// of it, so that what follows at once still finds room.
class SseQueue {
 public:
  explicit SseQueue(std::size_t limit) : limit_(limit) {}
  // False: the client does not read. Nothing was added.
  bool push(std::string_view bytes);
  // Everything queued, as one write.
  std::string take();
  bool empty() const { return pending_.empty(); }
  std::size_t size() const { return pending_.size(); }

 private:
  std::size_t limit_;
  std::size_t unread_ = 0;
  std::string pending_;
};

}  // namespace hearth::coordinator::http
