#include "coordinator/http/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <optional>
#include <thread>

#include "base/limits.h"
#include "base/peer_host.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/wire/session.h"

namespace hearth::coordinator::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Parts of limits::kHttpConnections: the most from one peer (peer_of_host) other than this machine,
// and the places reserved for this machine.
constexpr std::uint32_t kConnectionsAddress = limits::kHttpConnections / 4;
constexpr std::uint32_t kConnectionsOwn = limits::kHttpConnections / 8;

constexpr int kBacklog = 4'096;  // connections not accepted yet; the kernel may lower it

bool is_own(const asio::ip::address& from) {
  return from == asio::ip::address_v4::loopback() || from == asio::ip::address_v6::loopback();
}

// Only TLS 1.3, without resumption. The handshake accepts any certificate; its key is checked after
// the handshake, and again at each request.
Result<asio::ssl::context> member_context(const MemberLinks& links) {
  asio::ssl::context context(asio::ssl::context::tlsv13_server);
  error_code error;
  context.use_certificate_chain(asio::buffer(links.certificate), error);
  if (!error) {
    context.use_private_key(asio::buffer(links.private_key), asio::ssl::context::pem, error);
  }
  if (!error) {
    context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert |
                                asio::ssl::verify_client_once,
                            error);
  }
  if (!error)
    context.set_verify_callback([](bool, asio::ssl::verify_context&) { return true; }, error);
  if (error)
    return Error::of(ErrorCode::kIo,
                     "cannot set up TLS for the members' links to the API: ", error.message());
  ::SSL_CTX_set_num_tickets(context.native_handle(), 0);
  ::SSL_CTX_set_max_cert_list(context.native_handle(), limits::kCertificateBytes);
  return context;
}

// The API listens beyond loopback only when there are keys.
Result<asio::ip::address> listen_address(const HttpOptions& options) {
  error_code error;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  REQUIRE(!error, "'", options.host,
          "' is not an IP address that the API can listen on; --host takes an address "
          "or localhost");
  REQUIRE(address.is_loopback() || (options.store && !options.open), "the API cannot listen on '",
          options.host,
          "' without keys; use 127.0.0.1 or ::1, or create a key with hearth key create");
  return address;
}

}  // namespace

