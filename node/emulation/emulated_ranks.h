// EmulatedRanks: the exchanges of an emulated rank in a step. They are as many and as large as
// those of a real rank (node/engine/ranks/rank_rows.h), and their bytes are zeros. Threads: the
// engine's caller.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/result.h"
#include "model/spec.h"
#include "node/engine/ranks/exchange.h"

namespace hearth::node {

class EmulatedRanks {
 public:
  // `spec` is the whole model's; `group` outlives it.
  EmulatedRanks(const model::ModelSpec& spec, const RankGroup& group)
      : spec_(spec), group_(group) {}

  // Of rows that enter the first stage, of one layer, and of rows whose logits rank 0 gathers.
  // Errors as Exchange::swap().
  Status embeddings(std::uint32_t rows);
  Status layer(std::uint32_t rows);
  Status logits(std::uint32_t rows);

 private:
  using BytesOf = std::function<std::uint64_t(const Share&)>;  // of a row
  Status swap(std::uint32_t rows, const BytesOf& bytes_of, bool to_all = true);

  const model::ModelSpec spec_;
  const RankGroup& group_;
  Bytes out_;
  Bytes in_;
};

}  // namespace hearth::node
