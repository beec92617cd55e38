#include "proto/frame.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/limits.h"

namespace hearth {
namespace {

constexpr char kMagic[4] = {'H', 'R', 'T', '2'};

static_assert(kFrameHeaderBytes == sizeof(kMagic) + sizeof(FrameType) + sizeof(std::uint16_t) +
                                       sizeof(std::uint64_t),
              "a header is the magic, the type, two zero bytes and the payload's length");
static_assert(kProtocolOldest <= kProtocolVersion, "a build speaks its own protocol version");
static_assert(Hello::kCoordinatorStage >= limits::kStages, "no stage has the coordinator's number");

bool travels_on(LinkKind kind, std::uint16_t type) {
  const bool control = type == static_cast<std::uint16_t>(FrameType::kControl);
  if (kind == LinkKind::kControl) {
    return control || type == static_cast<std::uint16_t>(FrameType::kBeat);
  }
  return !control && type >= static_cast<std::uint16_t>(FrameType::kHello) &&
         type <= static_cast<std::uint16_t>(FrameType::kExchange);
}

bool printable(char c) { return c >= 0x20 && c < 0x7F; }

std::string printable_text(std::string_view text) {
  std::string out(text.substr(0, limits::kReasonBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return !printable(c); }, '?');
  return out;
}

}  // namespace

Status check_node_name(std::string_view name) {
  REQUIRE(!name.empty() && name.size() <= limits::kNodeNameBytes, "a node name has ", name.size(),
          " bytes; it must have 1 to ", limits::kNodeNameBytes);
  REQUIRE(std::all_of(name.begin(), name.end(), printable),
          "a node name has a byte that is not printable ASCII");
  return ok_status();
}

Bytes encode(const Hello& hello) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(hello.protocol, hello.canonical, hello.epoch.value, hello.stage,
               static_cast<std::uint32_t>(hello.node.size()));
  writer.append(as_bytes(hello.node));
  return out;
}

Result<Hello> decode_hello(ByteSpan payload) {
  ByteReader reader(payload);
  Hello hello;
  reader.read_into(hello.protocol, hello.canonical);
  REQUIRE(!reader.failed(), "a hello of ", payload.size(), " bytes is too short for its versions");
  if (hello.protocol < kProtocolOldest) return hello;
  reader.read_into(hello.epoch.value, hello.stage);
  const auto name_bytes = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), "a hello of ", payload.size(), " bytes ends before its node name");
  REQUIRE(hello.stage < limits::kStages || hello.stage == Hello::kCoordinatorStage,
          "a hello names stage ", hello.stage, "; the limit is ", limits::kStages);
  const bool longer = hello.protocol > protocol_version() && name_bytes < reader.remaining();
  REQUIRE(longer || name_bytes == reader.remaining(), "a hello's node name has ", name_bytes,
          " bytes but ", reader.remaining(), " follow");
  hello.node = as_text(reader.take(name_bytes));
  TRY_VOID(check_node_name(hello.node));
  return hello;
}

Status check_versions(const Hello& ours, const Hello& theirs) {
  const bool spoken = theirs.protocol >= kProtocolOldest;
  if (spoken && ours.canonical == theirs.canonical) return ok_status();
  return Error::of(ErrorCode::kVersion, "versions differ: we speak protocol ", kProtocolOldest,
                   " to ", ours.protocol, " and canonical arithmetic ", ours.canonical,
                   ", the peer protocol ", theirs.protocol, " and canonical arithmetic ",
                   theirs.canonical);
}

Bytes encode_refused(std::string_view sentence) {
  const std::string text = printable_text(sentence);
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string decode_refused(ByteSpan payload) { return printable_text(as_text(payload)); }

Bytes encode_header(FrameType type, std::size_t payload_bytes) {
  INVARIANT(payload_bytes <= limits::kFrameBytes, "a frame of ours is bounded by its batch");
  Bytes out;
  out.reserve(kFrameHeaderBytes);
  ByteWriter writer(out);
  writer.append({reinterpret_cast<const std::byte*>(kMagic), sizeof(kMagic)});
  writer.write(static_cast<std::uint16_t>(type), std::uint16_t{0}, std::uint64_t{payload_bytes});
  return out;
}

Result<FrameHeader> decode_header(ByteSpan header, LinkKind kind) {
  REQUIRE(header.size() == kFrameHeaderBytes, "a frame header has ", header.size(),
          " bytes; it must have ", kFrameHeaderBytes);
  REQUIRE(std::memcmp(header.data(), kMagic, sizeof(kMagic)) == 0,
          "a frame does not begin with the magic HRT2");
  ByteReader reader(header.subspan(sizeof(kMagic)));
  const auto type = reader.read<std::uint16_t>();
  const bool control = kind == LinkKind::kControl;
  REQUIRE(travels_on(kind, type), "frame type ", type, " is unknown on a ",
          (control ? "control" : "data"), " link");
  const auto reserved = reader.read<std::uint16_t>();
  REQUIRE(reserved == 0, "a frame's reserved field is ", reserved, "; it must be 0");
  const auto payload_bytes = reader.read<std::uint64_t>();
  REQUIRE(type != static_cast<std::uint16_t>(FrameType::kBeat) || payload_bytes == 0,
          "a heartbeat has a payload; it must be empty");
  const std::size_t limit = control ? limits::kControlMessageBytes : limits::kFrameBytes;
  REQUIRE(payload_bytes <= limit, "a frame's payload has ", payload_bytes, " bytes; the limit is ",
          limit);
  FrameHeader decoded;
  decoded.type = static_cast<FrameType>(type);
  decoded.payload_bytes = static_cast<std::size_t>(payload_bytes);
  return decoded;
}

}  // namespace hearth
