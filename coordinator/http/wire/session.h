// Session: one client connection, from the first byte to the last. Requests are answered one after
// the other; while one is answered, reading goes on, bounded, so that pipelined bytes wait and a
// client that leaves is noticed at once. Socket thread only. Included by server.cc alone: it brings
// Asio along.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "coordinator/http/api/api.h"
#include "coordinator/http/wire/refusal.h"

namespace hearth::coordinator::http {

class Session;

// Every open connection, and the memory that their bodies take together.
struct SessionTable {
  std::unordered_map<Session*, std::shared_ptr<Session>> open;
  std::map<boost::asio::ip::address, std::uint32_t> from;  // connections of each
  std::size_t body_bytes = 0;
  std::size_t reserved = 0;  // of those that are open, in a reserved place
  Refusals refusals;
};

// All that is said to a connection for which there is no place.
std::string crowded_answer(Api& api);

// Who dialled, as an IPv4 address where it is one; nobody's (0.0.0.0) when it is gone already.
boost::asio::ip::address address_of(const boost::asio::ip::tcp::socket& socket);

class Session {
 public:
  // `probes_only`: one of the reserved places; it answers one request of those that watch this
  // process or look after it, and anything else with 429.
  static void start(boost::asio::ip::tcp::socket socket, std::shared_ptr<Api> api,
                    std::shared_ptr<SessionTable> table, bool probes_only);
  virtual ~Session() = default;
  // Closes without a word; a running request is told that its client is gone.
  virtual void abort() = 0;
  virtual const boost::asio::ip::address& from() const = 0;
  virtual bool reserved() const = 0;  // it has one of the reserved places
  // Since when there is no request on it; nothing while there is one.
  virtual std::optional<TimePoint> idle_since() const = 0;
  // Makes room for another connection: it is told that there is no place for it.
  virtual void give_way() = 0;
};

}  // namespace hearth::coordinator::http
