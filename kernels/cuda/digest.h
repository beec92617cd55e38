// A digest of memory that does not depend on the order of reading: a sum over its words, each mixed
// with its place. Parts may be added up in any order, on the host and on a card; it finds a changed
// bit, a moved word and a lost copy, but an attacker who chooses the bytes can defeat it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/cuda/stream.h"

#ifdef __CUDACC__
#define HEARTH_BOTH __host__ __device__
#else
#define HEARTH_BOTH
#endif

namespace hearth::kernels::cuda {

// The finaliser of SplitMix64 (Steele et al. 2014): every bit of the word reaches every bit.
HEARTH_BOTH constexpr std::uint64_t digest_word(std::uint64_t at, std::uint32_t word) {
  std::uint64_t x = (at << 32) + word + 0x9E3779B97F4A7C15U * (at + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// The digest of a whole number of words, the first of which is word `first` of the whole.
std::uint64_t digest_of(ByteSpan bytes, std::uint64_t first);

// sum += the digest of this many words of GPU memory, the first of which is word `first` of the
// whole. `sum` is in the card's memory.
Status digest(const std::uint32_t* words, std::size_t count, std::uint64_t first,
              std::uint64_t* sum, Stream stream);

}  // namespace hearth::kernels::cuda

#undef HEARTH_BOTH
