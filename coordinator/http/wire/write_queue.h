// WriteQueue: the bytes on their way to one client: those of the one write that is outstanding, and
// those that wait behind it. It refuses bytes while `limit` or more wait; the client is then cut
// off. A single push larger than the limit (an event with the hashes of a long prompt) counts as
// half of it, so that the events right after it still have room. A plain state machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace hearth::coordinator::http {

class WriteQueue {
 public:
  explicit WriteQueue(std::size_t limit) : limit_(limit) {}

  // False when the queue is full; nothing was added.
  bool push(std::string bytes) {
    if (waiting_ >= limit_) return false;
    waiting_ += bytes.size() <= limit_ ? bytes.size() : limit_ / 2;
    if (pending_.empty()) {
      pending_ = std::move(bytes);
    } else {
      pending_ += bytes;
    }
    return true;
  }
  // next() has returned a write that has not ended.
  bool writing() const { return writing_; }
  // The bytes of the next write, which stay valid until written(). Empty: nothing is left to write,
  // and no write was begun. Never while writing().
  std::string_view next() {
    INVARIANT(!writing_, "a connection has one outstanding write");
    if (written_ == out_.size()) {
      out_ = std::exchange(pending_, {});
      written_ = waiting_ = 0;
    }
    writing_ = written_ < out_.size();
    return std::string_view(out_).substr(written_);
  }
  // The outstanding write sent this many of its bytes; next() returns the rest.
  void written(std::size_t bytes) {
    INVARIANT(writing_ && bytes <= out_.size() - written_,
              "a write takes no more than it was given");
    writing_ = false;
    written_ += bytes;
  }

 private:
  const std::size_t limit_;
  std::size_t waiting_ = 0;  // bytes of pending_, as the limit counts them
  std::string pending_;
  std::string out_;  // of the outstanding write
  std::size_t written_ = 0;
  bool writing_ = false;
};

}  // namespace hearth::coordinator::http
