// SendQueue: the frames that a link still has to send, and the bytes to write next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "proto/frame.h"
#include "proto/link/tls_records.h"

namespace hearth {

class SendQueue {
 public:
  bool empty() const { return frames_.empty(); }
  std::size_t bytes() const { return bytes_; }  // of all frames, as long as any byte is unsent
  std::size_t unsent() const { return bytes_ - sent_of_front_; }

  void push(FrameType type, Bytes payload) {
    Bytes header = encode_header(type, payload.size());
    bytes_ += header.size() + payload.size();
    frames_.push_back({std::move(header), std::move(payload)});
  }

  // The bytes to write next: small frames gathered in one record, or a long frame's own bytes,
  // several records at once. A write that must wait is repeated with the same bytes.
  ByteSpan next() {
    if (!gathered_.empty()) return gathered_;
    std::size_t skip = sent_of_front_;
    for (const Outgoing& frame : frames_) {
      for (const Bytes* part : {&frame.header, &frame.payload}) {
        const ByteSpan rest = ByteSpan(*part).subspan(std::min(skip, part->size()));
        skip -= part->size() - rest.size();
        const std::size_t room = TlsKey::kContentBytes - gathered_.size();
        if (gathered_.empty() && rest.size() >= room) {
          return rest.first(std::min(rest.size(), TlsRecords::kWriteBytes));
        }
        const ByteSpan taken = rest.first(std::min(rest.size(), room));
        gathered_.insert(gathered_.end(), taken.begin(), taken.end());
        if (gathered_.size() == TlsKey::kContentBytes) return gathered_;
      }
    }
    return gathered_;
  }

  // So many of next()'s bytes are written.
  void consume(std::size_t bytes) {
    gathered_.clear();
    sent_of_front_ += bytes;
    while (!frames_.empty() && sent_of_front_ >= frames_.front().bytes()) {
      INVARIANT(bytes_ >= frames_.front().bytes(), "bytes_ counts every queued frame");
      sent_of_front_ -= frames_.front().bytes();
      bytes_ -= frames_.front().bytes();
      frames_.pop_front();
    }
  }

  void clear() { frames_.clear(); }

 private:
  struct Outgoing {
    Bytes header;
    Bytes payload;
    std::size_t bytes() const { return header.size() + payload.size(); }
  };

  std::deque<Outgoing> frames_;
  std::size_t sent_of_front_ = 0;
  std::size_t bytes_ = 0;
  Bytes gathered_;  // the next record, where the queue does not hold it in one piece
};

}  // namespace hearth
