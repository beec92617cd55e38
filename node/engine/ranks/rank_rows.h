// RankRows: what the ranks of a group exchange in a step, row by row (CANONICAL.md, "Ranks"). Each
// join() sends this rank's range of every row and puts together the ranges of all ranks, so that
// each rank goes on with the whole rows that a stage of one rank would have.
//
// A row that failed on one rank is marked in what that rank sends, and fails on all. Bytes of other
// ranks are checked: kInvalidInput names a rank that sends what no rank makes. After an error every
// call returns that error. Memory: taken at the start. Threads: the engine's caller.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "node/engine/ranks/exchange.h"
#include "node/engine/ranks/share.h"

namespace hearth::node {

class RankRows {
 public:
  using Ranges = std::vector<IndexRange>;  // of each rank

  // Of the rows of one join.
  struct Failures {
    std::function<bool(std::uint32_t row)> has;  // failed on this rank
    std::function<void(std::uint32_t row)> add;  // called for each row that failed on any
  };

  // For steps of at most `rows` rows, of which rank 0 gathers the logits of `logit_rows` at once.
  // `spec` is the whole model's; `group` outlives it. Throws std::bad_alloc.
  RankRows(const model::ModelSpec& spec, const RankGroup& group, std::uint32_t rows,
           std::uint32_t logit_rows);
  // The memory that it takes.
  static std::uint64_t bytes_of(const model::ModelSpec& spec, const RankGroup& group,
                                std::uint32_t rows, std::uint32_t logit_rows);

  bool leads() const { return group_.rank == 0; }
  const Share& own() const { return group_.own(); }
  const Ranges& queries() const { return queries_; }  // values of all query heads
  const Ranges& columns() const { return columns_; }
  // Values of all ranks in a row.
  static std::uint32_t width_of(const Ranges& ranges) { return ranges.back().end; }

  // Quantised rows. `own` has this rank's columns alone, and is not read where it has none.
  Status join(const Ranges& ranges, const kernels::QuantizedRows& own,
              const kernels::QuantizedRows& whole, const Failures& failures);
  // Additions to the residual, before any norm: own (rows, own().hidden), whole (rows, hidden).
  Status join_values(std::uint32_t rows, const float* own, float* whole, const Failures& failures);
  // Rounded residuals, in place: bits (rows, hidden), with own().hidden of each row.
  Status join_residuals(std::uint32_t rows, std::uint16_t* bits, const Failures& failures);
  // Rounded residuals of embeddings, in place: whole rows of the ranks whose share holds the token.
  Status join_embeddings(std::span<const std::uint32_t> tokens, std::uint16_t* bits,
                         const Failures& failures);
  // Logits, to rank 0 alone: own (rows, own().vocabulary), whole (rows, vocabulary).
  Status gather_logits(std::uint32_t rows, const float* own, float* whole);

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(group_.shares.size()); }
  std::uint32_t owner_of(std::uint32_t token) const;
  Error false_rank(std::uint32_t rank);
  // Sends out_ to the other ranks, or to rank 0, and points parts_ at what each rank gives.
  Status swap(const std::vector<std::size_t>& sizes, bool to_all);
  Status join_row(const Ranges& ranges, std::uint32_t rows, std::uint32_t row,
                  const kernels::QuantizedRows& whole, const Failures& failures);

  const RankGroup& group_;
  const std::uint32_t hidden_;
  const std::uint32_t vocabulary_;
  Ranges queries_;
  Ranges columns_;
  Bytes out_;                    // this rank's part of the exchange under way
  Bytes in_;                     // those of the others
  std::vector<ByteSpan> parts_;  // of each rank
  std::optional<Error> lost_;
};

}  // namespace hearth::node
