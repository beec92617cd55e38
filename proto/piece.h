// Pieces of a model file, as nodes fetch them from each other on a data link of its own: instead of
// a hello its first frame is a kPieceRequest, and then the side that dialled asks and the other
// answers, in order. What is not there is answered with kRefused, and the link is closed.
//
// Nothing here says that a piece is right: the side that asks compares it with a manifest.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth {

struct PieceRequest {
  Hash256 model;  // model::Manifest::id()
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // 1 to limits::kPieceBytes
};

Bytes encode(const PieceRequest& request);
Result<PieceRequest> decode_piece_request(ByteSpan payload);

struct Piece {
  std::uint64_t offset = 0;
  ByteSpan bytes;  // of the payload
};

Bytes encode(const Piece& piece);
Result<Piece> decode_piece(ByteSpan payload);

}  // namespace hearth
