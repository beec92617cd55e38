// AlignedBuffer: a fixed array of plain values on a cache line boundary, with one owner. The
// constructor throws std::bad_alloc, which Engine::load turns into an error.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

namespace hearth {

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::size_t kAlignment = 64;
  static_assert(kAlignment % alignof(T) == 0, "a cache line is aligned for every element type");

  AlignedBuffer() = default;
  // Not initialised: large buffers are backed by memory only where they are used.
  explicit AlignedBuffer(std::size_t count) : size_(count) {
    if (count > (std::numeric_limits<std::size_t>::max() - kAlignment) / sizeof(T)) {
      throw std::bad_alloc();
    }
    const std::size_t bytes = (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    if (bytes != 0 && data_ == nullptr) throw std::bad_alloc();
  }
  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace hearth
