// Where a model's bytes are on the network: an address, or a file of a model hub.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/http_client.h"

namespace hearth::cli {

// A source, once a hub reference is resolved.
struct Remote {
  std::string url;
  std::string sha256;       // empty: unknown
  std::uint64_t bytes = 0;  // 0: unknown
  HttpClient::Headers headers;
};

// kInvalidInput for what is neither https:// nor http:// of this machine.
Status check_url(const std::string& url);

bool is_sha256(const std::string& text);

// org/repo/path/to/file[@revision] through the hub's resolve address (HF_ENDPOINT, HF_TOKEN).
Result<Remote> resolve_hub(HttpClient& http, std::string reference);

}  // namespace hearth::cli
