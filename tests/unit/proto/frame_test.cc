#include "proto/frame.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.h"
#include "tests/unit/proto/messages.h"

namespace hearth {
namespace {

using testing::sample_hello;

Bytes some_payload() {
  const ByteSpan bytes = as_bytes("some payload");
  return {bytes.begin(), bytes.end()};
}

TEST(FrameHeader, RoundTripsEveryTypeOfADataLink) {
  const Bytes payload = some_payload();
  for (const std::uint16_t type : {1, 2, 3, 4, 5, 6, 8, 9}) {
    const Bytes header = encode_header(static_cast<FrameType>(type), payload.size());
    ASSERT_EQ(header.size(), kFrameHeaderBytes);
    const auto decoded = decode_header(header);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(static_cast<std::uint16_t>(decoded->type), type);
    EXPECT_EQ(decoded->payload_bytes, payload.size());
  }
}

TEST(FrameHeader, OnAControlLinkOnlyMessagesAndSignsOfLife) {
  for (std::uint16_t type = 0; type < 20; ++type) {
    Bytes header = encode_header(FrameType::kBatch, 0);
    std::memcpy(header.data() + 4, &type, sizeof(type));
    EXPECT_EQ(decode_header(header, LinkKind::kControl).ok(), type == 7 || type == 12) << type;
  }
  const Bytes largest = encode_header(FrameType::kControl, limits::kControlMessageBytes);
  EXPECT_TRUE(decode_header(largest, LinkKind::kControl).ok());
  const Bytes over = encode_header(FrameType::kControl, limits::kControlMessageBytes + 1);
  EXPECT_FALSE(decode_header(over, LinkKind::kControl).ok());
}

TEST(FrameHeader, RefusesMagicTypeReservedAndLength) {
  const Bytes header = encode_header(FrameType::kBatch, some_payload().size());
  const auto message = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    Bytes broken = header;
    std::memcpy(broken.data() + at, &value, bytes);
    const auto decoded = decode_header(broken);
    return decoded.ok() ? std::string() : decoded.error().message;
  };
  EXPECT_NE(message(0, 'X', 1).find("magic"), std::string::npos);
  EXPECT_NE(message(4, 0, 2).find("frame type 0"), std::string::npos);
  EXPECT_NE(message(4, 7, 2).find("frame type 7"), std::string::npos);
  EXPECT_NE(message(4, 14, 2).find("frame type 14"), std::string::npos);
  EXPECT_NE(message(6, 1, 2).find("reserved"), std::string::npos);
  EXPECT_NE(message(8, limits::kFrameBytes + 1, 8).find("limit"), std::string::npos);
  EXPECT_EQ(message(8, limits::kFrameBytes, 8), "");
  EXPECT_FALSE(decode_header(ByteSpan(header).first(15)).ok());
}

TEST(Hello, RoundTripsAndConsumesExactly) {
  Bytes bytes = encode(sample_hello());
  const auto decoded = decode_hello(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(encode(*decoded), bytes);
  EXPECT_EQ(decoded->node, "desk-4090");
  EXPECT_EQ(decoded->stage, 2u);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_hello(ByteSpan(bytes).first(size)).ok());
  }
  bytes.push_back(std::byte{'x'});
  EXPECT_FALSE(decode_hello(bytes).ok());
}

TEST(Hello, RefusesNamesAndStagesOutOfRange) {
  Hello hello = sample_hello();
  hello.node = std::string(limits::kNodeNameBytes + 1, 'a');
  EXPECT_FALSE(decode_hello(encode(hello)).ok());
  hello.node = "line\nbreak";
  EXPECT_FALSE(decode_hello(encode(hello)).ok());
  hello.node = "";
  EXPECT_FALSE(decode_hello(encode(hello)).ok());
  hello = sample_hello();
  hello.stage = limits::kStages;
  EXPECT_FALSE(decode_hello(encode(hello)).ok());
  hello.stage = Hello::kCoordinatorStage;
  EXPECT_TRUE(decode_hello(encode(hello)).ok());
}

TEST(Hello, VersionsOfAnotherProtocolAreReadAndBothAreNamed) {
  Hello theirs = sample_hello();
  theirs.protocol = kProtocolOldest - 1;
  theirs.canonical = 5;
  Bytes bytes = encode(theirs);
  bytes.resize(19);  // whatever that protocol puts behind its versions
  const auto decoded = decode_hello(bytes);
  ASSERT_TRUE(decoded.ok());
  const Status status = check_versions(sample_hello(), *decoded);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kVersion);
  const std::string ours =
      std::to_string(kProtocolOldest) + " to " + std::to_string(kProtocolVersion);
  const std::string peers = "protocol " + std::to_string(kProtocolOldest - 1);
  for (const std::string& part :
       {"protocol " + ours, peers, std::string("arithmetic 1"), std::string("arithmetic 5")}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(check_versions(sample_hello(), sample_hello()).ok());
}

TEST(Hello, ANewerPeerIsHeardAndMayHaveMoreToSay) {
  Hello theirs = sample_hello();
  theirs.protocol = protocol_version() + 1;
  Bytes bytes = encode(theirs);
  bytes.resize(bytes.size() + 4);
  const auto decoded = decode_hello(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->node, sample_hello().node);
  EXPECT_TRUE(check_versions(sample_hello(), *decoded).ok()) << "whether it knows ours, it says";
  theirs.canonical += 1;
  EXPECT_FALSE(check_versions(sample_hello(), theirs).ok()) << "bits are not negotiated";
  Bytes ours = encode(sample_hello());
  ours.resize(ours.size() + 4);
  EXPECT_FALSE(decode_hello(ours).ok());
}

TEST(Refused, IsCutAndPrintable) {
  EXPECT_EQ(decode_refused(encode_refused("versions differ")), "versions differ");
  EXPECT_EQ(decode_refused(as_bytes("a\x1b[2Jb\xC3\xA9")), "a?[2Jb??");
  EXPECT_EQ(decode_refused(as_bytes(std::string(5000, 'x'))).size(), limits::kReasonBytes);
}

}  // namespace
}  // namespace hearth
