// Refusal: answers a connection beyond the limit and closes it. Before that, it reads for a short
// time what the client sends. Closing with unread bytes would reset the connection, and the client
// would lose the answer. Socket thread only; needs Asio.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

namespace hearth::coordinator::http {

class Refusal;

// Refusals in progress; beyond the limit the oldest is closed at once. Together with all
// connections they stay within the 1,024 files that a process may usually open.
struct Refusals {
  static constexpr std::size_t kMax = 160;
  std::list<std::weak_ptr<Refusal>> open;
};

class Refusal : public std::enable_shared_from_this<Refusal> {
 public:
  // `answer`: head and body.
  static void start(boost::asio::ip::tcp::socket socket, std::string answer, Refusals& all);
  Refusal(boost::asio::ip::tcp::socket socket, std::string answer);
  void close();

 private:
  void drain();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  std::string answer_;
  std::size_t drained_ = 0;
};

}  // namespace hearth::coordinator::http
