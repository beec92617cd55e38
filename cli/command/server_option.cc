#include "cli/command/server_option.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string_view>

#include "cli/api_address.h"
#include "cli/cluster/init.h"
#include "cli/command/network_values.h"
#include "cli/doctor/probes.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

// hearth init's, for its own machine's user: only while the server that it opens runs there.
std::string own_admin_key(const std::string& address) {
  const auto running = read_server_file("");
  struct stat lock {};
  std::ifstream locks("/proc/locks");
  const std::string held{std::istreambuf_iterator<char>(locks), {}};
  // A file that a killed server left says nothing of who listens there now.
  if (!running.ok() || ::stat((data_folder("") + "/serve.lock").c_str(), &lock) != 0 ||
      !holds_lock(held, running->pid, lock.st_ino)) {
    return "";
  }
  const auto asked = parse_api_address(address);
  const auto served = parse_api_address(running->api);
  if (!asked.ok() || !served.ok() ||
      asked->port.value_or(kDefaultApiPort) != served->port.value_or(kDefaultApiPort)) {
    return "";
  }
  // At another address of this machine somebody else may listen on that port, unless it has all.
  const bool all = running->listens == "0.0.0.0" || running->listens == "::";
  const bool ours = all && is_ip_address(asked->host) && is_own_host(asked->host);
  if (asked->host != served->host && !ours) return "";
  const auto key = read_admin_key(data_folder(""));
  if (!key.ok()) return "";
  const std::string_view text = as_text(*key);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

void add_server(CLI::App* verb, std::string& host, std::string& api_key) {
  verb->add_option("--host", host, "address of the server, e.g. 127.0.0.1:11500")
      ->check(api_host());
  verb->add_option("--api-key", api_key, "key of its API, where it asks for one")
      ->check(api_key_text());
}

Status check_can_ask(const std::string& given, const std::string& api_key) {
  if (!given.empty() || !api_key.empty() || read_server_file("").ok()) return ok_status();
  const auto member = read_member_file("");
  if (!member.ok() || !*member || (*member)->role != Role::kWorker) return ok_status();
  return Error{
      ErrorCode::kRefused,
      "this machine serves as worker " + (*member)->node +
          ", which has no key of the API. To ask from here as well, on the coordinator's machine: "
          "hearth token create --role client; and here, into a folder of its own: hearth join "
          "TOKEN --name NAME --data-dir FOLDER, then HEARTH_DATA_DIR=FOLDER hearth run ..."};
}

std::string no_server_step() {
  const auto member = read_member_file("");
  if (!member.ok() || !*member) return "start one: hearth serve --model MODEL";
  if ((*member)->role == Role::kWorker) {
    return "this machine serves as worker " + (*member)->node +
           ", and its coordinator's machine alone shows the swarm: there hearth status";
  }
  return "this machine is " + (*member)->node +
         " of a cluster, on whose coordinator's machine the server must run, for others too: there "
         "hearth serve ... --host 0.0.0.0";
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
  if (api_key.empty()) api_key = own_admin_key(text);
  const auto address = parse_api_address(text);
  return api_base(address.ok() ? *address : ApiAddress{"127.0.0.1", kDefaultApiPort});
}

}  // namespace hearth::cli
