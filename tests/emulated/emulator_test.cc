// The emulator itself: what is right runs and gives what a card would; what is wrong is found, with
// every seed.
#include "tests/emulated/emulator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>

#include "kernels/cuda/device.cuh"
#include "tests/emulated/shadow.h"

namespace hearth::kernels::cuda {
namespace {

using emulated::Fault;
using emulated::Input;
using emulated::Memory;

constexpr std::uint64_t kSeeds = 8;

struct Row {
  SharedArray<std::int32_t, 64> values;
};

std::vector<std::int32_t> count_from(std::int32_t first, std::size_t n) {
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// The fault that every seed finds says `what`; the position says who, what and where.
template <typename... Parameters, typename... Arguments>
void expect_fault(const std::string& what, unsigned blocks, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulated::set_seed(seed);
    try {
      launch(kernel, {blocks, 1}, 64, sizeof(Row), Stream{}, arguments...);
      FAIL() << "seed " << seed << ": not found: " << what;
    } catch (const Fault& fault) {
      const std::string message = fault.what();
      EXPECT_NE(message.find(what), std::string::npos) << message;
      EXPECT_EQ(message.rfind("block (", 0), 0U) << message;
      EXPECT_NE(message.find(" thread "), std::string::npos) << message;
    }
  }
}

// Each thread takes its neighbour's value through shared memory.
template <bool kBarrier>
void neighbour(Global<const std::int32_t> in, Global<std::int32_t> out) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  row.values.put(t, in.get(t));
  if (kBarrier) sync_threads();
  out.put(t, row.values.get((t + 1) % 64));
}

TEST(Emulator, RunsWhatIsRight) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulated::set_seed(seed);
    const Input<std::int32_t> in(count_from(10, 64));
    Memory<std::int32_t> out(64);
    launch(neighbour<true>, {1, 1}, 64, sizeof(Row), Stream{}, Global(in.data()),
           Global(out.data()));
    for (int t = 0; t < 64; ++t) EXPECT_EQ(out.values()[t], 10 + (t + 1) % 64);
  }
}

TEST(Emulator, FindsAMissingBarrier) {
  const Input<std::int32_t> in(count_from(0, 64));
  Memory<std::int32_t> out(64);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulated::set_seed(seed);
    EXPECT_THROW(launch(neighbour<false>, {1, 1}, 64, sizeof(Row), Stream{}, Global(in.data()),
                        Global(out.data())),
                 Fault);
  }
}

// A kernel that may begin early, and touches memory before the kernel before it has ended, or ends
// itself before that.
template <int kHow>
void early(Global<const std::int32_t> weights, Global<const std::int32_t> in,
           Global<std::int32_t> out) {
  const unsigned t = thread_index();
  const std::int32_t weight = weights.get_once(t);
  const std::int32_t before = kHow == 1 ? in.get(t) : 0;
  if (kHow == 2) out.put(t, weight);
  if (kHow == 3) atomic_add(out, t, weight);
  if (kHow == 4) return;
  wait_for_previous_kernel();
  out.put(t, weight + (kHow == 1 ? before : in.get(t)));
}

template <int kHow>
void expect_early_fault(const std::string& what) {
  const Input<std::int32_t> in(count_from(5, 64));
  Memory<std::int32_t> out(count_from(0, 64));
  try {
    launch_early(early<kHow>, {1, 1}, 64, 0, Stream{}, Global(in.data()), Global(in.data()),
                 Global(out.data()));
    FAIL() << "not found: " << what;
  } catch (const Fault& fault) {
    EXPECT_NE(std::string(fault.what()).find(what), std::string::npos) << fault.what();
  }
}

