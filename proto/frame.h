// A frame is what travels on a link: a fixed 16-byte header, then a payload.
//
//   offset  size  field
//        0     4  magic "HRT2"
//        4     2  type (FrameType)
//        6     2  reserved, zero
//        8     8  payload bytes, at most limits::kFrameBytes
//
// Little-endian. A receiver checks magic, type and length before it allocates. That no bit was
// changed under way is the word of the link's TLS, record by record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth {

// Of frames and control messages. Two sides speak the older one's newest, if the newer one still
// knows it: a swarm is updated machine by machine. The canonical arithmetic is equal or nothing is.
inline constexpr std::uint32_t kProtocolVersion = 11;
inline constexpr std::uint32_t kProtocolOldest = 9;   // that this one still speaks
inline constexpr std::uint32_t kProtocolOrders = 10;  // from this one on, workers take a HostOrder
// From this one on, all stages and the coordinator know drafts of a model (DraftKind::kModel).
inline constexpr std::uint32_t kProtocolDraftModel = 11;
// kProtocolVersion, but in a test that needs a later program.
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
  kPing = 8,     // proto/link/ping.h: at any time, instead of kHello too; the transport answers
  kPong = 9,     // its answer
  kPieceRequest = 10,  // proto/piece.h: on links of their own, beside all pipelines
  kPiece = 11,
  kBeat = 12,  // no payload: the transport's own sign of life; no owner of a link sees it
};

// What a link is for decides which frames may travel on it.
enum class LinkKind : std::uint8_t { kData, kControl };

struct Frame {
  FrameType type = FrameType::kHello;
  Bytes payload;
};

// Who speaks, on which pipeline, with which versions.
struct Hello {
  std::uint32_t protocol = protocol_version();  // the newest that it speaks
  std::uint32_t canonical = 0;                  // kernels::kCanonicalVersion
  Epoch epoch;                                  // 0 from a coordinator that only listens
  std::uint32_t stage = 0;  // sender's stage; kCoordinatorStage for the coordinator
  std::string node;         // at most limits::kNodeNameBytes of printable ASCII
  static constexpr std::uint32_t kCoordinatorStage = 0xFFFFFFFF;
};

Bytes encode(const Hello& hello);
// Protocol and canonical version stand first in every protocol. Of a Hello older than all that we
// speak only these two are read, so that check_versions can name them; a newer one may be longer.
Result<Hello> decode_hello(ByteSpan payload);
// kVersion, with both sides' versions named, when the peer's protocol is older than all that we
// speak, or the arithmetic differs. Whether a newer peer still speaks ours, it says itself.
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
