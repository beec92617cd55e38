// Pieces of a model file, which nodes fetch from each other on separate data links. The first frame
// is a kPieceRequest instead of a hello. The side that dialled asks, and the other side answers in
// order. For a missing piece it sends kRefused and closes the link.
//
// Pieces are not checked here: the side that asks compares them with the manifest.
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
