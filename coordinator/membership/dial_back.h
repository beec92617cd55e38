// DialBack: connects to an address to test whether it is reachable, and caches the outcome briefly.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/membership/membership.h"

namespace hearth::coordinator {

// On the thread of `io`, which outlives it. Sends nothing over the connection.
class DialBack {
 public:
  explicit DialBack(boost::asio::io_context& io);
  ~DialBack();

  // The known outcome; else begins to dial, at most limits::kDialBacks at a time.
  std::optional<DialOutcome> ask(const std::string& address);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::coordinator
