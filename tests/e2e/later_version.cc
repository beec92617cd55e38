// A program that speaks the protocol after ours, and ours: linked before the library that says
// otherwise, for tests/e2e/rolling_test.py.
#include "proto/frame.h"

namespace hearth {

std::uint32_t protocol_version() { return kProtocolVersion + 1; }

}  // namespace hearth
