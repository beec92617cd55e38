#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/digest.h"
#include "kernels/cuda/launched.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kBlocksMost = 2048;

// One atomic addition for each thread; it costs little beside the reads.
HEARTH_KERNEL(kThreads, 4)
digest_words(Global<const std::uint32_t> words, std::size_t count, std::uint64_t first,
             Global<std::uint64_t> sum) {
  const std::size_t stride = std::size_t{grid_x()} * kThreads;
  std::uint64_t mine = 0;
  for (std::size_t i = std::size_t{block_index_x()} * kThreads + thread_index(); i < count;
       i += stride) {
    mine += digest_word(first + i, words.get(i));
  }
  atomic_add(sum, 0, mine);
}

}  // namespace

Status digest(const std::uint32_t* words, std::size_t count, std::uint64_t first,
              std::uint64_t* sum, Stream stream) {
  if (count == 0) return ok_status();
  const std::size_t blocks = std::min(kBlocksMost, (count + kThreads - 1) / kThreads);
  return launched("digest_words", launch(digest_words, {static_cast<unsigned>(blocks), 1}, kThreads,
                                         0, stream, Global(words), count, first, Global(sum)));
}

}  // namespace hearth::kernels::cuda
