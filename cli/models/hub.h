// Locates a model on the network: an address, or a file of a model hub.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "coordinator/client/http_client.h"

namespace hearth::cli {

// A source, once a hub reference is resolved.
struct Remote {
  std::string url;
  std::string sha256;       // empty: unknown
  std::uint64_t bytes = 0;  // 0: unknown
  client::HttpClient::Headers headers;
};

// kInvalidInput unless it is https://, or http:// of this machine.
Status check_url(const std::string& url);

// Whether other machines may be told that a model came from there: hf:..., and https://... without
// user, password and query, which may be secret.
bool may_be_published(const std::string& source);

// Whether a worker asks there for a model of a manifest: hf:... and https://... alone. A manifest
// must not make a machine ask others, or itself, over http.
bool may_be_asked(const std::string& source);

bool is_sha256(const std::string& text);

// org/repo/path/to/file[@revision] through the hub's resolve address (HF_ENDPOINT, HF_TOKEN), which
// may be another one by now. Names are as people write them, with blanks if they have any.
Result<Remote> resolve_hub(client::HttpClient& http, std::string reference);

}  // namespace hearth::cli
