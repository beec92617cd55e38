// The interface of kernels/cuda/device.cuh for OpenCL. Clang compiles a source of kernels/cuda with
// it to LLVM code; translate.py makes plain OpenCL C of the kernels in there, and host code whose
// kernels queue themselves (opencl_launch.h).
//
// Functions named hearth_cl_* have no definition in C++: translate.py and prelude.cl give them one.
// A warp is 32 neighbours of a work group, whatever the device runs together.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/stream.h"
#include "kernels/elementary.h"
#include "kernels/opencl/opencl_launch.h"

#define HEARTH_KERNEL(threads, blocks) \
  static __attribute__((noinline, section("hearth_kernel"))) void
#define HEARTH_DEVICE __attribute__((always_inline)) inline
#define HEARTH_UNROLL
#define HEARTH_ROLL

extern "C" {
// The launch.
__attribute__((const)) std::uint32_t hearth_cl_thread_index() noexcept;
__attribute__((const)) std::uint32_t hearth_cl_block_x() noexcept;
__attribute__((const)) std::uint32_t hearth_cl_block_y() noexcept;
__attribute__((const)) std::uint32_t hearth_cl_block_threads() noexcept;
__attribute__((const)) std::uint32_t hearth_cl_grid_x() noexcept;
__attribute__((const)) void* hearth_cl_shared() noexcept;

// Both return once all threads of the block, or of the warp, have come here. What they did to
// memory before is seen after.
__attribute__((convergent, noduplicate)) void hearth_cl_sync_threads();
__attribute__((convergent, noduplicate)) void hearth_cl_sync_warp();
void hearth_cl_fence();
// What lanes exchange: slot `slot`, a constant, of this lane before hearth_cl_sync_warp(), and of
// any lane directly after it.
void hearth_cl_put(std::uint32_t slot, std::uint32_t value);
std::uint32_t hearth_cl_seen(std::uint32_t slot, std::uint32_t lane);

// The value before.
std::uint32_t hearth_cl_atomic_add(void* at, std::uint32_t value);
std::uint64_t hearth_cl_atomic_add_long(void* at, std::uint64_t value);
std::uint32_t hearth_cl_atomic_exchange(void* at, std::uint32_t value);
std::uint64_t hearth_cl_atomic_exchange_long(void* at, std::uint64_t value);
std::uint32_t hearth_cl_atomic_max(void* at, std::uint32_t value);
std::uint32_t hearth_cl_atomic_max_signed(void* at, std::uint32_t value);
std::uint32_t hearth_cl_atomic_or(void* at, std::uint32_t value);

__attribute__((const)) std::int32_t hearth_cl_dot_signed(std::uint32_t a, std::uint32_t b,
                                                         std::int32_t sum);
__attribute__((const)) std::int32_t hearth_cl_dot_unsigned(std::uint32_t a, std::uint32_t b,
                                                           std::int32_t sum);
__attribute__((const)) std::uint32_t hearth_cl_pick_bytes(std::uint32_t low, std::uint32_t high,
                                                          std::uint32_t selector);
}

