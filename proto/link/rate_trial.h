// RateTrial: measures the bytes a second of a link in one direction, by pings of growing size. A
// token bucket lets a burst pass before its rate holds, and a connection begins slowly. So sizes
// grow until one takes long enough to be timed; then the bytes of a tenth of a second are sent
// again. The largest size is sent once, because it outweighs the earlier ones. Plain data; one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {

class RateTrial {
 public:
  struct Pings {
    std::uint32_t count = 0;
    std::uint32_t bytes = 0;  // of each, in the direction that is measured
  };

  // The pings to send next, without waiting between them.
  Pings next() const;
  // `seconds`: from the first byte to the last answer, without the round trip. True: the trial is
  // complete.
  bool took(double seconds);
  double bytes_per_second() const { return bytes_per_second_; }  // of the last one

 private:
  std::size_t size_ = 0;
  bool is_again_ = false;
  double bytes_per_second_ = 0.0;
};

}  // namespace hearth
