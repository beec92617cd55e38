// Any bytes as a file of log probabilities: every row of one that is accepted can be read.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tests/tools/logits_base.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::model;
  const auto base = LogitsBase::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzzed");
  if (!base.ok()) return 0;
  const LogitsShape& shape = (*base)->shape();
  INVARIANT((*base)->tokens().size() == shape.tokens(), "every window has its tokens");
  for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    for (std::uint32_t i = 0; i < shape.rows_per_chunk(); ++i) {
      const auto row = (*base)->row(chunk, i);
      if (!row.ok()) continue;
      for (std::uint32_t token = 0; token < shape.vocabulary; ++token) {
        INVARIANT(!std::isnan(row->log_probability(token)), "a log probability is a number");
      }
    }
  }
  return 0;
}
