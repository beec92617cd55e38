#include "cli/home/own_server.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/home/cluster_file.h"
#include "cli/home/member.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "coordinator/client/api_address.h"
#include "coordinator/client/api_client.h"
#include "coordinator/client/parse_reply.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

// The key of hearth init, for this machine's user. It is used only while the server that it belongs
// to runs here.
std::string own_admin_key(const std::string& address) {
  const auto running = read_server_file("");
  struct stat lock {};
  std::ifstream locks("/proc/locks");
  const std::string held{std::istreambuf_iterator<char>(locks), {}};
  // A file that a killed server left does not say which program listens there now.
  if (!running.ok() || ::stat((data_folder("") + "/serve.lock").c_str(), &lock) != 0 ||
      !holds_lock(held, running->pid, lock.st_ino)) {
    return "";
  }
  const auto asked = client::parse_api_address(address);
  const auto served = client::parse_api_address(running->api);
  if (!asked.ok() || !served.ok() ||
      asked->port.value_or(client::kDefaultApiPort) !=
          served->port.value_or(client::kDefaultApiPort)) {
    return "";
  }
  // At another address of this machine, another program may listen on that port, unless the server
  // listens on all addresses.
  const bool all = running->listens == "0.0.0.0" || running->listens == "::";
  const bool ours = all && client::is_ip_address(asked->host) && client::is_own_host(asked->host);
  if (asked->host != served->host && !ours) return "";
  const auto key = read_admin_key(data_folder(""));
  if (!key.ok()) return "";
  const std::string_view text = as_text(*key);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string no_server_step() {
  const auto member = read_member_file("");
  if (!member.ok() || !*member) return "start one: hearth serve --model MODEL";
  if ((*member)->role == Role::kWorker) {
    return "this machine is worker " + (*member)->node +
           " and its coordinator should be there; start hearth serve on that machine. If that "
           "machine's address has changed, run once on this machine: hearth join ADDRESS:" +
           std::to_string(kClusterPort);
  }
  return "this machine is " + (*member)->node +
         " of a cluster. If hearth serve ... --host 0.0.0.0 runs on the coordinator's machine, the "
         "address of that machine has changed; run once on this machine: hearth join ADDRESS:" +
         std::to_string(kClusterPort);
}

Error no_server(const client::HttpClient& http, const std::string& api_base) {
  if (!http.connected() || http.answered()) {
    return Error::of(ErrorCode::kUnavailable, "no server at ", api_base, "; ", no_server_step());
  }
  const auto asked = client::parse_api_address(api_base);
  const std::string host = asked.ok() ? asked->host : "";
  return Error::of(ErrorCode::kUnavailable, "the program at ", api_base,
                   " does not answer as an API; its port may be the one that ",
                   "workers connect to (", kClusterPort,
                   " by default). Pass the API's address: --host ",
                   Address{host, client::kDefaultApiPort}.text());
}

std::string server_base(const std::string& given, std::string& api_key) {
  std::string text = given;
  if (text.empty()) {
    const auto running = read_server_file("");
    if (running.ok()) text = running->api;
  }
  if (const auto member = read_member_api("");
      member && (text.empty() || text == member->address)) {
    text = member->address;
    if (api_key.empty()) api_key = member->key;
  }
  if (text.empty()) {
    if (const auto link = open_own_link("")) return *link;
  }
  auto address = client::parse_api_address(text);
  // As the server here listens; without one 127.0.0.1 and ::1 are tried, and no key is sent there.
  if (address.ok() && address->host == "localhost") {
    const auto running = read_server_file("");
    const auto served = client::parse_api_address(running.ok() ? running->api : "");
    const bool same =
        served.ok() && served->port == address->port.value_or(client::kDefaultApiPort);
    if (same && client::is_loopback_address(served->host)) {
      address->host = served->host;
      text = running->api;
    }
  }
  if (api_key.empty()) api_key = own_admin_key(text);
  return client::api_base(address.ok() ? *address
                                       : client::ApiAddress{"127.0.0.1", client::kDefaultApiPort});
}

Result<nlohmann::json> post_to_server(client::HttpClient& http, const std::string& api_base,
                                      const std::string& api_key, const std::string& route,
                                      const nlohmann::json& body) {
  client::HttpClient::Options options;
  options.timeout = std::chrono::seconds(30);
  options.headers = client::api_headers(api_key);
  const std::string url = api_base + route;
  auto reply = http.post_json(
      url, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), options);
  if (!reply.ok()) {
    if (reply.error().code == ErrorCode::kUnavailable) return no_server(http, api_base);
    return std::move(reply).error();
  }
  if (reply->status != 200) return client::api_error(*reply, url);
  nlohmann::json said = client::parse_reply(reply->body);
  if (said.is_object()) return said;
  return Error::of(ErrorCode::kUnavailable, api_base, " is not a Hearth server of this version");
}

Result<SwarmAnswer> fetch_swarm(client::HttpClient& http, const std::string& api_base,
                                const std::string& api_key) {
  client::HttpClient::Options options;
  options.timeout = std::chrono::seconds(5);
  options.headers = client::api_headers(api_key);
  const std::string url = api_base + "/api/v1/state";
  auto reply = http.get(url, options);
  if (!reply.ok()) {
    Error error = std::move(reply).error();
    if (error.code == ErrorCode::kUnavailable) return no_server(http, api_base);
    return error;
  }
  if (reply->status == 403 && reply->body.find("admin_key_needed") != std::string::npos) {
    return Error{
        ErrorCode::kRefused,
        "the state of the swarm needs an admin key, and this key may only send prompts; on "
        "the coordinator's machine: hearth key create NAME --admin"};
  }
  for (const int said : {401, 403, 429, 503}) {
    if (reply->status == said) return client::api_error(*reply, url);
  }
  const auto state = client::parse_reply(reply->body);
  if (reply->status != 200 || !state.is_object()) {
    return Error::of(ErrorCode::kUnavailable, api_base,
                     " is not a Hearth server; pass another --host (the answer has status ",
                     reply->status, ")");
  }
  SwarmAnswer answer;
  TRY(answer.view, client::read_swarm_view(reply->body));
  answer.json = state.dump();
  return answer;
}

}  // namespace hearth::cli
