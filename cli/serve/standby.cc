#include "cli/serve/standby.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>
#include <utility>

#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/server_file.h"
#include "cli/process/background.h"
#include "cli/process/loop.h"
#include "cli/process/paths.h"
#include "cli/process/process_log.h"
#include "cli/serve/front.h"
#include "cli/serve/offered_models.h"
#include "coordinator/client/api_address.h"
#include "coordinator/store/place.h"
#include "coordinator/store/store.h"
#include "coordinator/store/stored_log.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using coordinator::LeaseView;
using coordinator::LeaseWatch;

// A port that is free now.
Result<std::uint16_t> free_port(const std::string& host) {
  TRY(const tcp::endpoint at, endpoint_of(Address{host, 0}.text()));
  asio::io_context io;
  tcp::acceptor acceptor(io);
  error_code failed;
  acceptor.open(at.protocol(), failed);
  if (!failed) acceptor.bind(at, failed);
  const auto bound = failed ? tcp::endpoint() : acceptor.local_endpoint(failed);
  if (failed) {
    return Error::of(ErrorCode::kIo, "no port is free on ", host, ": ", failed.message(),
                     "; choose one with --port");
  }
  return bound.port();
}

// As other machines dial it, where they can.
std::string api_of(const ServeOptions& options, const std::optional<Cluster>& cluster) {
  const bool every = client::dialled_host(options.host) != options.host;
  const std::string host = every && cluster ? cluster->host : client::dialled_host(options.host);
  return Address{host, options.port}.text();
}

std::string control_of(const ServeOptions& options, const std::optional<Cluster>& cluster) {
  if (!cluster) return "";
  const std::uint16_t port =
      options.control_port != 0 ? options.control_port : cluster->control_port;
  return Address{cluster->host, port}.text();
}

}  // namespace

Result<std::unique_ptr<LeaseWatch>> join_coordinators(ServeOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  TRY(const auto url, coordinator::read_store_url(folder));
  if (!url && options.store.empty()) return std::unique_ptr<LeaseWatch>();
  // What would end it when it is to lead ends it now.
  if (const auto models = offer_models(options); !models) return models.error();
  TRY(const auto file, ServerFile::lock(options.data_dir));
  if (!options.store.empty()) TRY_VOID(coordinator::use_store_url(folder, options.store));
  if (!options.no_receipts) TRY_VOID(coordinator::check_log_on_disk(folder));
  TRY(auto cluster, read_cluster(options.data_dir));
  TRY(const ServerIdentity identity, ServerIdentity::open(options.data_dir));
  if (cluster) TRY_VOID(settle_address(folder, *cluster));
  ServeOptions fixed = options;
  if (fixed.port == 0) {
    TRY(fixed.port, free_port(options.host));
  }
  // Before the lease's thread starts, which may log at once.
  if (!options.no_log_file) log_to_file_or_warn(server_log_file(options.data_dir));
  options.no_log_file = true;  // it is open
  const std::string keys = identity.cluster.public_key().hex() + " " + identity.node.key.hex();
  TRY(auto lease,
      LeaseWatch::start(folder, api_of(fixed, cluster), control_of(fixed, cluster), keys));
  if (lease != nullptr) options.port = fixed.port;
  return lease;
}

Result<bool> wait_for_lease(ServeOptions& options, const LeaseWatch& lease) {
  if (lease.led() > 0) return true;
  TRY(const auto file, ServerFile::lock(options.data_dir));
  Loop loop;
  Front front(loop.io(), lease.self(), options.host, [&lease] { return lease.view(); });
  bool is_open = false;
  bool ends = false;
  std::optional<Error> failed;
  std::string told;
  const auto on_timer = [&] {
    if (lease.led() > 0) return loop.stop();
    front.follow();
    const LeaseView view = lease.view();
    // At its start, a coordinator that is alone leads a moment later.
    if (!is_open && view.left <= Duration(0)) return;
    if (!is_open) {
      is_open = true;
      const Status listening = front.open(options.port);
      ServerInfo info;
      info.api = "http://" + lease.self().api;
      info.control = lease.self().control.empty() ? "standby" : lease.self().control;
      info.pid = ::getpid();
      info.listens = options.host;
      const Status written = file->write(info);
      if (!listening.ok()) failed = listening.error();
      if (!written.ok()) failed = written.error();
      if (failed) return loop.stop();
    }
    if (view.leader.name == told || view.left <= Duration(0)) return;
    told = view.leader.name;
    spdlog::info(
        "standby: the coordinator on {} leads (API {}); this one takes over when its "
        "lease ends",
        told, view.leader.api);
    report_ready(message_of("the server waits in the background as a standby, process ", ::getpid(),
                            "; the coordinator on ", told, " leads"));
  };
  loop.run(on_timer, [&] {
    ends = true;
    loop.stop();
  });
  front.close();
  if (failed) return *failed;
  return !ends;
}

}  // namespace hearth::cli
