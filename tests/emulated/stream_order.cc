#include "tests/emulated/stream_order.h"

#include <algorithm>
#include <stdexcept>

namespace hearth::emulated {
namespace {

constexpr unsigned kNumberBits = 26;
constexpr std::uint32_t kNumberMost = (1U << kNumberBits) - 1;
static_assert(kStreamsMost == 1U << (32 - kNumberBits));

}  // namespace

unsigned stream_of(std::uint32_t id) { return id >> kNumberBits; }

bool ordered(std::uint32_t earlier, const Clock& later) {
  return later[stream_of(earlier)] >= (earlier & kNumberMost);
}

void join(Clock& clock, const Clock& other) {
  for (unsigned i = 0; i < kStreamsMost; ++i) clock[i] = std::max(clock[i], other[i]);
}

// The place that was free for longest, so that a stream is not taken for the one before it.
unsigned StreamOrder::open() {
  for (unsigned i = 1; i <= kStreamsMost; ++i) {
    const unsigned stream = (newest_ + i) % kStreamsMost;
    if (open_[stream]) continue;
    open_[stream] = true;
    newest_ = stream;
    const std::uint32_t number = streams_[stream][stream];
    streams_[stream] = {};
    streams_[stream][stream] = number;
    return stream;
  }
  throw std::runtime_error("more streams than the emulator has room for");
}

Stamp StreamOrder::queue(unsigned stream) {
  Clock& clock = streams_[stream];
  join(clock, host_);
  if (++clock[stream] > kNumberMost) {
    throw std::runtime_error("more operations on a stream than the emulator counts");
  }
  return {stream << kNumberBits | clock[stream], clock};
}

std::uint32_t StreamShadow::write(Word& word, const Stamp& now) {
  if (word.writer == now.id && word.readers[0] == 0) return 0;
  if (word.writer != now.id && !ordered(word.writer, now.clock)) return word.writer;
  for (const std::uint32_t reader : word.readers) {
    if (reader != now.id && !ordered(reader, now.clock)) return reader;
  }
  word = {now.id, {}};
  return 0;
}

// A reader that the new one is ordered behind needs no account of its own.
std::uint32_t StreamShadow::read(Word& word, const Stamp& now) {
  if (word.writer == now.id || word.readers[0] == now.id) return 0;
  if (!ordered(word.writer, now.clock)) return word.writer;
  std::size_t free = 0;
  while (free < word.readers.size() && !ordered(word.readers[free], now.clock)) ++free;
  if (free == word.readers.size()) {
    throw std::runtime_error("more streams read a word at once than the emulator remembers");
  }
  word.readers[free] = word.readers[0];
  word.readers[0] = now.id;
  return 0;
}

std::uint32_t StreamShadow::touch(std::size_t at, std::size_t bytes, bool writes,
                                  const Stamp& now) {
  for (std::size_t i = at / 4; i <= (at + bytes - 1) / 4; ++i) {
    const std::uint32_t other = writes ? write(words_[i], now) : read(words_[i], now);
    if (other != 0) return other;
  }
  return 0;
}

}  // namespace hearth::emulated
