// A frame is what travels on a link: a fixed 16-byte header, then a payload.
//
//   offset  size  field
//        0     4  magic "HRT2"
//        4     2  type (FrameType)
//        6     2  reserved, zero
//        8     8  payload bytes, at most limits::kFrameBytes
//
// Little-endian. A receiver checks magic, type and length before it allocates. TLS protects the
// integrity of every record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth {

// The version of frames and control messages. Two programs use the newest version of the older one,
// if the newer one still supports it, so a swarm is updated machine by machine. Their canonical
// arithmetic must be equal.
inline constexpr std::uint32_t kProtocolVersion = 14;
inline constexpr std::uint32_t kProtocolOldest = 9;   // the oldest that this program speaks
inline constexpr std::uint32_t kProtocolOrders = 10;  // from this one on, workers take a HostOrder
// From this one on, stages and coordinator take drafts of a draft model (DraftKind::kModel).
inline constexpr std::uint32_t kProtocolDraftModel = 11;
// From this one on, workers take a Meet and the routes of proto/link/route.h.
inline constexpr std::uint32_t kProtocolMeet = 12;
// From this one on, also the punched ones.
inline constexpr std::uint32_t kProtocolPunch = 13;
// From this one on, a first stage follows Assign.times.
inline constexpr std::uint32_t kProtocolStepTimes = 14;
// kProtocolVersion; a test may link a later one.
std::uint32_t protocol_version();
inline constexpr std::size_t kFrameHeaderBytes = 16;

enum class FrameType : std::uint16_t {
  kHello = 1,    // first frame each way on every link
  kRefused = 2,  // instead of kHello; payload is a sentence; the link is then closed
  kSubmit = 3,   // SubmitMessage: coordinator -> first stage
  kCancel = 4,   // CancelMessage: coordinator -> first stage
  kBatch = 5,    // StepBatch: stage -> next stage
  kTokens = 6,   // StepTokens: last stage -> first stage and coordinator
  kControl = 7,  // a control-plane protobuf; only on control links, which carry nothing else
  kPing = 8,     // proto/link/ping.h: at any time, also in place of kHello; the transport answers
  kPong = 9,     // its answer
  kPieceRequest = 10,  // proto/piece.h: on links of their own, beside all pipelines
  kPiece = 11,
  kBeat = 12,      // no payload: the transport's own heartbeat; it is never delivered
  kExchange = 13,  // proto/exchange.h: between the ranks of a group, on links of their own
};

// The kind of a link decides which frames may travel on it.
enum class LinkKind : std::uint8_t { kData, kControl };

struct Frame {
  FrameType type = FrameType::kHello;
  Bytes payload;
};

// The sender of a link: its name, its pipeline and its versions.
struct Hello {
  std::uint32_t protocol = protocol_version();  // the newest that it speaks
  std::uint32_t canonical = 0;                  // kernels::kCanonicalVersion
  Epoch epoch;                                  // 0 from a coordinator that only listens
  std::uint32_t stage = 0;  // sender's stage; kCoordinatorStage for the coordinator
  std::string node;         // at most limits::kNodeNameBytes of printable ASCII
  static constexpr std::uint32_t kCoordinatorStage = 0xFFFFFFFF;
};

Bytes encode(const Hello& hello);
// Protocol and canonical version come first in every version. A Hello older than kProtocolOldest is
// read only that far, so that check_versions() can name them. A newer one may be longer.
Result<Hello> decode_hello(ByteSpan payload);
// kVersion, naming both sides' versions, when the peer's protocol is older than kProtocolOldest or
// the arithmetic differs. A newer peer decides itself whether it still speaks ours.
Status check_versions(const Hello& ours, const Hello& theirs);

// The sentence of a kRefused frame, cut to limits::kReasonBytes, as printable ASCII: it is logged.
Bytes encode_refused(std::string_view sentence);
std::string decode_refused(ByteSpan payload);
// 1 to limits::kNodeNameBytes of printable ASCII: names go to logs, JSON and metrics unescaped.
Status check_node_name(std::string_view name);

// The header of a payload of at most limits::kFrameBytes.
Bytes encode_header(FrameType type, std::size_t payload_bytes);

struct FrameHeader {
  FrameType type = FrameType::kHello;
  std::size_t payload_bytes = 0;
};
// Exactly kFrameHeaderBytes. On a control link every type but kControl and kBeat is an error, and
// so is a kControl longer than limits::kControlMessageBytes; on a data link kControl is an error.
Result<FrameHeader> decode_header(ByteSpan header, LinkKind kind = LinkKind::kData);

}  // namespace hearth
