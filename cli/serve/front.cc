#include "cli/serve/front.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits.h"
#include "base/peer_host.h"
#include "coordinator/client/api_address.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using coordinator::LeasePeer;
using coordinator::LeaseView;

constexpr auto kConnectTime = std::chrono::seconds(2);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// As a coordinator does with a request that it refuses.
constexpr auto kDrainTime = std::chrono::seconds(2);
constexpr std::size_t kDrainBytes = 1 * limits::kMiB;
constexpr std::size_t kPipeBytes = 16 * limits::kKiB;
// The leader takes a quarter of its connections from one machine, which here is this standby for
// all its clients; one of them has at most a quarter of those.
constexpr std::size_t kForwardsOfPeer = limits::kHttpConnections / 16;

std::string host_part(const std::string& name) { return name.substr(0, name.find(',')); }

// So that a machine that vanishes without a word does not keep a connection for good.
void watch_peer(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 5);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 11'000);
}

}  // namespace

// One connection of a client, and one to the leader: each byte goes to the other side.
class Front::Forwarding : public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(tcp::socket client, std::string peer, std::string answer,
             coordinator::http::Refusals& refusals)
      : peer_(std::move(peer)),
        client_(std::move(client)),
        leader_(client_.get_executor()),
        timer_(client_.get_executor()),
        answer_(std::move(answer)),
        refusals_(refusals) {}

  const std::string& peer() const { return peer_; }
  std::uint64_t epoch() const { return epoch_; }  // of the leader

  // `answer`: where the leader cannot be reached.
  void start(const tcp::endpoint& leader, std::uint64_t epoch) {
    epoch_ = epoch;
    watch_peer(client_);
    timer_.expires_after(kConnectTime);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->leader_.close();
    });
    leader_.async_connect(leader, [self = shared_from_this()](const error_code& error) {
      self->timer_.cancel();
      if (error || !self->leader_.is_open()) return self->refuse();
      self->is_connected_ = true;
      watch_peer(self->leader_);
      self->copy(self->client_, self->leader_, self->to_leader_);
      self->copy(self->leader_, self->client_, self->to_client_);
    });
  }
  void refuse() {
    coordinator::http::Refusal::start(std::move(client_), std::move(answer_), refusals_);
  }
  void close() {
    error_code ignored;
    if (!is_connected_) return void(leader_.close(ignored));  // the answer follows
    timer_.cancel();
    client_.close(ignored);
    leader_.close(ignored);
  }

 private:
  using Buffer = std::array<char, kPipeBytes>;

  void copy(tcp::socket& from, tcp::socket& to, Buffer& buffer) {
    from.async_read_some(asio::buffer(buffer), [self = shared_from_this(), &from, &to, &buffer](
                                                   const error_code& error, std::size_t bytes) {
      if (error) return self->on_end(from, error);
      asio::async_write(to, asio::buffer(buffer, bytes),
                        [self, &from, &to, &buffer](const error_code& failed, std::size_t) {
                          if (failed) return self->on_unsent(to);
                          self->copy(from, to, buffer);
                        });
    });
  }

  void on_end(const tcp::socket& from, const error_code& error) {
    if (&from == &leader_) return end_answer();
    if (error != asio::error::eof) return close();
    // A client may end its request so, and wait for the answer.
    error_code ignored;
    has_request_ended_ = true;
    leader_.shutdown(tcp::socket::shutdown_send, ignored);
    if (is_answered_) close();
  }
  // The leader may answer before it has read the whole request, and then takes no more of it.
  void on_unsent(const tcp::socket& to) {
    if (&to == &client_) return close();
    drain();
  }
  // What the client sends is read for a while: closing with unread bytes would reset the
  // connection, and the client would lose the answer.
  void end_answer() {
    error_code ignored;
    is_answered_ = true;
    leader_.close(ignored);
    client_.shutdown(tcp::socket::shutdown_send, ignored);
    if (has_request_ended_) return close();
    timer_.expires_after(kDrainTime);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->close();
    });
  }
  void drain() {
    client_.async_read_some(
        asio::buffer(to_leader_),
        [self = shared_from_this()](const error_code& error, std::size_t bytes) {
          self->drained_ += bytes;
          if (error) return self->on_end(self->client_, error);
          if (self->drained_ < kDrainBytes) self->drain();
        });
  }

  const std::string peer_;
  std::uint64_t epoch_ = 0;
  bool is_connected_ = false;
  bool has_request_ended_ = false;
  bool is_answered_ = false;
  std::size_t drained_ = 0;
  tcp::socket client_;
  tcp::socket leader_;
  asio::steady_timer timer_;
  std::string answer_;
  coordinator::http::Refusals& refusals_;
  Buffer to_leader_{};
  Buffer to_client_{};
};

Front::Front(asio::io_context& io, LeasePeer self, std::string listens,
             std::function<LeaseView()> view)
    : acceptor_(io),
      pause_(io),
      self_(std::move(self)),
      listens_(std::move(listens)),
      view_(std::move(view)) {}

Front::~Front() = default;

Status Front::open(std::uint16_t port) {
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

// A leader that is frozen, or cut off, keeps its connections open; its answers are of no use once
// another one leads.
void Front::follow() {
  const std::uint64_t epoch = view_().epoch;
  for (const auto& each : open_) {
    const auto forwarding = each.lock();
    if (forwarding != nullptr && forwarding->epoch() < epoch) forwarding->close();
  }
}

void Front::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& each : open_) {
    if (const auto forwarding = each.lock()) forwarding->close();
  }
}

void Front::accept() {
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

void Front::take(tcp::socket client) {
  std::erase_if(open_, [](const auto& each) { return each.expired(); });
  error_code failed;
  const auto from = client.remote_endpoint(failed).address();
  const std::string peer = peer_of_host(from.to_string());
  const auto of_peer = std::ranges::count_if(open_, [&](const auto& each) {
    const auto forwarding = each.lock();
    return forwarding != nullptr && forwarding->peer() == peer;
  });
  const LeaseView view = view_();
  const auto way = way_to_leader(view.leader, self_, listens_);
  // What the last process at this address has held ends, or this one takes it.
  const bool leads = view.left > Duration(0) && view.leader.api != self_.api;
  const bool is_full = open_.size() >= limits::kHttpConnections ||
                       (!from.is_loopback() && std::cmp_greater_equal(of_peer, kForwardsOfPeer));
  const std::string why = is_full  ? "it forwards as many connections as it may"
                          : !leads ? "no coordinator leads now"
                          : !way   ? "this machine cannot reach the leader's API"
                                   : "the leader does not answer";
  const auto forwarding = std::make_shared<Forwarding>(std::move(client), peer,
                                                       standby_answer(view.leader, why), refusals_);
  const auto leader = way ? endpoint_of(*way) : Result<tcp::endpoint>(Error{});
  if (is_full || !leads || !leader.ok()) return forwarding->refuse();
  open_.push_back(forwarding);
  forwarding->start(*leader, view.epoch);
}

Result<tcp::endpoint> endpoint_of(const std::string& address) {
  TRY(const Address parsed, parse_address(address));
  error_code failed;
  const auto host = asio::ip::make_address(parsed.host, failed);
  REQUIRE(!failed, address, " is not a numeric address");
  return tcp::endpoint(host, parsed.port);
}

std::optional<std::string> way_to_leader(const LeasePeer& leader, const LeasePeer& self,
                                         const std::string& listens) {
  const auto address = parse_address(leader.api);
  // Its own address: an earlier process had it, or this one has held the lease before.
  if (!address.ok() || leader.api == self.api) return std::nullopt;
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

}  // namespace hearth::cli
