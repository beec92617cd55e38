// Session: one client connection. It answers requests one after the other. While one is answered it
// reads on, bounded, so that pipelined requests wait and a client that leaves is noticed at once.
// What the client has not read waits in a buffer of limits::kHttpStreamBytes; past it, or when a
// write makes no progress for HttpTimeouts::write, the connection ends. Socket thread only. Only
// server.cc includes this header: it needs Asio.
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

// Every open connection, and the memory that their request bodies take together.
struct SessionTable {
  std::unordered_map<Session*, std::shared_ptr<Session>> open;
  std::map<boost::asio::ip::address, std::uint32_t> from;  // connections of each
  std::size_t body_bytes = 0;
  std::size_t reserved = 0;  // open connections in reserved places
  Refusals refusals;
};

// The whole answer to a connection beyond the limit: 429.
std::string crowded_answer(Api& api);

// The address of the client, mapped to IPv4 where possible; 0.0.0.0 when it has left already.
boost::asio::ip::address address_of(const boost::asio::ip::tcp::socket& socket);

class Session {
 public:
  // `probes_only`: a reserved place. It answers one request, for monitoring or administration, and
  // refuses all others with 429.
  static void start(boost::asio::ip::tcp::socket socket, std::shared_ptr<Api> api,
                    std::shared_ptr<SessionTable> table, bool probes_only);
  virtual ~Session() = default;
  // Closes without an answer; a running request is told that its client has left.
  virtual void abort() = 0;
  virtual const boost::asio::ip::address& from() const = 0;
  virtual bool reserved() const = 0;  // it has one of the reserved places
  // Since when it has had no request; nothing while it has one.
  virtual std::optional<TimePoint> idle_since() const = 0;
  // Makes room for another connection: its client gets 429.
  virtual void give_way() = 0;
};

}  // namespace hearth::coordinator::http
