// The interface of kernels/cuda/device.cuh, on the emulator. What is missing here does not exist
// for device code: it would not compile.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "kernels/cuda/stream.h"
#include "kernels/elementary.h"
#include "tests/emulated/emulator.h"

#define HEARTH_KERNEL(threads, blocks) static void
#define HEARTH_DEVICE inline
#define HEARTH_UNROLL
#define HEARTH_ROLL

namespace hearth::kernels::cuda {

using emulated::Where;

inline unsigned thread_index() { return emulated::thread_index(); }
inline unsigned block_index_x() { return emulated::block_index_x(); }
inline unsigned block_index_y() { return emulated::block_index_y(); }
inline unsigned block_threads() { return emulated::current_launch().threads; }
inline unsigned grid_x() { return emulated::current_launch().blocks_x; }

struct alignas(16) Words4 {
  std::uint32_t at[4];
};

template <typename T>
class Global {
 public:
  Global() = default;
  explicit Global(T* data) : data_(data) {}

  std::remove_const_t<T> get(std::size_t i, Where where = Where::current()) const {
    emulated::check_waited(where);
    return get_constant(i, where);
  }
  std::remove_const_t<T> get_once(std::size_t i, Where where = Where::current()) const {
    return get_constant(i, where);
  }
  std::remove_const_t<T> get_constant(std::size_t i, Where where = Where::current()) const {
    emulated::check(data_ + i, sizeof(T), alignof(T), emulated::Access::kRead, where);
    std::remove_const_t<T> value;
    std::memcpy(&value, data_ + i, sizeof(T));
    return value;
  }
  void put(std::size_t i, T value, Where where = Where::current()) const {
    emulated::check_waited(where);
    emulated::check(data_ + i, sizeof(T), alignof(T), emulated::Access::kWrite, where);
    std::memcpy(data_ + i, &value, sizeof(T));
  }
  template <typename U>
  Global<U> as() const {
    return Global<U>(reinterpret_cast<U*>(data_));
  }
  Global at(std::size_t i) const { return Global(data_ + i); }
  bool is_null() const { return data_ == nullptr; }
  T* raw() const { return data_; }

 private:
  T* data_ = nullptr;
};

template <typename T, unsigned kCount>
class SharedArray {
 public:
  T get(std::size_t i, Where where = Where::current()) const {
    T value;
    std::memcpy(&value, place(i, emulated::Access::kRead, where), sizeof(T));
    return value;
  }
  void put(std::size_t i, T value, Where where = Where::current()) {
    std::memcpy(place(i, emulated::Access::kWrite, where), &value, sizeof(T));
  }
  // Element i, once the access has been found right.
  T* place(std::size_t i, emulated::Access access, Where where) {
    if (i >= kCount) emulated::outside_array(i, kCount, where);
    emulated::check(data_ + i, sizeof(T), alignof(T), access, where);
    return data_ + i;
  }
  const T* place(std::size_t i, emulated::Access access, Where where) const {
    return const_cast<SharedArray*>(this)->place(i, access, where);
  }
  std::uint32_t word(std::size_t i, Where where = Where::current()) const {
    if (i >= kCount * sizeof(T) / 4) emulated::outside_array(i, kCount * sizeof(T) / 4, where);
    const auto* at = reinterpret_cast<const std::byte*>(data_) + i * 4;
    emulated::check(at, 4, 4, emulated::Access::kRead, where);
    std::uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
  }
  T* raw(std::size_t i, Where where) {
    if (i >= kCount) emulated::outside_array(i, kCount, where);
    return data_ + i;
  }

 private:
  T data_[kCount];
};

template <typename S>
S& shared_memory(Where where = Where::current()) {
  return *static_cast<S*>(emulated::shared_memory(sizeof(S), where));
}

inline void sync_threads(Where where = Where::current()) { emulated::sync_threads(where); }
inline void sync_warp(Where where = Where::current()) { emulated::sync_warp(where); }
inline void fence_device() { emulated::fence(); }
inline void wait_for_previous_kernel() { emulated::wait_for_previous_kernel(); }

namespace lanes {

template <typename T>
std::uint32_t word(T value) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<std::uint32_t>(value);
}

template <typename T, typename Fold>
T fold(const char* operation, T mine, Fold with, Where where) {
  const emulated::WarpWords& all = emulated::exchange(operation, {word(mine)}, where);
  T result = std::bit_cast<T>(all[0][0]);
  for (unsigned i = 1; i < emulated::kWarp; ++i) result = with(result, std::bit_cast<T>(all[i][0]));
  return result;
}

inline int byte(std::uint32_t four, unsigned i) { return static_cast<int>(four >> (8 * i) & 255U); }
inline int signed_byte(std::uint32_t four, unsigned i) {
  return static_cast<std::int8_t>(four >> (8 * i) & 255U);
}

}  // namespace lanes

