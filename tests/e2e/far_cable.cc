// A cable whose other end is far away: what comes in at one interface goes out at the other, after
// a delay, and some of it never. For machines that are network namespaces, where the kernel has no
// netem. Frames pass with their offloads (PACKET_VNET_HDR), so up to 64 KiB at once.
//
//   far-cable INTERFACE INTERFACE MILLISECONDS [LOST_IN_A_MILLION [SEED]]

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFrameBytes = (64 << 10) + 512;
constexpr std::size_t kUnderWayBytes = std::size_t{64} << 20;

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

// One way through the cable.
struct Way {
  int from = -1;
  int to = -1;
  std::deque<Frame> under_way = {};
  std::size_t bytes = 0;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int open_end(const char* interface) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (fd < 0) fail("socket");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(interface));
  if (address.sll_ifindex == 0) fail(interface);
  const int on = 1;
  const int room = 8 << 20;
  if (::setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) < 0) fail("PACKET_VNET_HDR");
  if (::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) < 0) {
    fail("PACKET_IGNORE_OUTGOING");
  }
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0) fail("bind");
  return fd;
}

class Cable {
 public:
  Cable(int one, int other, Clock::duration delay, std::uint32_t lost_in_a_million,
        std::uint32_t seed)
      : ways_{{{one, other}, {other, one}}}, delay_(delay), lost_(lost_in_a_million), draw_(seed) {}

  [[noreturn]] void run() {
    while (true) {
      std::array<pollfd, 2> ends{{{ways_[0].from, POLLIN, 0}, {ways_[1].from, POLLIN, 0}}};
      const timespec wait = until_next();
      const bool is_idle = ways_[0].under_way.empty() && ways_[1].under_way.empty();
      ::ppoll(ends.data(), ends.size(), is_idle ? nullptr : &wait, nullptr);
      for (Way& way : ways_) {
        take_in(way);
        let_out(way);
      }
    }
  }

 private:
  timespec until_next() const {
    auto next = Clock::time_point::max();
    for (const Way& way : ways_) {
      if (!way.under_way.empty()) next = std::min(next, way.under_way.front().due);
    }
    const auto left = std::max(next - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    return {seconds.count(), static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
  }

  void take_in(Way& way) {
    while (true) {
      const ssize_t size = ::recv(way.from, buffer_.data(), buffer_.size(), 0);
      if (size <= 0) return;
      if (draw_() % 1'000'000 < lost_ || way.bytes > kUnderWayBytes) continue;
      way.under_way.push_back({Clock::now() + delay_, {buffer_.data(), buffer_.data() + size}});
      way.bytes += static_cast<std::size_t>(size);
    }
  }

  void let_out(Way& way) {
    while (!way.under_way.empty() && way.under_way.front().due <= Clock::now()) {
      const Frame& frame = way.under_way.front();
      // What its interface does not take is lost, as on any cable.
      static_cast<void>(::send(way.to, frame.bytes.data(), frame.bytes.size(), 0));
      way.bytes -= frame.bytes.size();
      way.under_way.pop_front();
    }
  }

  std::array<Way, 2> ways_;
  Clock::duration delay_;
  std::uint32_t lost_;
  std::mt19937 draw_;
  std::vector<char> buffer_ = std::vector<char>(kFrameBytes);
};

std::uint32_t number(const char* text) {
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fprintf(stderr, "usage: far-cable INTERFACE INTERFACE MILLISECONDS [LOST [SEED]]\n");
    return 2;
  }
  const std::chrono::duration<double, std::milli> delay(std::strtod(argv[3], nullptr));
  Cable cable(open_end(argv[1]), open_end(argv[2]),
              std::chrono::duration_cast<Clock::duration>(delay), argc > 4 ? number(argv[4]) : 0,
              argc > 5 ? number(argv[5]) : 1);
  cable.run();
}