namespace hearth::kernels::cuda {

HEARTH_DEVICE unsigned thread_index() { return hearth_cl_thread_index(); }
HEARTH_DEVICE unsigned block_index_x() { return hearth_cl_block_x(); }
HEARTH_DEVICE unsigned block_index_y() { return hearth_cl_block_y(); }
HEARTH_DEVICE unsigned block_threads() { return hearth_cl_block_threads(); }
HEARTH_DEVICE unsigned grid_x() { return hearth_cl_grid_x(); }

// That of elementary.h without doubles, which are slow on many devices.
HEARTH_DEVICE std::int32_t round_even(float x) {
  return static_cast<std::int32_t>(__builtin_nearbyintf(x));
}

struct alignas(16) Words4 {
  std::uint32_t at[4];
};

// Clang must not make one load or store of two in different kinds of memory, since OpenCL C has no
// pointer that is of either. So those of global memory are volatile here, and those of shared
// memory atomic; the OpenCL C has plain ones.
namespace memory {

template <std::size_t kBytes>
using Word = std::conditional_t<
    kBytes == 8, std::uint64_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 1, std::uint8_t, std::uint32_t> > >;
template <typename T>
using WordOf = Word<std::is_class_v<T> ? 4 : sizeof(T)>;
template <typename T>
struct Words {
  WordOf<T> at[sizeof(T) / sizeof(WordOf<T>)];
};

template <typename T, typename Load>
HEARTH_DEVICE T load(const T* from, Load one) {
  Words<T> words;
  _Pragma("unroll") for (unsigned i = 0; i < sizeof(words) / sizeof(words.at[0]); ++i) {
    words.at[i] = one(reinterpret_cast<const WordOf<T>*>(from) + i);
  }
  return std::bit_cast<T>(words);
}
template <typename T, typename Store>
HEARTH_DEVICE void store(T* to, const T& value, Store one) {
  const auto words = std::bit_cast<Words<T> >(value);
  _Pragma("unroll") for (unsigned i = 0; i < sizeof(words) / sizeof(words.at[0]); ++i) {
    one(reinterpret_cast<WordOf<T>*>(to) + i, words.at[i]);
  }
}

template <typename T>
HEARTH_DEVICE T load_global(const T* from) {
  return load(from, [](const volatile auto* at) { return *at; });
}
template <typename T>
HEARTH_DEVICE void store_global(T* to, const T& value) {
  store(to, value, [](volatile auto* at, auto word) { *at = word; });
}
template <typename T>
HEARTH_DEVICE T load_shared(const T* from) {
  return load(from, [](const auto* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); });
}
template <typename T>
HEARTH_DEVICE void store_shared(T* to, const T& value) {
  store(to, value, [](auto* at, auto word) { __atomic_store_n(at, word, __ATOMIC_RELAXED); });
}

}  // namespace memory

template <typename T>
class Global {
 public:
  Global() = default;
  explicit Global(T* data) : data_(data) {}

  HEARTH_DEVICE std::remove_const_t<T> get(std::size_t i) const {
    return memory::load_global<std::remove_const_t<T> >(data_ + i);
  }
  HEARTH_DEVICE std::remove_const_t<T> get_constant(std::size_t i) const { return get(i); }
  HEARTH_DEVICE std::remove_const_t<T> get_once(std::size_t i) const { return get(i); }
  HEARTH_DEVICE void put(std::size_t i, T value) const { memory::store_global(data_ + i, value); }
  template <typename U>
  HEARTH_DEVICE Global<U> as() const {
    return Global<U>(reinterpret_cast<U*>(data_));
  }
  HEARTH_DEVICE Global at(std::size_t i) const { return Global(data_ + i); }
  HEARTH_DEVICE bool is_null() const { return data_ == nullptr; }
  HEARTH_DEVICE T* raw() const { return data_; }

 private:
  T* data_ = nullptr;
};

template <typename T, unsigned kCount>
class SharedArray {
 public:
  HEARTH_DEVICE T get(std::size_t i) const { return memory::load_shared(data_ + i); }
  HEARTH_DEVICE void put(std::size_t i, T value) { memory::store_shared(data_ + i, value); }
  HEARTH_DEVICE T* raw(std::size_t i) { return data_ + i; }
  HEARTH_DEVICE std::uint32_t word(std::size_t i) const {
    return memory::load_shared(reinterpret_cast<const std::uint32_t*>(data_) + i);
  }

 private:
  T data_[kCount];
};

template <typename S>
HEARTH_DEVICE S& shared_memory() {
  return *static_cast<S*>(hearth_cl_shared());
}

HEARTH_DEVICE void sync_threads() { hearth_cl_sync_threads(); }
HEARTH_DEVICE void sync_warp() { hearth_cl_sync_warp(); }
HEARTH_DEVICE void fence_device() { hearth_cl_fence(); }
// Queues are in order.
HEARTH_DEVICE void wait_for_previous_kernel() {}