HostNames host_names(const HttpOptions& options) {
  HostNames names{options.names, false};
  names.names.push_back(options.host);
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  names.any_address = !error && !address.is_loopback();
  return names;
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(HttpOptions options, ServedModels models, CoordinatorPort& port,
                 const Clock& clock, Random& random)
      : acceptor_(io_),
        retry_(io_),
        table_(std::make_shared<SessionTable>()),
        pool_(std::max(2U, options.pool_threads)) {
    api_ = std::make_shared<Api>(
        std::move(options), std::move(models), port, clock, random,
        [this](ThreadGate::Task task) { asio::post(io_, std::move(task)); },
        [this](ThreadGate::Task task) { asio::post(pool_, std::move(task)); });
    api_->later = [this](Duration time, ThreadGate::Task task) {
      const auto timer = std::make_shared<asio::steady_timer>(io_, time);
      timer->async_wait([timer, task = std::move(task)](const error_code& error) {
        if (!error) task();
      });
    };
  }

  // Called before the first connection is served.
  Status resume() {
    if (!api_->options.requests) return ok_status();
    TRY(RequestStore::Loaded loaded, api_->options.requests->load());
    if (loaded.dropped > 0) {
      spdlog::warn("removed {} kept requests from the store: they exceed its limits",
                   loaded.dropped);
    }
    asio::post(io_, [api = api_, rows = std::move(loaded.rows)]() mutable {
      resume_requests(api, std::move(rows));
    });
    return ok_status();
  }

  Status listen() {
    TRY(const asio::ip::address address, listen_address(api_->options));
    const tcp::endpoint endpoint(address, api_->options.port);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kBacklog, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) {
      return Error::of(ErrorCode::kIo, "cannot listen on ", api_->options.host, " port ",
                       api_->options.port, ": ", error.message());
    }
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { io_.run(); });
    return ok_status();
  }

  ~HttpServerImpl() override {
    if (thread_.joinable()) {
      std::promise<void> closed;
      asio::post(io_, [this, &closed] {
        close();
        closed.set_value();
      });
      closed.get_future().wait();
    }
    api_->pool.close();
    pool_.stop();
    pool_.join();
    api_->sockets.close();
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void adopt(int native) override {
    asio::post(io_, [this, native] {
      tcp::socket socket(io_);
      sockaddr_storage at{};
      socklen_t size = sizeof at;
      ::getsockname(native, reinterpret_cast<sockaddr*>(&at), &size);
      error_code error;
      socket.assign(at.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), native, error);
      if (error) {
        ::close(native);
        return;
      }
      if (member_tls_) admit(std::move(socket), &*member_tls_);
    });
  }

  // Called before the first connection is served.
  Status open_member_links() {
    if (!api_->options.members) return ok_status();
    TRY(member_tls_, member_context(*api_->options.members));
    return ok_status();
  }

  std::uint16_t port() const override { return port_; }
  void suspend() override {
    api_->sockets.post([api = api_] { api->suspending = true; });
  }

 private:
  // Only when a connection waits: without a free descriptor, accept fails even if none waits.
  void accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](const error_code& waited) {
      if (waited == asio::error::operation_aborted) return;
      error_code error;
      tcp::socket socket = acceptor_.accept(error);
      if (!error) admit(std::move(socket));
      if (!error || error == asio::error::would_block || free_descriptor(error)) return accept();
      // Most likely there are no file descriptors left: retrying at once would spin.
      retry_.expires_after(std::chrono::milliseconds(100));
      retry_.async_wait([this](const error_code& stopped) {
        if (!stopped) accept();
      });
    });
  }

  // Other machines must not lock out this machine's users, and one address must not lock out all
  // others.
  void admit(tcp::socket socket, asio::ssl::context* tls = nullptr) {
    const asio::ip::address from = address_of(socket);
    const std::string peer = peer_of_host(from.to_string());
    const bool own = is_own(from) && tls == nullptr;
    const auto many = [&] {
      const auto found = table_->from.find(peer);
      return !own && found != table_->from.end() && found->second >= kConnectionsAddress;
    };
    const std::size_t places = limits::kHttpConnections - (own ? 0 : kConnectionsOwn);
    const auto full = [&] { return table_->open.size() - table_->reserved >= places; };
    if (many()) {
      make_room([&](const Session& other) { return other.peer() == peer; });
    } else if (full()) {
      make_room([&](const Session& other) {
        return !other.reserved() && (own || !is_own(other.from()));
      });
    }
    if (!many() && !full()) return start(std::move(socket), false, tls);
    const auto no_reserved = [&] { return table_->reserved >= limits::kHttpProbeConnections; };
    if (own && no_reserved()) make_room([](const Session& other) { return other.reserved(); });
    if (own && !no_reserved()) return start(std::move(socket), true);
    if (tls != nullptr || api_->authorization.asks_keys()) {
      api_->authorization.log_refusal("too many connections at once");
    }
    if (tls != nullptr) return;
    Refusal::start(std::move(socket), crowded_answer(*api_), table_->refusals);
  }

  void start(tcp::socket socket, bool probes_only, asio::ssl::context* tls = nullptr) {
    std::make_shared<Session>(std::move(socket), api_, table_, probes_only, tls)->begin();
  }

  void make_room(const std::function<bool(const Session&)>& may_go) {
    if (const auto session = idlest(may_go)) session->give_way();
  }

  // Closes the connection that has been idle for longest, without an answer, because an answer
  // would hold the descriptor longer. False: descriptors are not the reason of `error`, or no
  // connection is idle.
  bool free_descriptor(const error_code& error) {
    if (error != asio::error::no_descriptors) return false;
    const auto session = idlest([](const Session&) { return true; });
    if (session) session->abort();
    return session != nullptr;
  }

  // The connection that has been idle for longest, of those that may be evicted.
  std::shared_ptr<Session> idlest(const std::function<bool(const Session&)>& may_go) const {
    std::shared_ptr<Session> longest;
    std::optional<TimePoint> since;
    for (const auto& [key, session] : table_->open) {
      const auto idle = may_go(*session) ? session->idle_since() : std::nullopt;
      if (!idle || (since && *idle >= *since)) continue;
      since = idle;
      longest = session;
    }
    return longest;
  }

  void close() {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    const auto open = table_->open;
    for (const auto& [key, session] : open) session->abort();
    // Generations and the Api refer to each other.
    api_->generations.clear();
    api_->kept.clear();
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::optional<asio::ssl::context> member_tls_;
  std::shared_ptr<SessionTable> table_;
  asio::thread_pool pool_;
  std::shared_ptr<Api> api_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, ServedModels models,
                                                      CoordinatorPort& port, const Clock& clock,
                                                      Random& random) {
  auto server =
      std::make_unique<HttpServerImpl>(std::move(options), std::move(models), port, clock, random);
  TRY_VOID(server->open_member_links());
  TRY_VOID(server->resume());
  TRY_VOID(server->listen());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace hearth::coordinator::http
