// TcpPunch: opens the connection of a punched link (proto/link/rendezvous.h). It shows the
// coordinator the tickets, waits for the other node's address and connects to it from the same
// local port, at most limits::kPunchTries times. The other node does the same at this time: where
// both routers let answers pass, both connections become one.
//
// A try fails at once where a router refuses the other side's first packet instead of dropping it.
// So a try follows a failed one, after a pause that differs from the other side's.
//
// Threads: that of the io_context. Its owner bounds the time.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "proto/link/rendezvous.h"
#include "proto/link/route.h"

namespace hearth {

class TcpPunch : public std::enable_shared_from_this<TcpPunch> {
 public:
  // Takes over the connection. Called once, never after cancel().
  using Done = std::function<void(Result<int> connection)>;

  TcpPunch(boost::asio::io_context& io, const Route& route, Done done);
  // kIo when no local port is free.
  Status begin();
  void cancel();

 private:
  using Failure = boost::system::error_code;
  using tcp = boost::asio::ip::tcp;

  Status bind(tcp::socket& socket, std::uint16_t port) const;
  void show(CoordinatorPort port);
  void read_answer();
  void take_answer();
  void try_again();
  void connect();
  void finish(Result<int> connection);

  const Route route_;
  Done done_;  // null: it has ended
  tcp::endpoint coordinator_;
  std::array<tcp::socket, 2> shown_;  // open until the end, so that the routers keep the port
  tcp::socket socket_;
  boost::asio::steady_timer pause_;
  std::array<std::byte, kPunchAnswerBytes> answer_{};
  std::size_t received_ = 0;
  tcp::endpoint peer_;
  std::uint16_t port_ = 0;  // the local one
  std::uint32_t tries_ = 0;
};

}  // namespace hearth
