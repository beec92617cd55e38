// Streams: the framing of server-sent events and of lines of JSON. Pure functions.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <string>
#include <string_view>

namespace hearth::coordinator::http {

// "data: ...\n\n", with "id: ...\n" and "event: ...\n" before it unless they are empty.
inline std::string sse_event(std::string_view data, std::string_view id = {},
                             std::string_view name = {}) {
  std::string out;
  if (!id.empty()) out += fmt::format("id: {}\n", id);
  if (!name.empty()) out += fmt::format("event: {}\n", name);
  return out + fmt::format("data: {}\n\n", data);
}
inline constexpr std::string_view kSsePing = ": ping\n\n";  // a comment: clients skip it
// For lines of JSON: white space before the next line has no meaning.
inline constexpr std::string_view kLinePing = " ";

// One chunk of HTTP/1.1 chunked transfer coding. Nothing for no bytes: an empty chunk ends the
// body.
inline std::string http_chunk(std::string_view bytes) {
  return bytes.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace hearth::coordinator::http
