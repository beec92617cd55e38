#include "cli/serve/standby.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/server_file.h"
#include "cli/process/background.h"
#include "cli/process/loop.h"
#include "cli/process/paths.h"
#include "cli/serve/offered_models.h"
#include "coordinator/client/api_address.h"
#include "coordinator/http/wire/refusal.h"
#include "coordinator/store/place.h"
#include "coordinator/store/store.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using coordinator::LeasePeer;
using coordinator::LeaseView;
using coordinator::LeaseWatch;

constexpr auto kConnectTime = std::chrono::seconds(2);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr std::size_t kPipeBytes = 16 * limits::kKiB;

std::string host_part(const std::string& name) { return name.substr(0, name.find(',')); }

Result<tcp::endpoint> endpoint_of(const std::string& address) {
  TRY(const Address parsed, parse_address(address));
  error_code failed;
  const auto host = asio::ip::make_address(parsed.host, failed);
  REQUIRE(!failed, address, " is not a numeric address");
  return tcp::endpoint(host, parsed.port);
}

// One connection of a client, and one to the leader: each byte goes to the other side.
class Forwarding : public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(tcp::socket client, std::string answer, coordinator::http::Refusals& refusals)
      : client_(std::move(client)),
        leader_(client_.get_executor()),
        timer_(client_.get_executor()),
        answer_(std::move(answer)),
        refusals_(refusals) {}

  // `answer`: where the leader cannot be reached.
  void start(const tcp::endpoint& leader) {
    timer_.expires_after(kConnectTime);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->leader_.close();
    });
    leader_.async_connect(leader, [self = shared_from_this()](const error_code& error) {
      self->timer_.cancel();
      if (error || !self->leader_.is_open()) return self->refuse();
      self->copy(self->client_, self->leader_, self->to_leader_);
      self->copy(self->leader_, self->client_, self->to_client_);
    });
  }
  void refuse() {
    coordinator::http::Refusal::start(std::move(client_), std::move(answer_), refusals_);
  }
  void close() {
    error_code ignored;
    client_.close(ignored);
    leader_.close(ignored);
  }

 private:
  using Buffer = std::array<char, kPipeBytes>;

  // Until one side ends; the other side's unsent bytes are then of no use to anyone.
  void copy(tcp::socket& from, tcp::socket& to, Buffer& buffer) {
    from.async_read_some(asio::buffer(buffer), [self = shared_from_this(), &from, &to, &buffer](
                                                   const error_code& error, std::size_t bytes) {
      if (error) return self->close();
      asio::async_write(to, asio::buffer(buffer, bytes),
                        [self, &from, &to, &buffer](const error_code& failed, std::size_t) {
                          if (failed) return self->close();
                          self->copy(from, to, buffer);
                        });
    });
  }

  tcp::socket client_;
  tcp::socket leader_;
  asio::steady_timer timer_;
  std::string answer_;
  coordinator::http::Refusals& refusals_;
  Buffer to_leader_{};
  Buffer to_client_{};
};

// The API of a standby.
class Front {
 public:
  Front(asio::io_context& io, const LeaseWatch& lease, std::string listens)
      : acceptor_(io), pause_(io), lease_(lease), listens_(std::move(listens)) {}

