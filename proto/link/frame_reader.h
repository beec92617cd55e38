// FrameReader: takes frames apart as their bytes arrive on a link.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/frame.h"

namespace hearth {

// The payload grows with the received bytes, so that an announced length takes no memory.
class FrameReader {
 public:
  FrameReader(LinkKind kind, std::size_t frame_bytes)
      : kind_(kind), frame_bytes_(frame_bytes), input_(kInputBytes) {}

  // Where the next bytes go: the rest of the payload first, then the input buffer.
  MutableByteSpan space() {
    if (payload_filled_ == payload_.size() && payload_filled_ < expected_) grow();
    if (payload_filled_ < payload_.size())
      return MutableByteSpan(payload_).subspan(payload_filled_);
    return MutableByteSpan(input_).subspan(filled_);
  }

  void received(std::size_t bytes) {
    const std::size_t direct = std::min(bytes, payload_.size() - payload_filled_);
    payload_filled_ += direct;
    filled_ += bytes - direct;
  }

  // True when `frame` was filled; false when more bytes are needed.
  Result<bool> next(Frame& frame) {
    if (!in_payload_) {
      if (filled_ - taken_ < kFrameHeaderBytes) {
        compact();
        return false;
      }
      TRY(const FrameHeader header,
          decode_header(ByteSpan(input_).subspan(taken_, kFrameHeaderBytes), kind_));
      REQUIRE(header.payload_bytes <= frame_bytes_, "a frame's payload has ", header.payload_bytes,
              " bytes; the limit here is ", frame_bytes_);
      taken_ += kFrameHeaderBytes;
      type_ = header.type;
      expected_ = header.payload_bytes;
      in_payload_ = true;
    }
    fill_from_input();
    if (payload_filled_ < expected_) return false;
    frame = {type_, std::exchange(payload_, {})};
    in_payload_ = false;
    payload_filled_ = expected_ = 0;
    return true;
  }

  bool inside_frame() const { return in_payload_ || filled_ > taken_; }
  std::size_t payload_bytes() const { return payload_.size(); }  // of an incomplete frame

  // Drops all received bytes.
  void drop() {
    taken_ = filled_ = payload_filled_ = expected_ = 0;
    in_payload_ = false;
    payload_.clear();
  }

 private:
  static constexpr std::size_t kInputBytes = 32 * limits::kKiB;

  void grow() {
    const std::size_t step = std::max(limits::kReadStepBytes, payload_filled_);
    payload_.resize(std::min(expected_, payload_filled_ + step));
  }

  void fill_from_input() {
    const std::size_t count = std::min(filled_ - taken_, expected_ - payload_filled_);
    if (payload_.size() < payload_filled_ + count) grow();
    if (count > 0) std::memcpy(payload_.data() + payload_filled_, input_.data() + taken_, count);
    payload_filled_ += count;
    taken_ += count;
    compact();
  }

  void compact() {
    if (taken_ == 0) return;
    INVARIANT(taken_ <= filled_, "a reader takes only bytes that it has received");
    std::memmove(input_.data(), input_.data() + taken_, filled_ - taken_);
    filled_ -= std::exchange(taken_, 0);
  }

  const LinkKind kind_;
  const std::size_t frame_bytes_;
  Bytes input_;
  std::size_t taken_ = 0;   // consumed bytes of input_
  std::size_t filled_ = 0;  // received bytes of input_
  FrameType type_ = FrameType::kHello;
  bool in_payload_ = false;
  std::size_t expected_ = 0;
  Bytes payload_;
  std::size_t payload_filled_ = 0;
};

}  // namespace hearth
