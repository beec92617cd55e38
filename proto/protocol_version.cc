// Alone in its file, so that a test can link another (tests/e2e/later_version.cc).
#include "proto/frame.h"

namespace hearth {

std::uint32_t protocol_version() { return kProtocolVersion; }

}  // namespace hearth
