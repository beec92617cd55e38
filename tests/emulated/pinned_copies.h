// Copies with pinned memory, as the host may know of them. What the host does there before it is
// ordered behind a copy is wrong however the emulator happens to run the two:
//
//   to the card   the bytes are taken when the copy is queued, and looked at again once the host
//                 has waited: a change between is a fault
//   to the host   from when the copy is queued until the host has waited, its place holds rubbish,
//                 and a change there is a fault
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated/stream_order.h"

namespace hearth::emulated {

class PinnedCopies {
 public:
  using Bytes = std::shared_ptr<std::vector<std::byte>>;
  // What the copy brings to the card.
  Bytes to_device(const Stamp& stamp, const std::byte* from, std::size_t bytes);
  // Where it leaves what it brings to the host.
  Bytes to_host(const Stamp& stamp, std::byte* to, std::size_t bytes);
  // The host is ordered behind what the clock counts.
  void host_waited(const Clock& host);
  // The memory goes; whether a copy was still to touch it.
  bool forget(const std::byte* begin, std::size_t bytes);

 private:
  struct Copy {
    Stamp stamp;
    std::byte* place;
    Bytes bytes;
    bool to_host;
    bool covered = false;  // by a later copy to the host
    bool touches(const std::byte* begin, std::size_t count) const;
  };
  static void check_unchanged(const Copy& copy);
  std::list<Copy> copies_;
};

}  // namespace hearth::emulated
