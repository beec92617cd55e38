// The server that this machine's commands use by default, according to its data folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "coordinator/client/http_client.h"
#include "coordinator/client/swarm_view.h"

namespace hearth::cli {

// The base URL of the server: the flag, HEARTH_HOST, the server that runs on this machine, the one
// of the cluster that it has joined (a worker over its own link, without a key), the default. A
// client's machine that has joined has a key of that server's API, which becomes `api_key` where
// none is given; so does hearth init's admin key on the coordinator's own machine. Neither key is
// sent to any other server.
std::string server_base(const std::string& given, std::string& api_key);
// What to do when no server answers; depends on whether this machine has joined a cluster.
std::string no_server_step();
// The error of a request to `api_base` that no server answered, with what to do.
Error no_server(const client::HttpClient& http, const std::string& api_base);
// POSTs JSON to a route of the server and returns the object that it answers. kUnavailable, with
// what to do, when no server answers; otherwise the server's own error.
Result<nlohmann::json> post_to_server(client::HttpClient& http, const std::string& api_base,
                                      const std::string& api_key, const std::string& route,
                                      const nlohmann::json& body);
struct SwarmAnswer {
  std::string json;  // one line
  client::SwarmView view;
};
// GET /api/v1/state. kUnavailable, with what to do, when no server answers; kRefused without a key.
Result<SwarmAnswer> fetch_swarm(client::HttpClient& http, const std::string& api_base,
                                const std::string& api_key);

}  // namespace hearth::cli