TEST(Emulator, FindsWhatBeginsTooEarly) {
  const Input<std::int32_t> in(count_from(5, 64));
  Memory<std::int32_t> out(64);
  launch_early(early<0>, {1, 1}, 64, 0, Stream{}, Global(in.data()), Global(in.data()),
               Global(out.data()));
  EXPECT_EQ(out.values()[3], 16);
  launch(early<1>, {1, 1}, 64, 0, Stream{}, Global(in.data()), Global(in.data()),
         Global(out.data()));
  EXPECT_EQ(out.values()[3], 16);
  expect_early_fault<1>("touches global memory without waiting for the kernel before");
  expect_early_fault<2>("touches global memory without waiting for the kernel before");
  expect_early_fault<3>("touches global memory without waiting for the kernel before");
  expect_early_fault<4>("ends without waiting for the kernel before");
}

// The barrier after the reads is missing: the next round overwrites what others still read.
template <bool kBarrier>
void rounds(Global<std::int32_t> out) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  std::int32_t sum = 0;
  for (std::int32_t round = 0; round < 3; ++round) {
    row.values.put(t, round);
    sync_threads();
    sum += row.values.get(63 - t);
    if (kBarrier) sync_threads();
  }
  out.put(t, sum);
}

TEST(Emulator, FindsAMissingBarrierBetweenRounds) {
  Memory<std::int32_t> out(64);
  launch(rounds<true>, {1, 1}, 64, sizeof(Row), Stream{}, Global(out.data()));
  EXPECT_EQ(out.values(), std::vector<std::int32_t>(64, 3));
  expect_fault("no barrier between", 1, rounds<false>, Global(out.data()));
}

// Within a warp a shuffle is no barrier, sync_warp is one; between warps it is not.
template <int kHow>
void exchange_in_warp(Global<std::int32_t> out) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  row.values.put(t, static_cast<std::int32_t>(t));
  if (kHow == 0) warp_any(true);
  if (kHow != 0) sync_warp();
  out.put(t, row.values.get(kHow == 2 ? t ^ 32U : t ^ 1U));
}

TEST(Emulator, FindsLanesThatRelyOnLockstep) {
  Memory<std::int32_t> out(64);
  launch(exchange_in_warp<1>, {1, 1}, 64, sizeof(Row), Stream{}, Global(out.data()));
  expect_fault("no barrier between", 1, exchange_in_warp<0>, Global(out.data()));
  expect_fault("", 1, exchange_in_warp<2>, Global(out.data()));
}

// A lane that reads again after a sync_warp may be overwritten by a lane that met it there before.
void read_twice(Global<std::int32_t> out) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  if (t == 0) row.values.put(0, 7);
  sync_warp();
  std::int32_t seen = t == 1 ? row.values.get(0) : 0;
  sync_warp();
  if (t == 2) {
    seen += row.values.get(0);
    row.values.put(0, 8);
  }
  out.put(t, seen);
}

TEST(Emulator, ReadersOfEarlierMeetingsAreOrdered) {
  Memory<std::int32_t> out(64);
  launch(read_twice, {1, 1}, 64, sizeof(Row), Stream{}, Global(out.data()));
  EXPECT_EQ(out.values()[2], 7);
}

void write_all(Global<std::int32_t> out, unsigned extra) {
  const unsigned t = block_index_x() * 64 + thread_index();
  out.put(t + extra, 1);
}

void read_all(Global<const std::int32_t> in, Global<std::int32_t> out) {
  const unsigned t = thread_index();
  out.put(t, in.get(t + 1));
}

TEST(Emulator, FindsWhatIsBeyondTheEnd) {
  Memory<std::int32_t> out(128);
  launch(write_all, {2, 1}, 64, 0, Stream{}, Global(out.data()), 0U);
  expect_fault("beyond the end of its memory", 2, write_all, Global(out.data()), 1U);
  expect_fault("outside all memory", 2, write_all, Global<std::int32_t>(), 0U);
  const Input<std::int32_t> in(count_from(0, 64));
  Memory<std::int32_t> other(64);
  expect_fault("beyond the end of its memory", 1, read_all, Global(in.data()),
               Global(other.data()));
}

