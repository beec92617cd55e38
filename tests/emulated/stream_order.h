// What orders the operations of streams, by what was asked of the runtime alone and not by when the
// emulator ran them: the order of a stream, events that another stream or the host waits for. Two
// operations that touch the same bytes, one of them to write, with no order between them are a
// fault in every schedule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::emulated {

inline constexpr unsigned kStreamsMost = 64;  // at a time; the first is the null stream

// Of each stream, how many of its operations are behind one.
using Clock = std::array<std::uint32_t, kStreamsMost>;

// An operation, and what is ordered before it, itself included.
struct Stamp {
  std::uint32_t id = 0;  // stream and number in it; 0: no operation
  Clock clock{};
};

unsigned stream_of(std::uint32_t id);
bool ordered(std::uint32_t earlier, const Clock& later);
void join(Clock& clock, const Clock& other);

class StreamOrder {
 public:
  unsigned open();
  void close(unsigned stream) { open_[stream] = false; }
  // The next operation of a stream.
  Stamp queue(unsigned stream);
  // All that the stream holds now.
  const Clock& behind(unsigned stream) const { return streams_[stream]; }
  void stream_waits(unsigned stream, const Clock& clock) { join(streams_[stream], clock); }
  void host_waits(const Clock& clock) { join(host_, clock); }
  const Clock& host() const { return host_; }

 private:
  std::array<Clock, kStreamsMost> streams_{};
  std::array<bool, kStreamsMost> open_{true};
  unsigned newest_ = 0;
  Clock host_{};
};

// Who touched an array of a card's memory last, by words of four bytes.
class StreamShadow {
 public:
  explicit StreamShadow(std::size_t bytes) : words_((bytes + 3) / 4) {}
  // The operation that this one is in conflict with, or 0.
  std::uint32_t touch(std::size_t at, std::size_t bytes, bool writes, const Stamp& now);

 private:
  struct Word {
    std::uint32_t writer = 0;
    std::array<std::uint32_t, 3> readers{};  // since; the newest first
  };
  static std::uint32_t write(Word& word, const Stamp& now);
  static std::uint32_t read(Word& word, const Stamp& now);
  std::vector<Word> words_;
};

}  // namespace hearth::emulated
