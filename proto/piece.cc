#include "proto/piece.h"

#include <algorithm>

#include "base/limits.h"

namespace hearth {
namespace {

Status check_length(std::uint64_t bytes) {
  REQUIRE(bytes >= 1 && bytes <= limits::kPieceBytes, "a piece of ", bytes,
          " bytes; it must have 1 to ", limits::kPieceBytes);
  return ok_status();
}

Status check_offset(std::uint64_t offset) {
  REQUIRE(offset < limits::kModelFileBytes, "a piece at byte ", offset, "; a file has at most ",
          limits::kModelFileBytes);
  return ok_status();
}

}  // namespace

Bytes encode(const PieceRequest& request) {
  Bytes out;
  ByteWriter writer(out);
  writer.append(request.model.bytes);
  writer.write(request.offset, request.bytes);
  return out;
}

Result<PieceRequest> decode_piece_request(ByteSpan payload) {
  ByteReader reader(payload);
  PieceRequest request;
  const ByteSpan model = reader.take(request.model.bytes.size());
  reader.read_into(request.offset, request.bytes);
  REQUIRE(!reader.failed() && reader.remaining() == 0, "a piece request has ", payload.size(),
          " bytes");
  std::copy(model.begin(), model.end(), request.model.bytes.begin());
  TRY_VOID(check_offset(request.offset));
  TRY_VOID(check_length(request.bytes));
  return request;
}

Bytes encode(const Piece& piece) {
  Bytes out;
  out.reserve(sizeof(piece.offset) + piece.bytes.size());
  ByteWriter writer(out);
  writer.write(piece.offset);
  writer.append(piece.bytes);
  return out;
}

Result<Piece> decode_piece(ByteSpan payload) {
  ByteReader reader(payload);
  Piece piece;
  piece.offset = reader.read<std::uint64_t>();
  REQUIRE(!reader.failed(), "a piece of ", payload.size(), " bytes has no offset");
  TRY_VOID(check_offset(piece.offset));
  TRY_VOID(check_length(reader.remaining()));
  piece.bytes = reader.take(reader.remaining());
  return piece;
}

}  // namespace hearth