void beyond_array(Global<std::int32_t>) {
  Row& row = shared_memory<Row>();
  row.values.put(thread_index() + 1, 1);
}

void more_shared() { shared_memory<SharedArray<std::int32_t, 65>>(); }

TEST(Emulator, FindsWhatIsBeyondAnArrayOrTheSharedMemory) {
  expect_fault("touches element 64 of an array of 64", 1, beyond_array, Global<std::int32_t>());
  expect_fault("bytes of shared memory", 1, more_shared);
}

void same_place(Global<std::int32_t> out, unsigned mask) { out.put(thread_index() & mask, 1); }

TEST(Emulator, FindsTwoThreadsAndTwoBlocksAtOnePlace) {
  Memory<std::int32_t> out(64);
  expect_fault("writes what another thread writes", 1, same_place, Global(out.data()), 31U);
  expect_fault("writes what another thread writes", 2, same_place, Global(out.data()), 63U);
}

// Bytes beside each other are places of their own.
void bytes_beside(Global<std::uint8_t> out) { out.put(thread_index(), 3); }

void unaligned(Global<const std::uint8_t> in, Global<std::int32_t> out) {
  out.put(thread_index(), static_cast<std::int32_t>(
                              in.at(thread_index() * 16 + 8).as<const Words4>().get(0).at[0]));
}

TEST(Emulator, FindsAnUnalignedLoad) {
  Memory<std::uint8_t> bytes(64);
  launch(bytes_beside, {1, 1}, 64, 0, Stream{}, Global(bytes.data()));
  const Input<std::uint8_t> in(std::vector<std::uint8_t>(65 * 16));
  Memory<std::int32_t> out(64);
  expect_fault("aligned to 16", 1, unaligned, Global(in.data()), Global(out.data()));
}

void read_unwritten(Global<std::int32_t> out) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  if (t != 40) row.values.put(t, 1);
  sync_threads();
  out.put(t, row.values.get(t));
}

void read_back(Global<std::int32_t> in, Global<std::int32_t> out) {
  out.put(thread_index(), in.get(thread_index()));
}

TEST(Emulator, FindsReadsOfUnwrittenMemory) {
  Memory<std::int32_t> out(64);
  expect_fault("thread 40 reads what no thread has written", 1, read_unwritten, Global(out.data()));
  Memory<std::int32_t> fresh(64);
  expect_fault("no thread has written", 1, read_back, Global(fresh.data()), Global(out.data()));
}

void write_input(Global<std::int32_t> in) { in.put(thread_index(), 1); }

TEST(Emulator, FindsWritesToAnInput) {
  const Input<std::int32_t> in(count_from(0, 64));
  expect_fault("only read", 1, write_input, Global(const_cast<std::int32_t*>(in.data())));
}

template <int kHow>
void barrier_of_some() {
  if (kHow == 0 && thread_index() < 33) sync_threads();
  if (kHow == 1) {
    if (thread_index() % 2 == 0) {
      sync_threads();
    } else {
      sync_threads();
    }
  }
  if (kHow == 2 && thread_index() != 5) warp_add(1);
}

template <int kHow>
void lanes_apart() {
  if (thread_index() % 32 == 7) {
    warp_max(1);
  } else if (kHow == 0) {
    warp_add(1);
  } else {
    sync_threads();
  }
}

TEST(Emulator, FindsBarriersThatSomeNeverReach) {
  expect_fault("waits forever", 1, barrier_of_some<0>);
  expect_fault("at another barrier", 1, barrier_of_some<1>);
  expect_fault("thread 5 has ended", 1, barrier_of_some<2>);
}

TEST(Emulator, FindsLanesAtDifferentOperations) {
  expect_fault("while its warp does", 1, lanes_apart<0>);
  expect_fault("waits forever", 1, lanes_apart<1>);
}

struct Copied {
  SharedArray<Words4, 64> words;
};

