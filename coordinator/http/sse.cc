#include "coordinator/http/sse.h"

#include <cstdio>
#include <utility>

namespace hearth::coordinator::http {

std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 8);
  out += "data: ";
  out += data;
  out += "\n\n";
  return out;
}

std::string http_chunk(std::string_view bytes) {
  if (bytes.empty()) return {};
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  std::string out;
  out.reserve(bytes.size() + 24);
  out += size;
  out += bytes;
  out += "\r\n";
  return out;
}

bool SseQueue::push(std::string_view bytes) {
  if (pending_.size() >= limit_) return false;
  pending_ += bytes;
  return true;
}

std::string SseQueue::take() { return std::exchange(pending_, {}); }

}  // namespace hearth::coordinator::http
