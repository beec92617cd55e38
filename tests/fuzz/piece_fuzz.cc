// Any bytes as a request for a piece of a model, or as a piece. What is accepted must encode to the
// bytes it came from.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/limits.h"
#include "proto/piece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto same = [&](const Bytes& again) {
    return std::equal(again.begin(), again.end(), bytes.begin(), bytes.end());
  };
  if (const auto request = decode_piece_request(bytes); request.ok()) {
    INVARIANT(same(encode(*request)), "a request round-trips");
    INVARIANT(request->bytes <= limits::kPieceBytes, "what is asked for is bounded");
  }
  if (const auto piece = decode_piece(bytes); piece.ok()) {
    INVARIANT(same(encode(*piece)), "a piece round-trips");
  }
  return 0;
}
