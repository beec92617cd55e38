#include "coordinator/http/wire/sse.h"

#include <cstdio>

namespace hearth::coordinator::http {

std::string sse_event(std::string_view data, std::string_view id) {
  std::string out;
  out.reserve(data.size() + id.size() + 16);
  if (!id.empty()) {
    out += "id: ";
    out += id;
    out += '\n';
  }
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

}  // namespace hearth::coordinator::http
