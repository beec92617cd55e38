// What an exchange of a group costs: ranks on threads of their own, with real links over loopback,
// divide a row among them and put it together again. Prints the median and the 99th percentile of
// rank 0, in microseconds, for 2, 4 and 8 ranks and several row sizes. Asserts nothing.
//
//   bench_exchange [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "node/ranks/rank_links.h"

namespace {

using namespace hearth;
using node::Assignment;
using node::RankLinks;
using Steady = std::chrono::steady_clock;

constexpr int kWarmUp = 100;

struct Group {
  explicit Group(std::uint32_t ranks) {
    auto book = std::make_shared<RosterBook>(cluster.public_key());
    Roster roster;
    std::vector<SecretKey> keys;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      keys.push_back(SecretKey::generate());
      roster.entries.push_back({keys.back().public_key(), name(rank), Role::kWorker, {}});
    }
    if (!book->offer(sign_roster(roster, cluster).value())) std::exit(1);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      TcpOptions tcp;
      tcp.listen_address = "127.0.0.1:0";
      tcp.identity = TlsIdentity::make(keys[rank]).value();
      tcp.roster = book;
      Hello hello;
      hello.node = name(rank);
      links.push_back(std::make_unique<RankLinks>(tcp, hello));
      assignment.group.push_back({name(rank), links.back()->listen().value(), 1});
    }
    assignment.epoch = Epoch(1);
  }
  static std::string name(std::uint32_t rank) { return "rank-" + std::to_string(rank); }

  SecretKey cluster = SecretKey::generate();
  std::vector<std::unique_ptr<RankLinks>> links;
  Assignment assignment;
};

// The microseconds of each exchange on this rank.
std::vector<double> exchange(Group& group, std::uint32_t rank, std::size_t row, int rounds) {
  const std::size_t ranks = group.links.size();
  RankLinks& links = *group.links[rank];
  Assignment own = group.assignment;
  own.rank = rank;
  if (!links.join(own, {}).ok()) std::exit(1);
  const Bytes part(row / ranks);
  std::vector<Bytes> came(ranks, Bytes(part.size()));
  std::vector<ByteSpan> out(ranks, part);
  std::vector<MutableByteSpan> in(came.begin(), came.end());
  out[rank] = {};
  in[rank] = {};
  std::vector<double> took;
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    const auto begun = Steady::now();
    if (!links.swap(out, in).ok()) std::exit(1);
    if (round < kWarmUp) continue;
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - begun).count());
  }
  return took;
}

void measure(std::uint32_t ranks, std::size_t row, int rounds) {
  Group group(ranks);
  std::vector<double> took;
  std::vector<std::thread> others;
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    others.emplace_back([&group, rank, row, rounds] { exchange(group, rank, row, rounds); });
  }
  took = exchange(group, 0, row, rounds);
  for (std::thread& other : others) other.join();
  std::sort(took.begin(), took.end());
  const auto at = [&](double share) {
    return took[static_cast<std::size_t>(share * static_cast<double>(took.size() - 1))];
  };
  std::printf("%u ranks  row of %6zu bytes  exchange p50 %7.1f us  p99 %7.1f us\n", ranks, row,
              at(0.5), at(0.99));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (rounds < 1) return 2;
  std::printf("%u processors\n", std::thread::hardware_concurrency());
  for (const std::uint32_t ranks : {2U, 4U, 8U}) {
    for (const std::size_t row : {1024U, 16U * 1024, 256U * 1024}) measure(ranks, row, rounds);
  }
}
