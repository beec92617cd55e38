// DialBack: connects to an address to test whether it is reachable, and caches the outcome briefly.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/membership/membership.h"

namespace hearth::coordinator {

// On the thread of `io`, which outlives it. Nothing is said over the connection.
class DialBack {
 public:
  explicit DialBack(boost::asio::io_context& io);
  ~DialBack();

  // Begins to dial unless it is known or under way. At most limits::kDialBacks at a time.
  std::optional<DialOutcome> ask(const std::string& address);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::coordinator
