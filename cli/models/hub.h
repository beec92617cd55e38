// Locates a model on the network: an address, or a file of a model hub.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/client/http_client.h"

namespace hearth::cli {

// A source, once a hub reference is resolved.
struct Remote {
  std::string url;
  std::string sha256;       // empty: unknown
  std::uint64_t bytes = 0;  // 0: unknown
  std::string commit;       // of a hub's repository; empty: unknown
  client::HttpClient::Headers headers;
};

// kInvalidInput unless it is https://, or http:// of this machine.
Status check_url(const std::string& url);

// Whether other machines may be told that a model came from there: hf:..., and https://... without
// user, password and query, which may be secret. Only what a manifest may name: printable ASCII
// without blanks, at most limits::kSourceBytes.
bool may_be_published(const std::string& source);

// Whether a worker asks there for a model of a manifest: hf:... and https://... alone. A manifest
// must not make a machine ask others, or itself, over http.
bool may_be_asked(const std::string& source);

bool is_sha256(const std::string& text);

// org/repo/path/to/file[@revision] through the hub's resolve address (HF_ENDPOINT, HF_TOKEN), which
// may be another one by now. Names are as people write them, with blanks if they have any.
Result<Remote> resolve_hub(client::HttpClient& http, std::string reference);

// Where hf:... or an address leads. For an address, this does not ask for `bytes`.
Result<Remote> locate(client::HttpClient& http, const std::string& source);
// Asks the server for the number of bytes, unless it is known. It stays unknown if the server does
// not state it.
Status measure(client::HttpClient& http, Remote& remote);

// The sources of all parts (model/gguf/parts.h) if `source`, an address or hf:..., names the first
// part; otherwise `source` alone. kInvalidInput for another part, with the name of the first.
Result<std::vector<std::string>> part_sources(const std::string& source);
// The same source at a commit, where it is one of a hub.
std::string at_commit(const std::string& source, const std::string& commit);

// A repository of a hub and the model of it that is meant: hf:org/repo[:quantisation][@revision],
// as llama.cpp's -hf.
struct HubRequest {
  std::string repository;    // org/repo
  std::string quantisation;  // empty: not said
  std::string revision;      // empty: main
};
// Nothing for a source that names a file, or does not begin with hf:.
std::optional<HubRequest> hub_request(const std::string& source);

// Lists the repository's GGUF files (HF_ENDPOINT, HF_TOKEN) and returns the source of the model
// that is asked for: hf:org/repo/file[@revision], of a model in parts the first. kInvalidInput
// lists the models where none or more than one is meant.
Result<std::string> choose_in_hub(client::HttpClient& http, const HubRequest& request);

}  // namespace hearth::cli