template <typename T>
HEARTH_DEVICE T shuffle(T value, unsigned lane) {
  static_assert(sizeof(T) == 4);
  hearth_cl_put(0, std::bit_cast<std::uint32_t>(value));
  hearth_cl_sync_warp();
  return std::bit_cast<T>(hearth_cl_seen(0, lane % 32));
}
template <typename T>
HEARTH_DEVICE T shuffle_down(T value, unsigned distance) {
  const unsigned lane = thread_index() % 32;
  return shuffle(value, lane + distance < 32 ? lane + distance : lane);
}
template <typename T>
HEARTH_DEVICE T shuffle_xor(T value, unsigned mask) {
  return shuffle(value, (thread_index() ^ mask) % 32);
}

namespace lanes {

template <typename Fold>
HEARTH_DEVICE std::uint32_t fold(std::uint32_t mine, Fold with) {
  hearth_cl_put(0, mine);
  hearth_cl_sync_warp();
  std::uint32_t result = hearth_cl_seen(0, 0);
  for (unsigned lane = 1; lane < 32; ++lane) result = with(result, hearth_cl_seen(0, lane));
  return result;
}

}  // namespace lanes

HEARTH_DEVICE std::uint32_t warp_max(std::uint32_t mine) {
  return lanes::fold(mine, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
}
HEARTH_DEVICE std::int32_t warp_add(std::int32_t mine) {
  return static_cast<std::int32_t>(lanes::fold(
      static_cast<std::uint32_t>(mine), [](std::uint32_t a, std::uint32_t b) { return a + b; }));
}
HEARTH_DEVICE std::uint32_t warp_ballot(bool mine) {
  return lanes::fold(mine ? 1U << (thread_index() % 32) : 0U,
                     [](std::uint32_t a, std::uint32_t b) { return a | b; });
}
HEARTH_DEVICE bool warp_any(bool mine) { return warp_ballot(mine) != 0; }

namespace atomics {

template <typename T>
HEARTH_DEVICE T add(T* at, T value) {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(hearth_cl_atomic_add_long(at, static_cast<std::uint64_t>(value)));
  } else {
    return static_cast<T>(hearth_cl_atomic_add(at, static_cast<std::uint32_t>(value)));
  }
}

}  // namespace atomics

template <typename T>
HEARTH_DEVICE T atomic_add(Global<T> to, std::size_t i, T value) {
  return atomics::add(to.raw() + i, value);
}
template <typename T>
HEARTH_DEVICE T atomic_exchange(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(
        hearth_cl_atomic_exchange_long(to.raw() + i, static_cast<std::uint64_t>(value)));
  } else {
    return static_cast<T>(
        hearth_cl_atomic_exchange(to.raw() + i, static_cast<std::uint32_t>(value)));
  }
}
template <typename T>
HEARTH_DEVICE T atomic_max(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(
        hearth_cl_atomic_max_signed(to.raw() + i, static_cast<std::uint32_t>(value)));
  } else {
    return hearth_cl_atomic_max(to.raw() + i, value);
  }
}
template <typename T>
HEARTH_DEVICE T atomic_or(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  return static_cast<T>(hearth_cl_atomic_or(to.raw() + i, static_cast<std::uint32_t>(value)));
}
template <typename T, unsigned kCount>
HEARTH_DEVICE T atomic_add(SharedArray<T, kCount>& to, std::size_t i, T value) {
  return atomics::add(to.raw(i), value);
}

template <unsigned kCount>
HEARTH_DEVICE Words4 get_four(SharedArray<std::uint32_t, kCount>& from, std::size_t i) {
  return memory::load_shared(reinterpret_cast<const Words4*>(from.raw(i)));
}
template <unsigned kCount>
HEARTH_DEVICE void put_four(SharedArray<std::uint32_t, kCount>& to, std::size_t i,
                            const Words4& words) {
  memory::store_shared(reinterpret_cast<Words4*>(to.raw(i)), words);
}