template <bool kWait, bool kBarrier>
void copy_through(Global<const Words4> in, Global<Words4> out) {
  Copied& copied = shared_memory<Copied>();
  const unsigned t = thread_index();
  copy_async(copied.words, t, in, t);
  copy_commit();
  if (kWait) copy_wait<0>();
  if (kBarrier) sync_threads();
  out.put(t, copied.words.get(kBarrier ? 63 - t : t ^ 1U));
  if (!kWait) copy_wait<0>();
}

// Two rounds under way: the wait must name the older one.
template <unsigned kLeft>
void copy_ring(Global<const Words4> in, Global<Words4> out) {
  Copied& copied = shared_memory<Copied>();
  const unsigned t = thread_index() % 32;
  if (thread_index() >= 32) return;
  copy_async(copied.words, t, in, t);
  copy_commit();
  copy_async(copied.words, 32 + t, in, 32 + t);
  copy_commit();
  copy_wait<kLeft>();
  out.put(t, copied.words.get(t));
  copy_wait<0>();
  out.put(32 + t, copied.words.get(32 + t));
}

template <typename Kernel>
void run_copy(Kernel kernel, Global<const Words4> in, Global<Words4> out) {
  launch(kernel, {1, 1}, 64, sizeof(Copied), Stream{}, in, out);
}

TEST(Emulator, FindsWhatACopyHasNotBrought) {
  std::vector<Words4> words(64);
  for (unsigned i = 0; i < 64; ++i) words[i] = {{i, i, i, i}};
  const Input<Words4> in(words);
  Memory<Words4> out(64);
  const Global from(in.data());
  const Global to(out.data());
  run_copy(copy_through<true, true>, from, to);
  EXPECT_EQ(out.values()[0].at[0], 63U);
  run_copy(copy_ring<1>, from, to);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulated::set_seed(seed);
    EXPECT_THROW(run_copy(copy_through<false, true>, from, to), Fault);
    EXPECT_THROW(run_copy(copy_through<true, false>, from, to), Fault);
    EXPECT_THROW(run_copy(copy_ring<2>, from, to), Fault);
  }
}

void count(Global<std::int32_t> sum, bool plain) {
  if (plain) {
    sum.put(0, sum.get(0) + 1);
  } else {
    atomic_add(sum, 0, std::int32_t{1});
  }
}

TEST(Emulator, AtomicsMeetAndPlainUpdatesDoNot) {
  Memory<std::int32_t> sum(std::vector<std::int32_t>{0});
  launch(count, {3, 1}, 64, 0, Stream{}, Global(sum.data()), false);
  EXPECT_EQ(sum.values()[0], 192);
  expect_fault("no barrier between", 3, count, Global(sum.data()), true);
}

// What is left out of a hand-over between blocks; the last three lack nothing.
enum class Lacks {
  kFence,
  kBarrier,  // between the fences and the ticket
  kReadersFence,
  kNothing,
  kFencesOfOthers,   // thread 0's, behind the barrier, is enough
  kReadersOfOthers,  // so is the reading block's thread 0's, in front of a barrier
};

struct Handed {
  Global<std::int32_t> values;  // a value of each thread of each block
  Global<std::int32_t> sums;    // 64
  Global<std::uint32_t> tickets;
  Global<std::int32_t> out;  // 64
  bool by_sums;
};

