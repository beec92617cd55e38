// In its own file, so that a test can link another definition (tests/e2e/later_version.cc).
#include "proto/frame.h"

namespace hearth {

std::uint32_t protocol_version() { return kProtocolVersion; }

}  // namespace hearth
