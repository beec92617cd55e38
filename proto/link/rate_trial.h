// RateTrial: how many bytes a second pass one way of a link, by pings of growing size. A wire that
// is shaped by a token bucket lets a burst pass before its rate holds, and a connection begins
// slowly: so sizes grow until one takes long enough to be timed, and then as much as takes a tenth
// of a second is sent again. The largest is sent once; it drowns what came before. Plain data; one
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

  // What is to be sent next, without waiting between pings.
  Pings next() const;
  // From its first byte to the last answer, without the round trip. True: that is enough.
  bool took(double seconds);
  double bytes_per_second() const { return bytes_per_second_; }  // of the last one

 private:
  std::size_t size_ = 0;
  bool is_again_ = false;
  double bytes_per_second_ = 0.0;
};

}  // namespace hearth