template <typename T>
T shuffle(T value, unsigned lane, Where where = Where::current()) {
  return std::bit_cast<T>(
      emulated::exchange("shuffle", {lanes::word(value)}, where)[lane % emulated::kWarp][0]);
}
// From lane + distance; the last lanes keep their own.
template <typename T>
T shuffle_down(T value, unsigned distance, Where where = Where::current()) {
  const unsigned from = thread_index() % emulated::kWarp + distance;
  const emulated::WarpWords& all = emulated::exchange("shuffle_down", {lanes::word(value)}, where);
  return from < emulated::kWarp ? std::bit_cast<T>(all[from][0]) : value;
}
template <typename T>
T shuffle_xor(T value, unsigned mask, Where where = Where::current()) {
  const unsigned from = (thread_index() % emulated::kWarp) ^ mask;
  return std::bit_cast<T>(
      emulated::exchange("shuffle_xor", {lanes::word(value)}, where)[from % emulated::kWarp][0]);
}
inline std::uint32_t warp_max(std::uint32_t mine, Where where = Where::current()) {
  return lanes::fold(
      "warp_max", mine, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }, where);
}
inline std::int32_t warp_add(std::int32_t mine, Where where = Where::current()) {
  return lanes::fold(
      "warp_add", mine, [](std::int32_t a, std::int32_t b) { return a + b; }, where);
}
inline std::uint32_t warp_ballot(bool mine, Where where = Where::current()) {
  const std::uint32_t bit = mine ? 1U << (thread_index() % emulated::kWarp) : 0;
  return lanes::fold(
      "warp_ballot", bit, [](std::uint32_t a, std::uint32_t b) { return a | b; }, where);
}
inline bool warp_any(bool mine, Where where = Where::current()) {
  return warp_ballot(mine, where) != 0;
}

// What an atomic operation found, for a thread that reads it.
template <typename T>
class Found {
 public:
  Found(const T* at, T value, emulated::Update kind) : at_(at), value_(value), kind_(kind) {}
  operator T() const {  // NOLINT: as the number that it is on a card
    emulated::look(at_, sizeof(T), kind_);
    return value_;
  }

 private:
  const T* at_;
  T value_;
  emulated::Update kind_;
};

template <typename T, typename With>
Found<T> update(T* at, emulated::Update kind, T value, With with, Where where) {
  emulated::check_update(at, sizeof(T), kind, &value, where);
  const T old = *at;
  *at = with(old, value);
  return {at, old, kind};
}

template <typename T>
Found<T> atomic_add(Global<T> to, std::size_t i, T value, Where where = Where::current()) {
  emulated::check_waited(where);
  return update(to.raw() + i, emulated::Update::kAdd, value, std::plus<T>(), where);
}
template <typename T>
Found<T> atomic_exchange(Global<T> to, std::size_t i, T value, Where where = Where::current()) {
  emulated::check_waited(where);
  return update(
      to.raw() + i, emulated::Update::kExchange, value, [](T, T b) { return b; }, where);
}
template <typename T>
Found<T> atomic_max(Global<T> to, std::size_t i, T value, Where where = Where::current()) {
  emulated::check_waited(where);
  return update(
      to.raw() + i, emulated::Update::kMax, value, [](T a, T b) { return a < b ? b : a; }, where);
}
template <typename T>
Found<T> atomic_or(Global<T> to, std::size_t i, T value, Where where = Where::current()) {
  emulated::check_waited(where);
  return update(to.raw() + i, emulated::Update::kOr, value, std::bit_or<T>(), where);
}
template <typename T, unsigned kCount>
Found<T> atomic_add(SharedArray<T, kCount>& to, std::size_t i, T value,
                    Where where = Where::current()) {
  return update(to.raw(i, where), emulated::Update::kAdd, value, std::plus<T>(), where);
}

// Words i to i + 3 of an array that lies at a multiple of 16 bytes; i is a multiple of four.
template <unsigned kCount>
Words4 get_four(SharedArray<std::uint32_t, kCount>& from, std::size_t i,
                Where where = Where::current()) {
  const std::uint32_t* last = from.raw(i + 3, where);
  emulated::check(last - 3, sizeof(Words4), alignof(Words4), emulated::Access::kRead, where);
  Words4 words;
  std::memcpy(&words, last - 3, sizeof(words));
  return words;
}
template <unsigned kCount>
void put_four(SharedArray<std::uint32_t, kCount>& to, std::size_t i, const Words4& words,
              Where where = Where::current()) {
  std::uint32_t* last = to.raw(i + 3, where);
  emulated::check(last - 3, sizeof(Words4), alignof(Words4), emulated::Access::kWrite, where);
  std::memcpy(last - 3, &words, sizeof(words));
}

template <unsigned kCount>
void copy_async(SharedArray<Words4, kCount>& to, std::size_t i, Global<const Words4> from,
                std::size_t j, Where where = Where::current()) {
  emulated::check_waited(where);
  emulated::copy_async(to.raw(i, where), from.raw() + j, where);
}
inline void copy_commit() { emulated::copy_commit(); }
template <unsigned kGroupsLeft>
void copy_wait(Where where = Where::current()) {
  emulated::copy_wait(kGroupsLeft, where);
}

