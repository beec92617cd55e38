// Refusal: the end of a connection that there is no place for. It is told so, and what its client
// has sent or still sends is read for a short while, since a close before that would reset the
// connection and take the answer with it. Socket thread only; brings Asio along.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

namespace hearth::coordinator::http {

class Refusal;

// Those that are under way; beyond the bound the oldest is closed as it is. With all connections
// they take the 1,024 files that a process may usually have.
struct Refusals {
  static constexpr std::size_t kMost = 160;
  std::list<std::weak_ptr<Refusal>> open;
};

class Refusal : public std::enable_shared_from_this<Refusal> {
 public:
  // `answer`: all that is said.
  static void start(boost::asio::ip::tcp::socket socket, std::string answer, Refusals& all);
  Refusal(boost::asio::ip::tcp::socket socket, std::string answer);
  void close();

 private:
  void begin();
  void drain();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  std::string answer_;
  std::size_t drained_ = 0;
};

}  // namespace hearth::coordinator::http
