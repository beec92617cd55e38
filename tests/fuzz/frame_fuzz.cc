// Any bytes as any message of the data and control planes. The first byte chooses the kind; what is
// accepted must encode to the bytes it came from.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/exchange.h"
#include "proto/frame.h"
#include "proto/step.h"
#include "proto/wrong_bytes.h"

namespace hearth {
namespace {

const StepShape kPlain{4, 100, 64, false};
const StepShape kLoaded{4, 100, 64, true};

bool same(const Bytes& encoded, ByteSpan bytes) {
  return std::equal(encoded.begin(), encoded.end(), bytes.begin(), bytes.end());
}

template <typename Message>
void check(const Result<Message>& decoded, ByteSpan bytes) {
  if (!decoded.ok()) {
    INVARIANT(!decoded.error().message.empty(), "a refusal says why");
    return;
  }
  INVARIANT(same(encode(*decoded), bytes), "what is accepted round-trips");
}

void check_hello(ByteSpan bytes) {
  const auto hello = decode_hello(bytes);
  if (hello.ok() && hello->protocol == kProtocolVersion) check(hello, bytes);
}

void check_frame(ByteSpan bytes) {
  for (const LinkKind kind : {LinkKind::kData, LinkKind::kControl}) {
    const auto decoded = decode_header(bytes, kind);
    if (!decoded.ok()) continue;
    INVARIANT(same(encode_header(decoded->type, decoded->payload_bytes), bytes),
              "a good header round-trips");
  }
}

void check_control(ByteSpan bytes) {
  control::v1::WorkerMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  for (const auto& each : message.heartbeat().wrong_bytes()) {
    const auto wrong = read_wrong_bytes(each);
    if (!wrong.ok()) continue;
    control::v1::WrongBytes again;
    write_wrong_bytes(*wrong, again);
    const auto back = read_wrong_bytes(again);
    INVARIANT(back.ok() && *back == *wrong, "what is accepted is written and read again");
  }
  if (!message.has_register_()) return;
  static const SystemClock clock;
  coordinator::CoordinatorOptions options;
  options.model_fingerprint = "00ff";
  options.layers = 4;
  options.canonical_version = 1;
  coordinator::Registry registry(options, clock);
  if (!registry.check(message.register_()).ok()) return;
  INVARIANT(registry.add(LinkId(1), message.register_()).ok(), "an empty registry has room");
  INVARIANT(registry.snapshot().size() == 1, "what was added is there");
}

}  // namespace
}  // namespace hearth

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  // protobuf complains on stderr of every text that is no UTF-8.
  static const bool quiet = (google::protobuf::SetLogHandler(nullptr), true);
  if (!quiet) return 0;
  if (size == 0) return 0;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 10) {
    case 0: check(decode_step_batch(bytes, kPlain), bytes); break;
    case 1: check(decode_step_batch(bytes, kLoaded), bytes); break;
    case 2: check(decode_step_tokens(bytes, kPlain), bytes); break;
    case 3: check(decode_submit(bytes, kPlain), bytes); break;
    case 4: check(decode_cancel(bytes), bytes); break;
    case 5: check_hello(bytes); break;
    case 6: check_frame(bytes); break;
    case 7: check_control(bytes); break;
    case 8: (void)decode_refused(bytes); break;
    default: check(decode_exchange_part(bytes), bytes); break;
  }
  return 0;
}