// sum + the products of four bytes: signed with signed, unsigned with signed.
inline std::int32_t dot_signed(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  for (unsigned i = 0; i < 4; ++i) sum += lanes::signed_byte(a, i) * lanes::signed_byte(b, i);
  return sum;
}
inline std::int32_t dot_unsigned(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  for (unsigned i = 0; i < 4; ++i) sum += lanes::byte(a, i) * lanes::signed_byte(b, i);
  return sum;
}

// Byte i of the result is byte (selector >> 4 i) % 8 of the eight of low and high.
inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t eight = std::uint64_t{high} << 32 | low;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t nibble = selector >> (4 * i) & 15U;
    const std::uint32_t byte = static_cast<std::uint32_t>(eight >> (8 * (nibble & 7U))) & 255U;
    // Bit 3 asks for the byte's sign instead.
    result |= (nibble < 8 ? byte : (byte >> 7) * 255U) << (8 * i);
  }
  return result;
}

inline float widen_half(std::uint16_t half) { return half_to_float(half); }
inline std::uint16_t narrow_half(float value) { return float_to_half(value); }

namespace lanes {

// A 16 x 8 product of bytes over 16 or 32 columns, spread over the lanes as mma.sync has it: with
// g = lane / 4 and c = lane % 4, a[i] holds row g + 8 (i % 2), columns 16 (i / 2) + 4 c ..+3; b[i]
// column g, rows 16 i + 4 c ..+3; sum[i] row g + 8 (i / 2), column 2 c + i % 2.
template <bool kUnsigned>
void multiply(const char* operation, std::int32_t (&sum)[4], const std::uint32_t* a,
              const std::uint32_t* b, unsigned halves, Where where) {
  emulated::LaneWords mine{};
  for (unsigned i = 0; i < 2 * halves; ++i) mine[i] = a[i];
  for (unsigned i = 0; i < halves; ++i) mine[4 + i] = b[i];
  const emulated::WarpWords& all = emulated::exchange(operation, mine, where);
  const unsigned lane = thread_index() % emulated::kWarp;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + 8 * (i / 2);
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16 * halves; ++k) {
      const unsigned c = k % 16 / 4;
      const std::uint32_t left = all[row % 8 * 4 + c][k / 16 * 2 + row / 8];
      const std::uint32_t right = all[column * 4 + c][4 + k / 16];
      sum[i] +=
          (kUnsigned ? byte(left, k % 4) : signed_byte(left, k % 4)) * signed_byte(right, k % 4);
    }
  }
}

}  // namespace lanes

inline void multiply_16x8x32(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2], Where where = Where::current()) {
  lanes::multiply<false>("multiply_16x8x32", sum, a, b, 2, where);
}
inline void multiply_16x8x32_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                      const std::uint32_t (&b)[2], Where where = Where::current()) {
  lanes::multiply<true>("multiply_16x8x32_unsigned", sum, a, b, 2, where);
}
inline void multiply_16x8x16(std::int32_t (&sum)[4], const std::uint32_t (&a)[2], std::uint32_t b,
                             Where where = Where::current()) {
  lanes::multiply<false>("multiply_16x8x16", sum, a, &b, 1, where);
}
inline void multiply_16x8x16_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[2],
                                      std::uint32_t b, Where where = Where::current()) {
  lanes::multiply<true>("multiply_16x8x16_unsigned", sum, a, &b, 1, where);
}

// Four groups of 8 rows of 16 bytes: lane l names row l % 8 of group l / 8, and gets word l % 4 of
// row l / 4 of each group.
template <unsigned kCount>
void load_fragments(const SharedArray<Words4, kCount>& from, std::size_t i,
                    std::uint32_t (&words)[4], Where where = Where::current()) {
  const Words4 mine = from.get(i, where);
  const emulated::WarpWords& all =
      emulated::exchange("load_fragments", {mine.at[0], mine.at[1], mine.at[2], mine.at[3]}, where);
  const unsigned lane = thread_index() % emulated::kWarp;
  for (unsigned group = 0; group < 4; ++group) words[group] = all[8 * group + lane / 4][lane % 4];
}

inline unsigned reread_thread_index() { return thread_index(); }

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
};

// Null, or what the runtime says is wrong with the launch.
template <typename... Parameters, typename... Arguments>
const char* launch(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                   std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  return emulated::submit(stream, [=] {
    emulated::run({grid.x, grid.y, threads, shared_bytes, false}, [&] { kernel(arguments...); });
  });
}

template <typename... Parameters, typename... Arguments>
const char* launch_early(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                         std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  return emulated::submit(stream, [=] {
    emulated::run({grid.x, grid.y, threads, shared_bytes, true}, [&] { kernel(arguments...); });
  });
}

}  // namespace hearth::kernels::cuda
