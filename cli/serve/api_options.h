// The API of a server as its flags and its folder have it: who may use it, and where.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/home/cluster_file.h"
#include "cli/serve/serve.h"
#include "coordinator/http/api/options.h"
#include "coordinator/store/store.h"

namespace hearth::cli {

// On loopback, the API is open to users of this machine; beyond it, requests need a key. `term`:
// as in open_server_store().
Result<coordinator::http::HttpOptions> api_options(const ServeOptions& options,
                                                   std::shared_ptr<coordinator::Store> store,
                                                   const coordinator::LeaseTerm& term);

// Other machines can reach nothing until this machine has an identity for them. kNotFound says what
// to do.
Status check_host(const ServeOptions& options);

// Where the cluster's other machines reach the API; empty: nowhere. A cluster on loopback has all
// its machines here.
std::string api_address_of(const ServeOptions& options, const std::optional<Cluster>& cluster,
                           std::uint16_t port);

}  // namespace hearth::cli
