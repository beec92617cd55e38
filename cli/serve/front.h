// The API of a standby: it hands each connection to the leader, byte for byte. Either side may end
// its bytes before the other. Where the leader cannot be reached, the answer is 503 with its name.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/http/wire/refusal.h"
#include "coordinator/store/lease.h"

namespace hearth::cli {

// One thread.
class Front {
 public:
  // `self`: this coordinator, which listens at the host `listens`. `view`: the lease now.
  Front(boost::asio::io_context& io, coordinator::LeasePeer self, std::string listens,
        std::function<coordinator::LeaseView()> view);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  Status open(std::uint16_t port);
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  // Closes the connections to leaders before the one of now.
  void follow();
  void close();

 private:
  class Forwarding;

  void accept();
  void take(boost::asio::ip::tcp::socket client);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  const coordinator::LeasePeer self_;
  const std::string listens_;
  const std::function<coordinator::LeaseView()> view_;
  coordinator::http::Refusals refusals_;
  std::vector<std::weak_ptr<Forwarding>> open_;
};

Result<boost::asio::ip::tcp::endpoint> endpoint_of(const std::string& address);
// Where this machine dials the leader's API; nothing when it cannot: a leader on loopback is
// reached from its own machine alone, and it is handed only connections that came by loopback.
std::optional<std::string> way_to_leader(const coordinator::LeasePeer& leader,
                                         const coordinator::LeasePeer& self,
                                         const std::string& listens);
// The whole answer to a request that cannot be forwarded.
std::string standby_answer(const coordinator::LeasePeer& leader, const std::string& why);

}  // namespace hearth::cli
