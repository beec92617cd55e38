// HttpServer: the OpenAI-compatible API, on Boost.Beast. It parses, tokenises and formats; the
// coordinator makes all decisions about the swarm.
//
// Threads: one for sockets, and a small pool for templates, tokenising and JSON.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "coordinator/http/api/options.h"

namespace hearth::coordinator::http {

class HttpServer {
 public:
  // kInvalidInput: the host is not an address, or it is reachable from other machines and there are
  // no keys. kIo: the port is in use.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, ServedModels models,
                                                   CoordinatorPort& port, const Clock& clock,
                                                   Random& random);
  virtual ~HttpServer() = default;  // stops accepting, closes every connection, joins
  virtual std::uint16_t port() const = 0;
  // Takes over the socket of a member that begins a TLS handshake and then sends HTTP. Closes it
  // when HttpOptions::members is empty. Any thread.
  virtual void adopt(int socket) = 0;
  // This process is about to end: from now on errors interrupt kept requests instead of ending
  // them.
  virtual void suspend() = 0;
};

}  // namespace hearth::coordinator::http
