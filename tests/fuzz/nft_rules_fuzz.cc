// Any bytes as nftables' own rules: chains that can be asked about every port, or a refusal that
// says why.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/doctor/nft_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const auto rules = cli::NftRuleset::parse({reinterpret_cast<const char*>(data), size});
  if (!rules.ok()) {
    INVARIANT(!rules.error().message.empty(), "a refusal says why");
    return 0;
  }
  for (const std::uint16_t port : {22, 11'500, 11'501, 65'535}) {
    INVARIANT(!rules->closes(port) || rules->drops(), "who closes a port drops something");
  }
  return 0;
}