// The last block to come takes what all have left.
template <Lacks kLacks>
void hand_over(Handed handed) {
  Row& row = shared_memory<Row>();
  const unsigned t = thread_index();
  handed.values.put(block_index_x() * 64 + t, static_cast<std::int32_t>(t));
  atomic_add(handed.sums, t, std::int32_t{1});
  if (kLacks != Lacks::kFence && kLacks != Lacks::kFencesOfOthers) fence_device();
  if (kLacks != Lacks::kBarrier) sync_threads();
  if (t == 0) {
    if (kLacks == Lacks::kFencesOfOthers) fence_device();
    const bool last = atomic_add(handed.tickets, 0, 1U) + 1 == grid_x();
    if (kLacks == Lacks::kReadersOfOthers) fence_device();
    row.values.put(0, last ? 1 : 0);
  }
  sync_threads();
  if (row.values.get(0) == 0) return;
  if (kLacks != Lacks::kReadersFence && kLacks != Lacks::kReadersOfOthers) fence_device();
  std::int32_t sum = 0;
  for (unsigned block = 0; block < grid_x() && !handed.by_sums; ++block) {
    sum += handed.values.get(block * 64 + (t + 1) % 64);
  }
  if (handed.by_sums) sum = atomic_exchange(handed.sums, (t + 1) % 64, 0);
  handed.out.put(t, sum);
  if (t == 0) atomic_exchange(handed.tickets, 0, 0U);
}

template <Lacks kLacks>
void expect_handed(bool found) {
  for (const bool by_sums : {false, true}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      emulated::set_seed(seed);
      Memory<std::int32_t> values(3 * 64);
      Memory<std::int32_t> sums(std::vector<std::int32_t>(64, 0));
      Memory<std::uint32_t> tickets(std::vector<std::uint32_t>{0});
      Memory<std::int32_t> out(64);
      const Handed handed{Global(values.data()), Global(sums.data()), Global(tickets.data()),
                          Global(out.data()), by_sums};
      const auto run = [&] {
        launch(hand_over<kLacks>, {3, 1}, 64, sizeof(Row), Stream{}, handed);
      };
      if (!found) {
        EXPECT_NO_THROW(run()) << "seed " << seed;
        EXPECT_EQ(out.values()[5], by_sums ? 3 : 18);
        continue;
      }
      try {
        run();
        ADD_FAILURE() << "seed " << seed << ": not found, by sums " << by_sums;
      } catch (const Fault& fault) {
        const std::string message = fault.what();
        EXPECT_NE(message.find(by_sums ? "exchanges what another thread updates"
                                       : "reads what another thread writes"),
                  std::string::npos)
            << message;
      }
    }
  }
}

TEST(Emulator, FindsBlocksThatHandOverWithoutAnOrder) {
  expect_handed<Lacks::kNothing>(false);
  expect_handed<Lacks::kFencesOfOthers>(false);
  expect_handed<Lacks::kReadersOfOthers>(false);
  expect_handed<Lacks::kFence>(true);
  expect_handed<Lacks::kBarrier>(true);
  expect_handed<Lacks::kReadersFence>(true);
}

void warp_values(Global<std::int32_t> out) {
  const unsigned t = thread_index();
  const auto mine = static_cast<std::int32_t>(t);
  std::int32_t sum = warp_add(mine);
  sum += static_cast<std::int32_t>(warp_max(t)) * 1000;
  sum += shuffle_down(mine, 4) * 100'000 + (shuffle_xor(mine, 3) == (mine ^ 3) ? 1 : 0);
  if (warp_ballot(t % 2 == 0) != 0x55555555U || warp_any(t > 63)) sum = -1;
  out.put(t, sum);
}

// A KV cache of a GiB, of which a prompt touches little, is not accounted for byte by byte.
TEST(Emulator, UntouchedMemoryTakesNoAccount) {
  const auto resident = [] {
    std::uint64_t all = 0;
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  };
  constexpr std::size_t kBytes = 32 << 20;
  const std::uint64_t before = resident();
  emulated::Shadow shadow(kBytes, false, true);
  EXPECT_FALSE(shadow.filled(kBytes / 2, 4));
  shadow.fill(kBytes / 2, 4);
  EXPECT_TRUE(shadow.filled(kBytes / 2, 4));
  EXPECT_FALSE(shadow.filled(kBytes / 2 + 1, 4));
  EXPECT_LT(resident() - before, kBytes) << "less than a byte for each";
}

