// One stage of a ring that computes nothing and speaks no protocol: what the machine itself takes
// for a hop. It waits for so many bytes on a plain TCP socket, reads so many bytes of memory, as a
// stage reads its weights, and sends on what came in. For tests/bench/pipeline.py, which starts one
// on every machine:
//
//   bench_bare_ring PORT NEXT_IPV4 NEXT_PORT BYTES MEMORY_BYTES ROUNDS [first]
//
// The first one begins. Each prints the mean seconds that its reading took, and that the rest of
// the ring took meanwhile.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 50;

sockaddr_in endpoint(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) throw std::invalid_argument(host);
  return address;
}

int open_socket() {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made;
}

int listen_at(const char* port) {
  const int made = open_socket();
  const sockaddr_in address = endpoint("0.0.0.0", port);
  if (::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(made, 1) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
  return made;
}

// Whose program may start later.
int connect_to(const sockaddr_in& address) {
  for (int tries = 0; tries < 200; ++tries) {
    const int made = open_socket();
    if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return made;
    }
    ::close(made);
    ::usleep(50'000);
  }
  throw std::runtime_error("the next stage does not answer");
}

void receive(int socket, std::vector<char>& into) {
  for (std::size_t at = 0; at < into.size();) {
    const ssize_t got = ::recv(socket, &into[at], into.size() - at, 0);
    if (got <= 0) throw std::runtime_error("the stage before is gone");
    at += static_cast<std::size_t>(got);
  }
}

void send(int socket, const std::vector<char>& from) {
  if (::send(socket, from.data(), from.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(from.size())) {
    throw std::runtime_error("the next stage is gone");
  }
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void run(int argc, char** argv) {
  if (argc < 7) throw std::invalid_argument("six words are wanted");
  const int listener = listen_at(argv[1]);
  const bool first = argc > 7;
  const int next = connect_to(endpoint(argv[2], argv[3]));
  const int before = ::accept(listener, nullptr, nullptr);
  std::vector<char> message(std::stoul(argv[4]), 'x');
  std::vector<std::uint64_t> memory(std::stoul(argv[5]) / sizeof(std::uint64_t), 1);
  const int rounds = std::stoi(argv[6]);
  double reading = 0;
  double waiting = 0;
  std::uint64_t sum = 0;  // printed, so that it is read
  Clock::time_point sent{};
  for (int round = 0; round < rounds + kWarmUp; ++round) {
    if (!first || round > 0) receive(before, message);
    const auto begun = Clock::now();
    sum = std::accumulate(memory.begin(), memory.end(), sum);
    const auto done = Clock::now();
    if (round >= kWarmUp) {
      reading += seconds(done - begun);
      waiting += seconds(begun - sent);
    }
    sent = done;
    send(next, message);
  }
  std::printf("{\"reading\": %.9f, \"waiting\": %.9f, \"sum\": %ju}\n", reading / rounds,
              waiting / rounds, static_cast<std::uintmax_t>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
