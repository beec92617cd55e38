#include "proto/link/ping.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "cli/home/member.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/watch/watch.h"
#include "proto/link/rate_trial.h"
#include "proto/link/tcp_transport.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kConnectPatience = std::chrono::seconds(5);  // with one connection

double since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// A link to a node: opens it and pings.
class PingLink final : public TransportEvents {
 public:
  static Result<std::unique_ptr<PingLink>> open(const node::Inquirer& own,
                                                const std::string& route) {
    std::unique_ptr<PingLink> link(new PingLink());
    TcpOptions options;
    options.identity = own.identity;
    options.roster = own.roster;
    TRY(link->transport_, TcpTransport::open(link->io_, options));
    link->transport_->set_events(link.get());
    const auto begin = SteadyClock::now();
    link->link_ = link->transport_->connect(route);
    TRY_VOID(link->wait([&] { return link->open_; }));
    link->connected_seconds_ = since(begin);
    return link;
  }

  std::string peer() const {
    const auto entry = transport_->peer(link_);
    return entry ? entry->name : "";
  }
  double connected_seconds() const { return connected_seconds_; }

  // The time from the first byte of the pings to the last byte of their answers.
  Result<double> ping(std::uint32_t pieces, const Ping& ping) {
    const auto begin = SteadyClock::now();
    answers_ = 0;
    for (std::uint32_t i = 0; i < pieces; ++i) {
      TRY_VOID(transport_->send(link_, {FrameType::kPing, encode(ping)}));
    }
    TRY_VOID(wait([&] { return answers_ >= pieces; }));
    return since(begin);
  }

  void on_link_open(LinkId, bool) override { open_ = true; }
  void on_frame(LinkId, Frame frame) override {
    if (frame.type == FrameType::kPong) ++answers_;
    if (frame.type == FrameType::kRefused) refusal_ = decode_refused(frame.payload);
  }
  void on_link_closed(LinkId, const Error& why) override { closed_ = why; }

 private:
  PingLink() = default;

  template <typename Condition>
  Status wait(Condition condition) {
    const auto deadline = SteadyClock::now() + kConnectPatience;
    while (!condition()) {
      if (!refusal_.empty())
        return Error::of(ErrorCode::kRefused, "the node refused the link: ", refusal_);
      if (closed_) return Error{ErrorCode::kUnavailable, closed_->message};
      if (SteadyClock::now() >= deadline)
        return Error::of(ErrorCode::kTimeout, "the node did not answer within ",
                         kConnectPatience.count(), " s");
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(50));
    }
    return ok_status();
  }

  boost::asio::io_context io_;
  std::unique_ptr<TcpTransport> transport_;
  LinkId link_;
  bool open_ = false;
  std::uint32_t answers_ = 0;
  std::string refusal_;
  std::optional<Error> closed_;
  double connected_seconds_ = 0.0;
};

struct Probe {
  double connect_seconds = 0.0;
  double seconds = 0.0;
};

struct Rates {  // bytes a second; 0: not measured
  double to = 0.0;
  double from = 0.0;
};

Result<Probe> probe(const node::Inquirer& own, const std::string& node, const Route& route) {
  TRY(const auto link, PingLink::open(own, route.text()));
  // The roster says whose key this is.
  REQUIRE(link->peer() == node, "the link over ", describe_route(route.text()), " leads to ",
          link->peer(), ", not to ", node,
          "; hearth status shows the nodes that are connected now");
  TRY(const double seconds, link->ping(1, {}));
  return Probe{link->connected_seconds(), seconds};
}

Result<Rates> measure_link(const node::Inquirer& own, const Route& route) {
  TRY(const auto link, PingLink::open(own, route.text()));
  const auto rate = [&](bool to) -> Result<double> {
    RateTrial trial;
    for (bool enough = false; !enough;) {
      const RateTrial::Pings pings = trial.next();
      TRY(const double seconds,
          link->ping(pings.count, to ? Ping{0, pings.bytes} : Ping{pings.bytes, 0}));
      enough = trial.took(seconds);
    }
    return trial.bytes_per_second();
  };
  Rates rates;
  TRY(rates.to, rate(true));
  TRY(rates.from, rate(false));
  return rates;
}

