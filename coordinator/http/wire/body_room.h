// BodyRoom: the part of limits::kHttpBodiesBytes that one request takes: its body as far as it has
// come, later its whole answer until the client has read it. A client that promises bytes and sends
// none takes nothing. Socket thread only.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::coordinator::http {

// The bytes that all requests take, by client: the id of its API key or, without a key, its
// address.
struct BodyBytes {
  std::size_t all = 0;
  std::map<std::string, std::size_t> of;
};

class BodyRoom {
 public:
  BodyRoom() = default;
  ~BodyRoom() { release(); }
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

  // From now on the request takes `bytes` in all. False, without a change, when there is no room: a
  // client may hold at most twice as much as it leaves to the others.
  bool hold(BodyBytes& bodies, const std::string& client, std::size_t bytes) {
    INVARIANT(bodies_ == nullptr || (bodies_ == &bodies && client_ == client),
              "a request has one client");
    const auto found = bodies.of.find(client);
    const std::size_t mine = (found == bodies.of.end() ? 0 : found->second) - bytes_ + bytes;
    const std::size_t all = bodies.all - bytes_ + bytes;
    const bool fits =
        all <= limits::kHttpBodiesBytes && mine <= 2 * (limits::kHttpBodiesBytes - all);
    if (bytes > bytes_ && !fits) return false;
    bodies.all = all;
    if (mine == 0) {
      bodies.of.erase(client);
    } else {
      bodies.of[client] = mine;
    }
    bodies_ = &bodies;
    client_ = client;
    bytes_ = bytes;
    return true;
  }
  void release() {
    if (bytes_ > 0) {
      const auto mine = bodies_->of.find(client_);
      INVARIANT(bodies_->all >= bytes_ && mine != bodies_->of.end() && mine->second >= bytes_,
                "room is released that was held");
      bodies_->all -= bytes_;
      if ((mine->second -= bytes_) == 0) bodies_->of.erase(mine);
    }
    bodies_ = nullptr;
    bytes_ = 0;
  }

 private:
  BodyBytes* bodies_ = nullptr;  // that it is counted in
  std::string client_;
  std::size_t bytes_ = 0;
};

}  // namespace hearth::coordinator::http
