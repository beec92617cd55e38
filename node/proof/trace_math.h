// The operations of a trace (ledger/trace.h), one row at a time, from bytes to bytes: what a Tracer
// computes a whole position with, and what a dispute's last value is computed again with. Products
// are one row's block products where only one element is asked for. Errors: kNumeric where a value
// leaves the numeric range, kInvalidInput for bytes that no operation writes. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "ledger/trace.h"
#include "model/spec.h"

namespace hearth::node {

// What the trace of these layers counts by; `prompt`: its tokens.
ledger::TraceShape trace_shape(const model::ModelSpec& spec, LayerRange layers,
                               std::uint32_t prompt);

std::vector<float> floats_of(ByteSpan bytes);
Bytes bytes_of(std::span<const float> values);

class TraceMath {
 public:
  // `table` computes what has many rows; any gives the same bits. `shape` outlives this.
  TraceMath(const kernels::Kernels& table, const ledger::TraceShape& shape)
      : table_(table), shape_(shape) {}

  using Floats = std::vector<float>;
  // The embedding's row, scaled and rounded to a residual.
  Result<Bytes> enter(const kernels::PackedMatrix& embedding, std::uint32_t row) const;
  Floats expand(ByteSpan residual) const;
  Result<Bytes> norm(std::span<const float> x, const Floats& weight) const;
  Result<Bytes> quantise(std::span<const float> x) const;
  // All rows of the matrix by a quantised row.
  Result<Bytes> multiply(const kernels::PackedMatrix& weights, ByteSpan row) const;
  // Biases and head norms are empty where the family has none, here and below.
  Result<Bytes> heads(Floats query, const Floats& bias, const Floats& norm, std::uint32_t layer,
                      std::uint32_t position) const;
  Result<Bytes> stored(Floats key, Floats value, const Floats& key_bias, const Floats& value_bias,
                       const Floats& norm, std::uint32_t layer, std::uint32_t position) const;
  // `before`: the value at the position before; empty at the first.
  Bytes chain(ByteSpan before, ByteSpan stored) const;
  // `group` query heads over positions [begin, end) of a kv head's pages.
  Result<Bytes> attention(const kernels::KvLayout& layout, std::uint32_t kv_head,
                          std::uint32_t group, std::span<const float> query,
                          const std::vector<const std::byte*>& pages, std::uint32_t begin,
                          std::uint32_t end) const;
  // One query head over what its kv head has stored, position by position.
  Result<Bytes> attention_of(std::span<const float> query, ByteSpan rows) const;
  // x + delta, delta normed where `post_norm` is not empty.
  Result<Floats> join(Floats x, Floats delta, const Floats& post_norm) const;
  Result<Bytes> activate(const Floats& gate, const Floats& up) const;
  Result<Bytes> round(Floats x) const;  // to a residual

 private:
  Result<Floats> turn(Floats x, std::uint32_t heads, const Floats& bias, const Floats& norm,
                      bool angles, std::uint32_t layer, std::uint32_t position) const;

  const kernels::Kernels& table_;
  const ledger::TraceShape& shape_;
};

}  // namespace hearth::node
