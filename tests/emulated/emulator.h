// A small emulator of a CUDA device, on which the kernels of kernels/cuda run as plain C++: grids,
// blocks, threads as fibers, shared memory, barriers, and what the lanes of a warp do together.
//
// Threads of a block run one at a time and change places only where they wait for each other; who
// goes on is drawn from a seed, and so is the order of the blocks. Every access to shared and
// global memory is checked (shadow.h): bounds, alignment, that somebody has written there, and that
// something orders it after any other thread's, in the same block or in another. Lanes that meet at
// different operations, and barriers that some threads never reach, are faults as well. A fault is
// thrown out of run() as emulated::Fault, with block, thread, what and where. One host thread at a
// time.
//
// Device code sees emulated_device.h; tests use what is declared here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <source_location>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "tests/emulated/shadow.h"
#include "tests/emulated/stream_order.h"

struct CUstream_st;

namespace hearth::emulated {

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
using Where = std::source_location;

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreadsMost = 1024;         // of a block, as on the device
inline constexpr std::size_t kSharedMost = 64 * 1024;  // of a block: what every architecture gives

struct Launch {
  unsigned blocks_x = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;  // a multiple of 32
  std::size_t shared_bytes = 0;
  bool early = false;  // may begin before the kernel before it in the stream has ended
};

// Seed of the orders in which blocks and threads run, for every launch from now on.
void set_seed(std::uint64_t seed);

// Runs `kernel` in every thread of the grid; returns when all are done.
void run(const Launch& launch, const std::function<void()>& kernel);
// A number below `below` from the same seed.
std::uint64_t draw(std::uint64_t below);
// A launch on a stream (emulated_runtime.h). Null, or what the runtime says is wrong.
const char* submit(CUstream_st* stream, std::function<void()> run);
// Launches so far: that a test has run what it means to test.
std::uint64_t launches();

// From here on: only inside a kernel.
unsigned thread_index();
unsigned block_index_x();
unsigned block_index_y();
const Launch& current_launch();

// The block's shared memory, of at least `bytes`.
void* shared_memory(std::size_t bytes, Where where);
void sync_threads(Where where);

// Gives every lane of the warp what each of them handed in. `operation` names what they do
// together: lanes that mean different things are a fault.
using LaneWords = std::array<std::uint32_t, 12>;
using WarpWords = std::array<LaneWords, kWarp>;
const WarpWords& exchange(const char* operation, const LaneWords& mine, Where where);
// The same, and what the lanes did to memory before is ordered before what they do after.
void sync_warp(Where where);

enum class Access { kRead, kWrite };
// Faults unless the access is right.
void check(const void* address, std::size_t bytes, std::size_t alignment, Access access,
           Where where);
// Likewise of an atomic operation with the number at `value`.
void check_update(const void* address, std::size_t bytes, Update kind, const void* value,
                  Where where);
// Its thread looks at the value that it found; an addition is then a ticket (block_order.h).
void look(const void* address, std::size_t bytes, Update kind);
void fence();
void wait_for_previous_kernel();
// Faults in a launch that may begin early, before its thread has waited for the kernel before.
void check_waited(Where where);

[[noreturn]] void outside_array(std::size_t index, std::size_t count, Where where);

// An asynchronous copy of 16 bytes: committed in groups, there after the wait for its group.
void copy_async(void* to, const void* from, Where where);
void copy_commit();
void copy_wait(unsigned groups_left, Where where);

// Global memory: exactly as many elements as asked for, with nothing else near them.
void add_memory(const void* begin, std::size_t bytes, bool written, bool writable);
void remove_memory(const void* begin);
// The operation of a stream that kernels and copies now belong to.
void set_operation(const Stamp& stamp);
// A copy or a clearing: faults outside of all memory, and where it reads what no thread has
// written.
void copy_writes(const void* begin, std::size_t bytes);
void clear_writes(const void* begin, std::size_t bytes);  // any number of arrays
void copy_reads(const void* begin, std::size_t bytes);

template <typename T>
class Memory {
  static constexpr std::size_t kMargin = 256;

 public:
  // No thread has written it yet.
  explicit Memory(std::size_t count) : Memory(count, false, true) {}
  // With the values, to be read and written.
  explicit Memory(const std::vector<T>& values, bool writable = true)
      : Memory(values.size(), true, writable) {
    std::copy(values.begin(), values.end(), data());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    remove_memory(data());
    ::operator delete[](raw_, std::align_val_t{kMargin});
  }
  T* data() const { return reinterpret_cast<T*>(raw_ + kMargin); }
  std::size_t size() const { return count_; }
  std::vector<T> values() const { return {data(), data() + count_}; }

 private:
  Memory(std::size_t count, bool written, bool writable)
      : raw_(new (std::align_val_t{kMargin}) std::byte[count * sizeof(T) + 2 * kMargin]()),
        count_(count) {
    static_assert(std::is_trivially_copyable_v<T>);
    add_memory(data(), count * sizeof(T), written, writable);
  }
  std::byte* raw_;
  std::size_t count_;
};

// Memory that kernels only read.
template <typename T>
class Input : public Memory<T> {
 public:
  explicit Input(const std::vector<T>& values) : Memory<T>(values, false) {}
  const T* data() const { return Memory<T>::data(); }
};

}  // namespace hearth::emulated
