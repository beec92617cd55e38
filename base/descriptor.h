// Descriptor: a file descriptor that is closed with its owner; below 0: none.
#pragma once

#include <unistd.h>

#include <utility>

namespace hearth {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int operator*() const { return number_; }
  bool open() const { return number_ >= 0; }
  // close() may be the first call that reports a full disk.
  bool close() { return !open() || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_ = -1;
};

}  // namespace hearth