template <unsigned kCount>
HEARTH_DEVICE void copy_async(SharedArray<Words4, kCount>& to, std::size_t i,
                              Global<const Words4> from, std::size_t j) {
  to.put(i, from.get(j));
}
HEARTH_DEVICE void copy_commit() {}
template <unsigned kGroupsLeft>
HEARTH_DEVICE void copy_wait() {}

HEARTH_DEVICE std::int32_t dot_signed(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  return hearth_cl_dot_signed(a, b, sum);
}
HEARTH_DEVICE std::int32_t dot_unsigned(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  return hearth_cl_dot_unsigned(a, b, sum);
}
HEARTH_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high,
                                       std::uint32_t selector) {
  return hearth_cl_pick_bytes(low, high, selector);
}

HEARTH_DEVICE float widen_half(std::uint16_t half) { return half_to_float(half); }
HEARTH_DEVICE std::uint16_t narrow_half(float value) { return float_to_half(value); }

namespace lanes {

// device.cuh has the layout: lane 4 g + c holds words of row g, and of column g.
template <bool kUnsigned, unsigned kHalves>
HEARTH_DEVICE void multiply(std::int32_t (&sum)[4], const std::uint32_t* a,
                            const std::uint32_t* b) {
  _Pragma("unroll") for (unsigned i = 0; i < 2 * kHalves; ++i) hearth_cl_put(i, a[i]);
  _Pragma("unroll") for (unsigned i = 0; i < kHalves; ++i) hearth_cl_put(2 * kHalves + i, b[i]);
  hearth_cl_sync_warp();
  const unsigned lane = thread_index() % 32;
  for (unsigned k = 0; k < 4 * kHalves; ++k) {
    const unsigned half = k / 4;
    _Pragma("unroll") for (unsigned i = 0; i < 4; ++i) {
      const unsigned column = lane % 4 * 2 + i % 2;
      const std::uint32_t left = hearth_cl_seen(half * 2 + i / 2, lane / 4 * 4 + k % 4);
      const std::uint32_t right = hearth_cl_seen(2 * kHalves + half, column * 4 + k % 4);
      sum[i] = kUnsigned ? hearth_cl_dot_unsigned(left, right, sum[i])
                         : hearth_cl_dot_signed(left, right, sum[i]);
    }
  }
}

}  // namespace lanes

HEARTH_DEVICE void multiply_16x8x32(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  lanes::multiply<false, 2>(sum, a, b);
}
HEARTH_DEVICE void multiply_16x8x32_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  lanes::multiply<true, 2>(sum, a, b);
}
HEARTH_DEVICE void multiply_16x8x16(std::int32_t (&sum)[4], const std::uint32_t (&a)[2],
                                    std::uint32_t b) {
  lanes::multiply<false, 1>(sum, a, &b);
}
HEARTH_DEVICE void multiply_16x8x16_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[2],
                                             std::uint32_t b) {
  lanes::multiply<true, 1>(sum, a, &b);
}

template <unsigned kCount>
HEARTH_DEVICE void load_fragments(SharedArray<Words4, kCount>& from, std::size_t i,
                                  std::uint32_t (&words)[4]) {
  const Words4 mine = from.get(i);
  _Pragma("unroll") for (unsigned k = 0; k < 4; ++k) hearth_cl_put(k, mine.at[k]);
  hearth_cl_sync_warp();
  const unsigned lane = thread_index() % 32;
  _Pragma("unroll") for (unsigned group = 0; group < 4; ++group) {
    words[group] = hearth_cl_seen(lane % 4, 8 * group + lane / 4);
  }
}

HEARTH_DEVICE unsigned reread_thread_index() { return thread_index(); }

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
};

// Null, or what the device says is wrong with the launch. On the host, a kernel hands over its
// name, its text and its arguments.
template <typename... Parameters, typename... Arguments>
const char* launch(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                   std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  opencl::begin_launch({grid.x, grid.y, threads, shared_bytes}, stream);
  kernel(arguments...);
  return opencl::end_launch();
}

template <typename... Parameters, typename... Arguments>
const char* launch_early(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                         std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  return launch(kernel, grid, threads, shared_bytes, stream, arguments...);
}

}  // namespace hearth::kernels::cuda
