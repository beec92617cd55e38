// What a hop costs: a frame is sent to another thread by TcpTransport over loopback and echoed.
// Half of the round trip is one hop: encrypt, write, wake-up, read, decrypt. Prints the median and
// the 99th percentile beside those of the bare sockets with the same bytes, and before them what
// one thread takes to wake another of its process: a hop between stages has two such hand-overs, to
// the engine's thread and back, beside the way over the sockets. Asserts nothing.
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "proto/link/tcp_transport.h"
#include "tests/bench/link_nodes.h"

namespace {

using namespace hearth;
using Steady = std::chrono::steady_clock;

constexpr int kWarmUp = 500;
constexpr int kRounds = 5000;

void print(const char* what, std::size_t bytes, std::vector<double> round_trips) {
  std::sort(round_trips.begin(), round_trips.end());
  const auto at = [&](double share) {
    return round_trips[static_cast<std::size_t>(share * (round_trips.size() - 1))] / 2;
  };
  std::printf("%-14s %7zu bytes  hop p50 %7.1f us  p99 %7.1f us\n", what, bytes, at(0.5), at(0.99));
}

double microseconds_since(Steady::time_point begun) {
  return std::chrono::duration<double, std::micro>(Steady::now() - begun).count();
}

struct Echo : TransportEvents {
  Transport* transport = nullptr;
  void on_link_open(LinkId, bool) override {}
  void on_frame(LinkId link, Frame frame) override {
    (void)transport->send(link, std::move(frame));
  }
  void on_link_closed(LinkId, const Error&) override {}
};

// Sends the frame it gets back, until there were enough rounds.
struct Pinger : TransportEvents {
  boost::asio::io_context* io = nullptr;
  Transport* transport = nullptr;
  std::size_t bytes = 0;
  Steady::time_point begun;
  int rounds = 0;
  std::vector<double> round_trips;

  void on_link_open(LinkId link, bool) override {
    begun = Steady::now();
    (void)transport->send(link, {FrameType::kBatch, Bytes(bytes)});
  }
  void on_frame(LinkId link, Frame frame) override {
    if (++rounds > kWarmUp) round_trips.push_back(microseconds_since(begun));
    if (rounds == kWarmUp + kRounds) return io->stop();
    begun = Steady::now();
    (void)transport->send(link, std::move(frame));
  }
  void on_link_closed(LinkId, const Error& why) override {
    std::fprintf(stderr, "%s\n", why.message.c_str());
    std::exit(1);
  }
};

void measure_transport(std::size_t bytes) {
  const bench::LinkNodes nodes;
  boost::asio::io_context far_io;
  Echo echo;
  const auto far = nodes.open(far_io, 0);
  echo.transport = far.get();
  far->set_events(&echo);
  std::thread far_thread([&] { far_io.run(); });

  boost::asio::io_context io;
  Pinger pinger;
  const auto near = nodes.open(io, 1);
  pinger.io = &io;
  pinger.transport = near.get();
  pinger.bytes = bytes;
  near->set_events(&pinger);
  near->connect(far->address());
  io.run();
  far_io.stop();
  far_thread.join();
  print("TcpTransport", bytes, std::move(pinger.round_trips));
}

void move_all(int socket, std::vector<char>& buffer, bool write) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t n = write ? ::send(socket, &buffer[done], buffer.size() - done, 0)
                            : ::recv(socket, &buffer[done], buffer.size() - done, 0);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

void measure_sockets(std::size_t bytes) {
  const bench::SocketPair sockets = bench::loopback_sockets();
  const int near = sockets.near;
  const int far = sockets.far;
  const int one = 1;
  for (const int s : {near, far}) ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::thread far_thread([&] {
    std::vector<char> buffer(bytes + kFrameHeaderBytes);
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
      move_all(far, buffer, false);
      move_all(far, buffer, true);
    }
  });
  std::vector<char> buffer(bytes + kFrameHeaderBytes);
  std::vector<double> round_trips;
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    const auto begun = Steady::now();
    move_all(near, buffer, true);
    move_all(near, buffer, false);
    if (i >= kWarmUp) round_trips.push_back(microseconds_since(begun));
  }
  far_thread.join();
  for (const int s : {near, far}) ::close(s);
  print("bare sockets", bytes, std::move(round_trips));
}

// Two threads wake each other, as a stage's owner and its engine do.
void measure_hand_over() {
  std::mutex mutex;
  std::condition_variable far_wake;
  std::condition_variable near_wake;
  int turn = 0;  // odd: the far one's
  std::thread far_thread([&] {
    std::unique_lock lock(mutex);
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
      far_wake.wait(lock, [&] { return turn % 2 == 1; });
      ++turn;
      near_wake.notify_one();
    }
  });
  std::vector<double> round_trips;
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    const auto begun = Steady::now();
    std::unique_lock lock(mutex);
    ++turn;
    far_wake.notify_one();
    near_wake.wait(lock, [&] { return turn % 2 == 0; });
    if (i >= kWarmUp) round_trips.push_back(microseconds_since(begun));
  }
  far_thread.join();
  print("hand-over", 0, std::move(round_trips));
}

}  // namespace

int main() {
  measure_hand_over();
  for (const std::size_t bytes : {1'200, 16 * 1024, 36 * 1024, 256 * 1024}) {
    measure_sockets(bytes);
    measure_transport(bytes);
  }
  return 0;
}
