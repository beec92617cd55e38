#include "proto/piece.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth {
namespace {

PieceRequest some_request() { return {blake2b(as_bytes("a model")), 1'000'000, 4'096}; }

TEST(Piece, ARequestRoundTripsAndConsumesExactly) {
  Bytes bytes = encode(some_request());
  const auto request = decode_piece_request(bytes);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->model, some_request().model);
  EXPECT_EQ(request->offset, 1'000'000U);
  EXPECT_EQ(request->bytes, 4'096U);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_piece_request(ByteSpan(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_piece_request(bytes).ok());
}

TEST(Piece, LengthsAndOffsetsAreBounded) {
  const auto refusal = [](std::uint64_t offset, std::uint32_t count) {
    PieceRequest request = some_request();
    request.offset = offset;
    request.bytes = count;
    const auto decoded = decode_piece_request(encode(request));
    return decoded.ok() ? std::string() : decoded.error().message;
  };
  EXPECT_EQ(refusal(0, limits::kPieceBytes), "");
  EXPECT_NE(refusal(0, 0).find("1 to 65536"), std::string::npos);
  EXPECT_NE(refusal(0, limits::kPieceBytes + 1).find("65537"), std::string::npos);
  EXPECT_NE(refusal(limits::kModelFileBytes, 1).find("at most"), std::string::npos);
  EXPECT_NE(refusal(~0ULL, 1).find("at most"), std::string::npos);
}

TEST(Piece, APieceRoundTrips) {
  const Bytes bytes = encode(Piece{77, as_bytes("weights")});
  const auto piece = decode_piece(bytes);
  ASSERT_TRUE(piece.ok()) << piece.error().message;
  EXPECT_EQ(piece->offset, 77U);
  EXPECT_EQ(as_text(piece->bytes), "weights");
  EXPECT_FALSE(decode_piece(ByteSpan(bytes).first(8)).ok()) << "no byte of it";
  EXPECT_FALSE(decode_piece(ByteSpan(bytes).first(7)).ok());
  const Bytes much(limits::kPieceBytes + 1);
  EXPECT_FALSE(decode_piece(encode(Piece{0, much})).ok());
}

}  // namespace
}  // namespace hearth
