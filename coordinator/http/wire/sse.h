// Server-sent events: their framing. Pure functions.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <string>
#include <string_view>

namespace hearth::coordinator::http {

// "data: ...\n\n", with "id: ...\n" before it unless that is empty.
inline std::string sse_event(std::string_view data, std::string_view id = {}) {
  return id.empty() ? fmt::format("data: {}\n\n", data)
                    : fmt::format("id: {}\ndata: {}\n\n", id, data);
}
inline constexpr std::string_view kSsePing = ": ping\n\n";  // a comment: clients skip it
inline constexpr std::string_view kSseDone = "[DONE]";

// One chunk of HTTP/1.1 chunked transfer coding. Nothing for no bytes: an empty chunk ends the
// body.
inline std::string http_chunk(std::string_view bytes) {
  return bytes.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace hearth::coordinator::http