TEST(Emulator, LanesExchangeValues) {
  Memory<std::int32_t> out(64);
  launch(warp_values, {1, 1}, 64, 0, Stream{}, Global(out.data()));
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32;
    const int down = t % 32 + 4 < 32 ? t + 4 : t;
    EXPECT_EQ(out.values()[t], first * 32 + 496 + (first + 31) * 1000 + down * 100'000 + 1);
  }
}

// A 16 x 8 product of 32 columns of bytes, from matrices in memory.
void multiply_tile(Global<const std::uint8_t> a, Global<const std::uint8_t> b,
                   Global<std::int32_t> out, bool left_unsigned, bool halves) {
  const unsigned g = thread_index() / 4;
  const unsigned c = thread_index() % 4;
  const auto word = [&](Global<const std::uint8_t> m, unsigned row, unsigned column) {
    return m.as<const std::uint32_t>().get((row * 32 + column) / 4);
  };
  const std::uint32_t left[4] = {word(a, g, 4 * c), word(a, g + 8, 4 * c), word(a, g, 16 + 4 * c),
                                 word(a, g + 8, 16 + 4 * c)};
  const std::uint32_t right[2] = {word(b, g, 4 * c), word(b, g, 16 + 4 * c)};
  std::int32_t sum[4] = {1, 1, 1, 1};
  for (unsigned half = 0; half < 2 && halves; ++half) {
    const std::uint32_t part[2] = {left[2 * half], left[2 * half + 1]};
    if (left_unsigned) multiply_16x8x16_unsigned(sum, part, right[half]);
    if (!left_unsigned) multiply_16x8x16(sum, part, right[half]);
  }
  if (!halves && left_unsigned) multiply_16x8x32_unsigned(sum, left, right);
  if (!halves && !left_unsigned) multiply_16x8x32(sum, left, right);
  for (unsigned i = 0; i < 4; ++i) out.put((g + 8 * (i / 2)) * 8 + 2 * c + i % 2, sum[i]);
}

TEST(Emulator, MultipliesTiles) {
  std::vector<std::uint8_t> a(16 * 32);
  std::vector<std::uint8_t> b(8 * 32);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint8_t>(i * 37 + 11);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint8_t>(i * 101 + 5);
  const Input<std::uint8_t> left(a);
  const Input<std::uint8_t> right(b);
  for (const bool left_unsigned : {false, true}) {
    for (const bool halves : {false, true}) {
      Memory<std::int32_t> out(16 * 8);
      launch(multiply_tile, {1, 1}, 32, 0, Stream{}, Global(left.data()), Global(right.data()),
             Global(out.data()), left_unsigned, halves);
      for (unsigned row = 0; row < 16; ++row) {
        for (unsigned column = 0; column < 8; ++column) {
          std::int32_t sum = 1;
          for (unsigned k = 0; k < 32; ++k) {
            const std::uint8_t weight = a[row * 32 + k];
            sum += (left_unsigned ? weight : static_cast<std::int8_t>(weight)) *
                   static_cast<std::int8_t>(b[column * 32 + k]);
          }
          ASSERT_EQ(out.values()[row * 8 + column], sum);
        }
      }
    }
  }
}

TEST(Emulator, BytesOfWords) {
  EXPECT_EQ(dot_signed(0x80FF7F01U, 0x7F7F7F02U, 5), -128 * 127 - 127 + 127 * 127 + 2 + 5);
  EXPECT_EQ(dot_unsigned(0x80FF7F01U, 0x7F817F02U, 5), 128 * 127 + 255 * -127 + 127 * 127 + 2 + 5);
  EXPECT_EQ(pick_bytes(0x33221100U, 0xF7665544U, 0x7410U), 0xF7441100U);
  EXPECT_EQ(pick_bytes(0x33221100U, 0xF7665544U, 0xF840U), 0xFF004400U);
}

}  // namespace
}  // namespace hearth::kernels::cuda
