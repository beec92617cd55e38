#include "kernels/cuda/digest.h"

#include <cstring>

namespace hearth::kernels::cuda {

std::uint64_t digest_of(ByteSpan bytes, std::uint64_t first) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + i * 4, 4);
    sum += digest_word(first + i, word);
  }
  return sum;
}

}  // namespace hearth::kernels::cuda
