// A program that speaks the protocol after ours, and ours, and is another build: linked before the
// libraries that say otherwise, for tests/e2e/rolling_test.py.
#include "cli/process/build_name.h"
#include "proto/frame.h"

namespace hearth {

std::uint32_t protocol_version() { return kProtocolVersion + 1; }

std::string cli::receipt_build() { return "hearth, one version later"; }

}  // namespace hearth
