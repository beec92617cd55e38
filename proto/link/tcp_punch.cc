#include "proto/link/tcp_punch.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace hearth {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

Error punch_error(std::string what, const boost::system::error_code& error) {
  return Error::of(ErrorCode::kUnavailable, std::move(what), ": ", error.message());
}

// The tickets of the two ends differ, so their pauses do.
std::chrono::milliseconds pause_before(std::uint32_t number, const Ticket& ticket) {
  const auto drawn = std::to_integer<std::uint32_t>(ticket.bytes[number % ticket.bytes.size()]);
  return std::chrono::milliseconds(10 + drawn % (16U << std::min(number, 4U)));
}

}  // namespace

TcpPunch::TcpPunch(asio::io_context& io, const Route& route, Done done)
    : route_(route),
      done_(std::move(done)),
      shown_{tcp::socket(io), tcp::socket(io)},
      socket_(io),
      pause_(io) {}

Status TcpPunch::begin() {
  Failure error;
  const asio::ip::address host = asio::ip::make_address(route_.address.host, error);
  if (error) return punch_error("address \"" + route_.address.text() + "\"", error);
  coordinator_ = {host, route_.address.port};
  for (tcp::socket& socket : shown_) {
    TRY_VOID(bind(socket, port_));
    port_ = socket.local_endpoint(error).port();
    if (error) return punch_error("a local port", error);
  }
  show(CoordinatorPort::kData);
  show(CoordinatorPort::kControl);
  return ok_status();
}

// Several connections from one local port, to different ends.
Status TcpPunch::bind(tcp::socket& socket, std::uint16_t port) const {
  Failure error;
  const tcp protocol = coordinator_.protocol();
  socket.open(protocol, error);
  if (!error) socket.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) socket.bind({protocol, port}, error);
  if (error) return punch_error("a local port", error);
  return ok_status();
}

void TcpPunch::show(CoordinatorPort port) {
  const bool data = port == CoordinatorPort::kData;
  tcp::socket& socket = shown_[data ? 0 : 1];
  const tcp::endpoint to(coordinator_.address(), data ? coordinator_.port() : route_.control_port);
  socket.async_connect(to, [self = shared_from_this(), &socket, port](const Failure& error) {
    if (self->done_ == nullptr) return;
    if (error) return self->finish(punch_error("connecting to the coordinator", error));
    const Bytes head = ticket_head(shown_ticket(self->route_.ticket, port));
    // A queue that holds nothing yet takes a few bytes.
    (void)::send(socket.native_handle(), head.data(), head.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (port == CoordinatorPort::kData) self->read_answer();
  });
}

void TcpPunch::read_answer() {
  const std::size_t wanted = received_ == 0 ? 1 : punch_answer_bytes(answer_[0]);
  if (received_ == wanted) return take_answer();
  shown_[0].async_read_some(
      asio::buffer(answer_.data() + received_, wanted - received_),
      [self = shared_from_this()](const Failure& error, std::size_t bytes) {
        if (self->done_ == nullptr) return;
        if (error) {
          return self->finish(
              Error::of(ErrorCode::kUnavailable,
                        "the coordinator gives no address of the other node, which "
                        "did not come, or a router gives each connection another port"));
        }
        self->received_ += bytes;
        self->read_answer();
      });
}

void TcpPunch::take_answer() {
  const auto peer = decode_punch_answer(route_.ticket, ByteSpan(answer_).first(received_));
  if (!peer) return finish(peer.error());
  const Status allowed = check_punch_address(*peer, route_.address);
  if (!allowed.ok()) return finish(allowed.error());
  Failure error;
  peer_ = {asio::ip::make_address(peer->host, error), peer->port};
  if (error) return finish(punch_error("address \"" + peer->text() + "\"", error));
  connect();
}

void TcpPunch::connect() {
  ++tries_;
  Failure ignored;
  socket_.close(ignored);
  const Status bound = bind(socket_, port_);
  if (!bound.ok()) return finish(bound.error());
  socket_.async_connect(peer_, [self = shared_from_this()](const Failure& error) {
    if (self->done_ == nullptr) return;
    if (!error) {
      Failure failed;
      const int connection = self->socket_.release(failed);
      return self->finish(failed ? Result<int>(punch_error("connecting", failed)) : connection);
    }
    if (self->tries_ >= limits::kPunchTries) {
      return self->finish(punch_error("connecting through both routers", error));
    }
    self->try_again();
  });
}

void TcpPunch::try_again() {
  pause_.expires_after(pause_before(tries_, route_.ticket));
  pause_.async_wait([self = shared_from_this()](const Failure& error) {
    if (!error && self->done_ != nullptr) self->connect();
  });
}

void TcpPunch::finish(Result<int> connection) {
  const Done done = std::exchange(done_, nullptr);
  cancel();
  if (done) done(std::move(connection));
}

void TcpPunch::cancel() {
  done_ = nullptr;
  Failure ignored;
  for (tcp::socket& socket : shown_) socket.close(ignored);
  socket_.close(ignored);
  pause_.cancel();
}

}  // namespace hearth
