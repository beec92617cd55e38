// GET /api/v1/state of a server.
#pragma once

#include <string>

#include "base/result.h"
#include "coordinator/client/http_client.h"
#include "coordinator/client/swarm_view.h"

namespace hearth::cli {

struct SwarmAnswer {
  std::string json;  // one line
  client::SwarmView view;
};

// kUnavailable, with what to do, when no server answers; kRefused without a valid key.
Result<SwarmAnswer> fetch_swarm(client::HttpClient& http, const std::string& api_base,
                                const std::string& api_key);

}  // namespace hearth::cli