  Status open(std::uint16_t port) {
    TRY(const tcp::endpoint at, endpoint_of(Address{listens_, port}.text()));
    error_code failed;
    acceptor_.open(at.protocol(), failed);
    if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed) acceptor_.bind(at, failed);
    if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) {
      return Error::of(ErrorCode::kIo, "the API cannot listen on ", listens_, ":", port, ": ",
                       failed.message(), "; choose another one with --port");
    }
    accept();
    return ok_status();
  }
  void close() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (const auto& each : open_) {
      if (const auto forwarding = each.lock()) forwarding->close();
    }
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket client) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        take(std::move(client));
        return accept();
      }
      // Such as: no file descriptor is left.
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](const error_code& ended) {
        if (!ended && acceptor_.is_open()) accept();
      });
    });
  }
  void take(tcp::socket client) {
    std::erase_if(open_, [](const auto& each) { return each.expired(); });
    const LeaseView view = lease_.view();
    const auto way = way_to_leader(view.leader, lease_.self(), listens_);
    const bool leads = view.left > Duration(0);
    const bool is_full = open_.size() >= limits::kHttpConnections;
    const std::string why = is_full  ? "it forwards as many connections as it may"
                            : !leads ? "no coordinator leads now"
                            : !way   ? "this machine cannot reach the leader's API"
                                     : "the leader does not answer";
    const auto forwarding = std::make_shared<Forwarding>(
        std::move(client), standby_answer(view.leader, why), refusals_);
    const auto leader = way ? endpoint_of(*way) : Result<tcp::endpoint>(Error{});
    if (is_full || !leads || !leader.ok()) return forwarding->refuse();
    open_.push_back(forwarding);
    forwarding->start(*leader);
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const LeaseWatch& lease_;
  const std::string listens_;
  coordinator::http::Refusals refusals_;
  std::vector<std::weak_ptr<Forwarding>> open_;
};

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

std::optional<std::string> way_to_leader(const LeasePeer& leader, const LeasePeer& self,
                                         const std::string& listens) {
  const auto address = parse_address(leader.api);
  if (!address.ok()) return std::nullopt;
  if (!client::is_loopback_address(address->host)) return leader.api;
  const bool is_near = host_part(leader.name) == host_part(self.name);
  return is_near && client::is_loopback_address(listens) ? std::optional(leader.api) : std::nullopt;
}

std::string standby_answer(const LeasePeer& leader, const std::string& why) {
  const std::string name = leader.name.empty() ? "unknown" : leader.name;
  const nlohmann::ordered_json error = {
      {"message",
       message_of("this coordinator is a standby: ", why, "; the last leader is ", name,
                  leader.api.empty() ? "" : " at ", leader.api, ". Send the request again")},
      {"type", "server_error"},
      {"code", "no_leader"},
      {"leader", leader.name}};
  const std::string body = nlohmann::ordered_json{{"error", error}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return message_of(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: "
      "1\r\nConnection: close\r\nContent-Length: ",
      body.size(), "\r\n\r\n", body);
}

Result<std::unique_ptr<LeaseWatch>> join_coordinators(ServeOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  TRY(const auto url, coordinator::read_store_url(folder));
  if (!url && options.store.empty()) return std::unique_ptr<LeaseWatch>();
  // What would end it when it is to lead ends it now.
  if (const auto models = offer_models(options); !models) return models.error();
  TRY(const auto file, ServerFile::lock(options.data_dir));
  if (!options.store.empty()) TRY_VOID(coordinator::use_store_url(folder, options.store));
  TRY(auto cluster, read_cluster(options.data_dir));
  TRY(const ServerIdentity identity, ServerIdentity::open(options.data_dir));
  if (cluster) TRY_VOID(settle_address(folder, *cluster));
  ServeOptions fixed = options;
  if (fixed.port == 0) {
    TRY(fixed.port, free_port(options.host));
  }
  const std::string keys = identity.cluster.public_key().hex() + " " + identity.node.key.hex();
  TRY(auto lease,
      LeaseWatch::start(folder, api_of(fixed, cluster), control_of(fixed, cluster), keys));
  if (lease != nullptr) options.port = fixed.port;
  return lease;
}

Result<bool> wait_for_lease(const ServeOptions& options, const LeaseWatch& lease) {
  if (lease.led() > 0) return true;
  TRY(const auto file, ServerFile::lock(options.data_dir));
  Loop loop;
  Front front(loop.io(), lease, options.host);
  bool is_open = false;
  bool ends = false;
  std::optional<Error> failed;
  std::string told;
  const auto on_timer = [&] {
    if (lease.led() > 0) return loop.stop();
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
