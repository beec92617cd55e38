#include "coordinator/http/wire/write_queue.h"

#include <utility>

#include "base/check.h"

namespace hearth::coordinator::http {

bool WriteQueue::push(std::string_view bytes) {
  if (waiting_ >= limit_) return false;
  waiting_ += bytes.size() <= limit_ ? bytes.size() : limit_ / 2;
  pending_ += bytes;
  return true;
}

std::string_view WriteQueue::next() {
  INVARIANT(!writing_, "a connection has one outstanding write");
  if (written_ == out_.size()) {
    out_ = std::exchange(pending_, {});
    written_ = waiting_ = 0;
  }
  writing_ = written_ < out_.size();
  return std::string_view(out_).substr(written_);
}

void WriteQueue::written(std::size_t bytes) {
  INVARIANT(writing_ && bytes <= out_.size() - written_, "a write takes no more than it was given");
  writing_ = false;
  written_ += bytes;
}

}  // namespace hearth::coordinator::http
