// What encryption costs a data link: frames of 1 MiB from one TcpTransport to another over
// loopback, each on a core of its own. Beside it, on one core: the cipher alone on records of that
// size, and bare sockets with writes of that size, which is the least that any transport pays.
// Asserts nothing.
//
// There is no link without TLS to compare with. What the cipher takes away from one is its share of
// the sender's time, printed as such, and none of the throughput as long as one core moves more
// than the link's rate.
#include <openssl/evp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/bench/link_nodes.h"

namespace {

using namespace hearth;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kFrame = 1 << 20;
constexpr int kFrames = 3000;
constexpr int kUnderWay = 4;  // frames: a stage has about as many, and they stay in the cache
constexpr std::size_t kRecord = TlsKey::kContentBytes;
constexpr double kTenGigabit = 1.25e9;
constexpr int kRounds = 5;

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

double seconds_since(Steady::time_point begun) {
  return std::chrono::duration<double>(Steady::now() - begun).count();
}

double thread_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

struct Counter : TransportEvents {
  boost::asio::io_context* io = nullptr;
  std::atomic<int> frames = 0;
  void on_link_open(LinkId, bool) override {}
  void on_frame(LinkId, Frame) override {
    if (++frames == kFrames) io->stop();
  }
  void on_link_closed(LinkId, const Error& why) override {
    std::fprintf(stderr, "%s\n", why.message.c_str());
    std::exit(1);
  }
};

struct Opened : TransportEvents {
  bool open = false;
  void on_link_open(LinkId, bool) override { open = true; }
  void on_frame(LinkId, Frame) override {}
  void on_link_closed(LinkId, const Error&) override {}
};

struct Figures {
  double rate = 0;     // bytes a second
  double sending = 0;  // seconds of the sender's core for a byte
  double taking = 0;   // likewise of the receiver's
};

Figures measure_link() {
  const bench::LinkNodes nodes;
  boost::asio::io_context far_io;
  Counter counter;
  counter.io = &far_io;
  const auto far = nodes.open(far_io, 0);
  far->set_events(&counter);
  double taking = 0;
  std::thread receiver([&] {
    pin(1);
    far_io.run();
    taking = thread_seconds();
  });
  pin(0);
  boost::asio::io_context io;
  Opened opened;
  const auto near = nodes.open(io, 1);
  near->set_events(&opened);
  const LinkId link = near->connect(far->address());
  while (!opened.open) io.run_one();
  const double before = thread_seconds();
  const auto begun = Steady::now();
  for (int sent = 0; sent < kFrames;) {
    if (sent - counter.frames < kUnderWay) {
      if (near->send(link, {FrameType::kBatch, Bytes(kFrame)})) ++sent;
      io.poll();
    } else {
      io.run_one_for(std::chrono::microseconds(100));
    }
  }
  while (!far_io.stopped()) io.run_one_for(std::chrono::milliseconds(1));
  const double seconds = seconds_since(begun);
  const double spent = thread_seconds() - before;
  receiver.join();
  const double bytes = static_cast<double>(kFrame) * kFrames;
  return {bytes / seconds, spent / bytes, taking / bytes};
}

// Seconds for a byte, of the cipher that two of ours agree on.
double measure_cipher() {
  pin(0);
  std::vector<unsigned char> text(kRecord, 7);
  std::vector<unsigned char> out(kRecord + 16);
  unsigned char key[16] = {1};
  unsigned char nonce[12] = {2};
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nullptr, key, nonce);
  constexpr int kTimes = 60'000;
  const double before = thread_seconds();
  for (int i = 0; i < kTimes; ++i) {
    int size = 0;
    nonce[0] = static_cast<unsigned char>(i);
    EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce);
    EVP_EncryptUpdate(context, out.data(), &size, text.data(), static_cast<int>(kRecord));
    EVP_EncryptFinal_ex(context, out.data() + size, &size);
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, out.data() + kRecord);
  }
  const double spent = thread_seconds() - before;
  EVP_CIPHER_CTX_free(context);
  return spent / (static_cast<double>(kRecord) * kTimes);
}

Figures measure_sockets() {
  const bench::SocketPair sockets = bench::loopback_sockets();
  const int near = sockets.near;
  const int far = sockets.far;
  double taking = 0;
  std::thread receiver([&] {
    pin(1);
    std::vector<char> buffer(64 * 1024);
    while (::recv(far, buffer.data(), buffer.size(), 0) > 0) {
    }
    taking = thread_seconds();
  });
  pin(0);
  const std::vector<char> record(kRecord);
  const double before = thread_seconds();
  const auto begun = Steady::now();
  const double bytes = static_cast<double>(kFrame) * kFrames;
  for (std::size_t left = kFrame * kFrames; left > 0;) {
    const ssize_t sent = ::send(near, record.data(), std::min(left, record.size()), MSG_NOSIGNAL);
    if (sent <= 0) std::exit(1);
    left -= static_cast<std::size_t>(sent);
  }
  const double spent = thread_seconds() - before;
  ::shutdown(near, SHUT_WR);
  receiver.join();
  const double seconds = seconds_since(begun);
  for (const int s : {near, far}) ::close(s);
  return {bytes / seconds, spent / bytes, taking / bytes};
}

template <typename T>
double median(std::vector<Figures> all, T part) {
  std::vector<double> values;
  for (const Figures& one : all) values.push_back(one.*part);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* what, const std::vector<Figures>& all) {
  std::printf("%-22s %6.2f GB/s   sender %5.2f ns/B   receiver %5.2f ns/B\n", what,
              median(all, &Figures::rate) / 1e9, median(all, &Figures::sending) * 1e9,
              median(all, &Figures::taking) * 1e9);
}

}  // namespace

int main() {
  std::vector<Figures> links;
  std::vector<Figures> sockets;
  std::vector<Figures> cipher;
  for (int round = 0; round < kRounds; ++round) {
    links.push_back(measure_link());
    sockets.push_back(measure_sockets());
    const double seconds = measure_cipher();
    cipher.push_back({1 / seconds, seconds, seconds});
  }
  print("TcpTransport (TLS 1.3)", links);
  print("bare sockets", sockets);
  print("AES-128-GCM alone", cipher);
  const double core =
      1 / std::max(median(links, &Figures::sending), median(links, &Figures::taking));
  std::printf("one core moves %.2f GB/s of TLS: %.0f %% of a 10 Gbit/s link is reached\n",
              core / 1e9, 100 * std::min(1.0, core / kTenGigabit));
  std::printf("the cipher takes %.0f %% of the sender's time\n",
              100 * median(cipher, &Figures::sending) / median(links, &Figures::sending));
  return 0;
}
