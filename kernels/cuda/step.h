// The kernels around the layers of a step: tables of KV pages, rows gathered and scaled. Pointers
// and errors as in rows.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/stream.h"

namespace hearth::kernels::cuda {

// Addresses of KV pages from their numbers. Page i of layer l begins at memory +
// (i * layers + l) * layer_bytes. The tables of all sequences stand one after the other in `pages`.
struct PageTables {
  std::byte* memory = nullptr;
  std::size_t layer_bytes = 0;
  std::uint32_t layers = 0;
  std::uint32_t entries_most = 0;          // room of a layer in `tables`
  const std::uint32_t* entries = nullptr;  // (1): numbers in `pages`
  const std::uint32_t* pages = nullptr;    // (entries)
  std::uint32_t tokens = 0;
  std::uint32_t tokens_most = 0;         // room of a layer in `token_tables` and `token_pages`
  const std::uint32_t* first = nullptr;  // (tokens): where in `pages` the sequence's begin
  const std::uint32_t* own = nullptr;    // (tokens): and its position's own one
  const std::byte** tables = nullptr;    // (layers, entries_most)
  const std::byte* const** token_tables = nullptr;  // (layers, tokens_most): into `tables`
  std::byte** token_pages = nullptr;                // (layers, tokens_most)
};
Status page_tables(const PageTables& args, Stream stream);

// out (count, n): the rows of x that `rows`, in the card's memory, names.
Status gather_rows(const float* x, const std::uint32_t* rows, std::uint32_t count, std::uint32_t n,
                   float* out, Stream stream);

// x (rows, n) *= factor.
Status scale_rows(float* x, float factor, std::uint32_t rows, std::uint32_t n, Stream stream);

}  // namespace hearth::kernels::cuda
