#include "coordinator/membership/dial_back.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>

#include "base/check.h"
#include "base/limits.h"
#include "proto/address.h"

namespace hearth::coordinator {

namespace asio = boost::asio;
using asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;

namespace {

constexpr auto kPatience = std::chrono::seconds(3);
constexpr auto kRemembered = std::chrono::seconds(limits::kDialBackSeconds);
static_assert(kPatience < kRemembered, "a dial ends before it is forgotten");

struct Dial {
  explicit Dial(asio::io_context& io) : socket(io), timer(io) {}
  tcp::socket socket;
  asio::steady_timer timer;
  SteadyClock::time_point began = SteadyClock::now();
  std::optional<DialOutcome> outcome;
};

}  // namespace

struct DialBack::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& context) : io(context) {}

  void begin(const std::string& text, const Address& address) {
    const auto dial = std::make_shared<Dial>(io);
    dials[text] = dial;
    boost::system::error_code error;
    const tcp::endpoint to(asio::ip::make_address(address.host, error), address.port);
    dial->timer.expires_after(kPatience);
    dial->timer.async_wait([dial](const boost::system::error_code& cancelled) {
      if (cancelled || dial->outcome) return;
      end(*dial, "no answer within " + std::to_string(kPatience.count()) + " s");
    });
    dial->socket.async_connect(to, [dial](const boost::system::error_code& failed) {
      if (!dial->outcome) end(*dial, failed ? failed.message() : "");
    });
  }
  static void end(Dial& dial, const std::string& error) {
    INVARIANT(!dial.outcome, "a dial ends once");
    const auto took = SteadyClock::now() - dial.began;
    dial.outcome = {error, std::chrono::duration<double, std::milli>(took).count()};
    dial.timer.cancel();
    boost::system::error_code ignored;
    dial.socket.close(ignored);
  }
  void forget() {
    std::erase_if(dials, [now = SteadyClock::now()](const auto& each) {
      return each.second->outcome && now - each.second->began > kRemembered;
    });
  }

  asio::io_context& io;
  std::map<std::string, std::shared_ptr<Dial>> dials;
};

DialBack::DialBack(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

DialBack::~DialBack() {
  for (const auto& [address, dial] : state_->dials) {
    if (!dial->outcome) State::end(*dial, "cancelled");
  }
}

std::optional<DialOutcome> DialBack::ask(const std::string& text) {
  const auto address = parse_address(text);
  if (!address.ok()) return DialOutcome{address.error().message, 0.0};
  state_->forget();
  if (const auto found = state_->dials.find(text); found != state_->dials.end()) {
    return found->second->outcome;
  }
  if (state_->dials.size() < limits::kDialBacks) state_->begin(text, *address);
  return std::nullopt;
}

}  // namespace hearth::coordinator
