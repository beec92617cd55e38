// The card of the tests that are shared with tests/emulated: here, a real one. Memory is that of
// the current device; every size is exact, with a margin on both sides whose bytes must be as they
// were when it goes (compute-sanitizer sees the rest). Memory that was never written holds a
// pattern that is garbage as any type. Errors of CUDA end the program: nothing that follows would
// mean anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace hearth::card {

// `bytes` of memory between two margins. From the host's side, any thread.
std::byte* allocate(std::size_t bytes);
// Waits for the card, then checks the margins: false where somebody has written there.
bool release(std::byte* data, std::size_t bytes);
void copy_in(std::byte* to, const void* from, std::size_t bytes);
void copy_out(void* to, const std::byte* from, std::size_t bytes);  // waits for the card
// A test fails with it.
void report_overrun(std::size_t bytes);

// A card's scheduler takes no seed.
inline void set_seed(std::uint64_t) {}
// Launches are counted by the emulator alone.
inline std::uint64_t launches() { return 0; }

template <typename T>
class Memory {
 public:
  explicit Memory(std::size_t count) : data_(allocate(count * sizeof(T))), count_(count) {
    static_assert(std::is_trivially_copyable_v<T>);
  }
  explicit Memory(const std::vector<T>& values) : Memory(values.size()) {
    copy_in(data_, values.data(), values.size() * sizeof(T));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (!release(data_, count_ * sizeof(T))) report_overrun(count_ * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(data_); }
  std::size_t size() const { return count_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    copy_out(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  std::byte* data_;
  std::size_t count_;
};

template <typename T>
class Input : public Memory<T> {
 public:
  explicit Input(const std::vector<T>& values) : Memory<T>(values) {}
  const T* data() const { return Memory<T>::data(); }
};

}  // namespace hearth::card
