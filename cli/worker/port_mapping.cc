#include "cli/worker/port_mapping.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "cli/process/spawn.h"

namespace hearth::cli {
namespace {

constexpr auto kProcessPatience = std::chrono::seconds(20);
constexpr int kPollMilliseconds = 100;  // so soon a stop ends the process
constexpr std::size_t kOutputBytes = 4096;
constexpr Duration kAgain = std::chrono::minutes(10);  // where the router gave none
constexpr Duration kSoon = std::chrono::minutes(1);    // where it gave one before
constexpr std::uint32_t kSecondsLeast = 60;

struct Given {
  std::uint16_t port = 0;
  std::uint32_t seconds = 0;
  std::string protocol;
};

// The last line of the output, behind what the libraries print. Zero: no answer of `hearth map-port
// --json`.
Given read_given(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  const auto port = json.find("port");
  const auto seconds = json.find("seconds");
  const auto protocol = json.find("protocol");
  const bool whole = port != json.end() && port->is_number_unsigned() && *port <= 65'535U &&
                     seconds != json.end() && seconds->is_number_unsigned() &&
                     protocol != json.end() && protocol->is_string();
  if (!whole) return {};
  return {port->get<std::uint16_t>(), seconds->get<std::uint32_t>(), protocol->get<std::string>()};
}

}  // namespace

PortMapping::PortMapping(std::uint16_t port) : port_(port), thread_({.max_cost = 2}) {
  INVARIANT(port > 0, "a socket that listens has a port");
}

void PortMapping::want(bool wanted) {
  const std::uint64_t before = round_.load();
  const bool was_wanted = before % 2 == 1;
  if (!wanted && !was_wanted) return;
  const std::uint64_t round = before + (wanted && was_wanted ? 2 : 1);
  round_.store(round);
  if (!wanted) outside_.store(0);
  // Where two wait already, the one behind the other takes the newest round.
  if (wanted) thread_.post([this] { ask(round_.load()); });
}

void PortMapping::ask(std::uint64_t round) {
  if (round != round_.load() || round % 2 == 0) return;
  const Given given = read_given(run_process());
  const auto now = std::chrono::steady_clock::now();
  if (thread_.stopping() || round != round_.load()) return;
  const std::uint16_t before = outside_.load();
  Duration next = kAgain;
  if (given.port > 0) {
    outside_.store(given.port);
    until_ = now + std::chrono::seconds(given.seconds);
    next = std::chrono::seconds(std::max(given.seconds, kSecondsLeast) / 2);
    told_ = false;
    if (given.port != before) {
      spdlog::info("the router forwards its port {} to port {} of this machine ({})", given.port,
                   port_, given.protocol);
    }
  } else if (before > 0 && now < until_) {
    next = kSoon;  // the answer was lost, perhaps
  } else {
    outside_.store(0);
    if (!std::exchange(told_, true)) {
      spdlog::info(
          "the router forwards no port to this machine, so nodes of other networks are reached "
          "otherwise; `hearth map-port {}` says why",
          port_);
    }
  }
  thread_.post_after(next, [this, round] { ask(round); });
}

std::string PortMapping::run_process() {
  const auto started = Capture::start({"map-port", std::to_string(port_), "--json"});
  if (!started.ok()) {
    spdlog::warn("the router is not asked for a port: {}", started.error().message);
    return "";
  }
  Capture& process = **started;
  const auto deadline = std::chrono::steady_clock::now() + kProcessPatience;
  std::string text;
  for (;;) {
    if (thread_.stopping() || std::chrono::steady_clock::now() >= deadline) return "";
    pollfd waits{process.output(), POLLIN, 0};
    if (poll(&waits, 1, kPollMilliseconds) <= 0) continue;
    std::array<char, 512> buffer{};
    const ssize_t read = ::read(process.output(), buffer.data(), buffer.size());
    if (read <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(read));
    if (text.size() > kOutputBytes) return "";
  }
  return process.end() == 0 ? text : "";
}

}  // namespace hearth::cli
