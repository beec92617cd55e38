// WriteQueue: the bytes on their way to one client: those of the one write that is outstanding, and
// those that wait behind it. It refuses bytes while `limit` or more wait; the client is then cut
// off. A single push larger than the limit (an event with the hashes of a long prompt) counts as
// half of it, so that the events right after it still have room. A plain state machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hearth::coordinator::http {

class WriteQueue {
 public:
  explicit WriteQueue(std::size_t limit) : limit_(limit) {}

  // False when the queue is full; nothing was added.
  bool push(std::string_view bytes);
  // A write was handed out by next() and is not over.
  bool writing() const { return writing_; }
  // The bytes of the next write, which stay valid until written(). Empty: nothing is left to write,
  // and no write was begun. Never while writing().
  std::string_view next();
  // The outstanding write took so many of its bytes; next() gives the rest.
  void written(std::size_t bytes);

 private:
  const std::size_t limit_;
  std::size_t waiting_ = 0;  // bytes of pending_, as the limit counts them
  std::string pending_;
  std::string out_;  // of the outstanding write
  std::size_t written_ = 0;
  bool writing_ = false;
};

}  // namespace hearth::coordinator::http
