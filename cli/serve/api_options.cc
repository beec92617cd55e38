#include "cli/serve/api_options.h"

#include <algorithm>
#include <utility>

#include "cli/home/own_address.h"
#include "cli/process/paths.h"
#include "coordinator/client/api_address.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/requests.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

// The id of the key that hearth init left in the folder; empty: none, or it was revoked.
Result<std::string> owner_key_id(const ServeOptions& options, coordinator::Store& store) {
  const auto file = read_admin_key(data_folder(options.data_dir));
  if (!file && file.error().code == ErrorCode::kNotFound) return std::string();
  if (!file) return file.error();
  const std::string_view text = as_text(*file);
  const auto key = coordinator::check_key(store, text.substr(0, text.find('\n')));
  if (!key && key.error().code != ErrorCode::kRefused) return key.error();
  return key ? key->id : std::string();
}

}  // namespace

Result<coordinator::http::HttpOptions> api_options(const ServeOptions& options,
                                                   std::shared_ptr<coordinator::Store> store,
                                                   const coordinator::LeaseTerm& term) {
  coordinator::http::HttpOptions http;
  http.secret = store->secret_key();
  TRY(const auto requests, coordinator::open_request_store(data_folder(options.data_dir), term));
  if (options.no_resume) TRY_VOID(requests->clear());
  if (!options.no_resume) http.requests = requests;
  http.host = options.host;
  http.port = options.port;
  http.version = HEARTH_VERSION;
  http.policy.verify = options.verify;
  http.policy.min_level = options.min_level;
  http.drafts = !options.no_speculation;
  http.store = std::move(store);
  http.open = client::is_loopback_address(options.host);
  TRY(http.owner_key, owner_key_id(options, *http.store));
  if (http.open) return http;
  http.names = options.host_names;
  http.names.insert(http.names.end(), {host_name(), host_name() + ".local"});  // so mDNS knows it
  TRY(const auto keys, http.store->keys());
  const auto valid = [](const coordinator::ApiKey& key) { return !key.revoked; };
  if (std::none_of(keys.begin(), keys.end(), valid)) {
    return Error{ErrorCode::kRefused,
                 "--host opens the API to other machines, which requires an API key, and no valid "
                 "key exists: hearth key create NAME"};
  }
  return http;
}

Status check_host(const ServeOptions& options) {
  if (client::is_loopback_address(options.host)) {
    if (options.host_names.empty()) return ok_status();
    return Error::of(ErrorCode::kNotFound,
                     "--host-name is for clients on other machines, but the API on ", options.host,
                     " accepts only this machine; add --host ADDRESS, or omit --host-name");
  }
  const auto cluster = need_cluster(options.data_dir);
  if (cluster.ok()) return ok_status();
  return Error{
      cluster.error().code,
      "--host " + options.host +
          " opens the API to other machines, which requires a cluster: " + cluster.error().message};
}

std::string api_address_of(const ServeOptions& options, const std::optional<Cluster>& cluster,
                           std::uint16_t port) {
  if (!cluster) return "";
  const bool every = client::dialled_host(options.host) != options.host;
  const std::string host = every ? cluster->host : options.host;
  const bool reached =
      !client::is_loopback_address(host) || client::is_loopback_address(cluster->host);
  return reached ? Address{host, port}.text() : "";
}

}  // namespace hearth::cli
