#include "tests/emulated/pinned_copies.h"

#include <algorithm>
#include <cstring>

#include "tests/emulated/emulator.h"

namespace hearth::emulated {
namespace {

constexpr std::byte kRubbish{0xB6};

std::string named(const Stamp& stamp) {
  return " of stream " + std::to_string(stream_of(stamp.id));
}

}  // namespace

bool PinnedCopies::Copy::touches(const std::byte* begin, std::size_t count) const {
  return place < begin + count && begin < place + bytes->size();
}

void PinnedCopies::check_unchanged(const Copy& copy) {
  if (copy.covered) return;
  const std::byte* end = copy.place + copy.bytes->size();
  if (copy.to_host
          ? std::all_of<const std::byte*>(copy.place, end, [](auto b) { return b == kRubbish; })
          : std::equal<const std::byte*>(copy.place, end, copy.bytes->begin())) {
    return;
  }
  throw Fault("the host changed pinned memory before it waited for the copy" + named(copy.stamp) +
              (copy.to_host ? " that brings it" : " that reads it"));
}

PinnedCopies::Bytes PinnedCopies::to_device(const Stamp& stamp, const std::byte* from,
                                            std::size_t bytes) {
  for (const Copy& other : copies_) {
    if (!other.to_host || !other.touches(from, bytes)) continue;
    throw Fault("a copy" + named(stamp) + " reads pinned memory that a copy" + named(other.stamp) +
                " brings, and the host has not waited for that");
  }
  const auto taken = std::make_shared<std::vector<std::byte>>(from, from + bytes);
  copies_.push_back({stamp, const_cast<std::byte*>(from), taken, false});
  return taken;
}

PinnedCopies::Bytes PinnedCopies::to_host(const Stamp& stamp, std::byte* to, std::size_t bytes) {
  for (Copy& other : copies_) {
    if (!other.touches(to, bytes)) continue;
    if (!ordered(other.stamp.id, stamp.clock)) {
      throw Fault("a copy" + named(stamp) + " writes pinned memory of a copy" + named(other.stamp) +
                  ", and nothing orders the two");
    }
    check_unchanged(other);
    if (other.to_host && (other.place < to || other.place + other.bytes->size() > to + bytes)) {
      throw Fault("copies to the host that overlap in part, which is not emulated");
    }
    other.covered = true;
  }
  std::fill(to, to + bytes, kRubbish);
  const auto brought = std::make_shared<std::vector<std::byte>>(bytes);
  copies_.push_back({stamp, to, brought, true});
  return brought;
}

void PinnedCopies::host_waited(const Clock& host) {
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    if (!ordered(copy->stamp.id, host)) {
      ++copy;
      continue;
    }
    const Copy done = *copy;
    copy = copies_.erase(copy);
    check_unchanged(done);
    if (done.to_host && !done.covered) {
      std::memcpy(done.place, done.bytes->data(), done.bytes->size());
    }
  }
}

bool PinnedCopies::forget(const std::byte* begin, std::size_t bytes) {
  return std::erase_if(copies_, [&](const Copy& copy) { return copy.touches(begin, bytes); }) != 0;
}

}  // namespace hearth::emulated