// A ticket is good for one link.
Status next_route(const node::Inquirer& own, const std::string& node, Route& route) {
  if (route.kind == RouteKind::kDirect) return ok_status();
  TRY(route, node::find_route(own, node));
  return ok_status();
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

void say(const PingOptions& options, const Route& route, const Result<Probe>& probe) {
  const std::string address = route.address.text();
  if (options.json) return;
  if (!probe.ok()) {
    std::printf("no answer from %s (%s): %s\n", options.node.c_str(), address.c_str(),
                escape_control(probe.error().message).c_str());
  } else {
    const char* const at = route.kind == RouteKind::kRelayed   ? "the relay at "
                           : route.kind == RouteKind::kPunched ? "arranged at "
                                                               : "";
    std::printf("answer from %s (%s%s) %s: %s, after %s to connect\n", options.node.c_str(), at,
                address.c_str(), route_name(route.kind), milliseconds(probe->seconds).c_str(),
                milliseconds(probe->connect_seconds).c_str());
  }
  std::fflush(stdout);
}

// Least, median and greatest time of the answered pings, in seconds; nothing without an answer.
std::optional<std::array<double, 3>> summary(const std::vector<Result<Probe>>& probes) {
  std::vector<double> seconds;
  for (const auto& each : probes) {
    if (each.ok()) seconds.push_back(each->seconds);
  }
  if (seconds.empty()) return std::nullopt;
  std::sort(seconds.begin(), seconds.end());
  return std::array{seconds.front(), seconds[seconds.size() / 2], seconds.back()};
}

void print_json(const PingOptions& options, const Route& route,
                const std::vector<Result<Probe>>& probes, const Rates& rates) {
  OrderedJson out = {
      {"node", options.node}, {"address", route.address.text()}, {"path", route_name(route.kind)}};
  out["probes"] = OrderedJson::array();
  for (const auto& each : probes) {
    out["probes"].push_back(each.ok()
                                ? OrderedJson{{"milliseconds", each->seconds * 1e3},
                                              {"connect_milliseconds", each->connect_seconds * 1e3}}
                                : OrderedJson{{"error", each.error().message}});
  }
  if (const auto times = summary(probes)) {
    out["milliseconds"] = {
        {"least", (*times)[0] * 1e3}, {"median", (*times)[1] * 1e3}, {"most", (*times)[2] * 1e3}};
  }
  if (rates.to > 0.0) out["bytes_per_second"] = {{"to", rates.to}, {"from", rates.from}};
  print_escaped(out);
}

void print_summary(const PingOptions& options, const std::vector<Result<Probe>>& probes,
                   const Rates& rates) {
  const auto times = summary(probes);
  if (!times) return;
  std::printf("%s: %s least, %s median, %s most of %zu", options.node.c_str(),
              milliseconds((*times)[0]).c_str(), milliseconds((*times)[1]).c_str(),
              milliseconds((*times)[2]).c_str(), probes.size());
  if (rates.to > 0.0) {
    std::printf("; %s/s there, %s/s back",
                format_bytes(static_cast<std::uint64_t>(rates.to)).c_str(),
                format_bytes(static_cast<std::uint64_t>(rates.from)).c_str());
  }
  std::printf("\n");
}

}  // namespace

Result<int> run_ping(const PingOptions& options) {
  catch_interrupts();
  TRY(const node::Inquirer own, own_inquirer(options.data_dir));
  TRY(Route route, node::find_route(own, options.node));
  std::vector<Result<Probe>> probes;
  while (probes.size() < options.count && !interrupted()) {
    if (!probes.empty()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_seconds));
      TRY_VOID(next_route(own, options.node, route));
    }
    probes.push_back(probe(own, options.node, route));
    say(options, route, probes.back());
  }
  Rates rates;
  if (summary(probes) && !options.no_rate && !interrupted()) {
    TRY_VOID(next_route(own, options.node, route));
    const auto measured = measure_link(own, route);
    if (measured.ok()) rates = *measured;
  }
  if (options.json) {
    print_json(options, route, probes, rates);
  } else {
    print_summary(options, probes, rates);
  }
  return summary(probes) ? kExitDone : kExitUnreachable;
}

}  // namespace hearth::cli
