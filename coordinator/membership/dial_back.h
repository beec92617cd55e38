// Dials an address to see whether it can be dialled, and remembers for a while what came of it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/membership/membership.h"

namespace hearth::cli {

// On the thread of `io`, which outlives it. Nothing is said over the connection.
class DialBack {
 public:
  explicit DialBack(boost::asio::io_context& io);
  ~DialBack();

  // Begins to dial unless it is known or under way. At most limits::kDialBacks at a time.
  std::optional<coordinator::DialOutcome> ask(const std::string& address);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::cli
