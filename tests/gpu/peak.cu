// What a card can do at most, measured: multiplications of bytes on its tensor cores, from
// registers, with nothing else in the loop.
#include "kernels/cuda/device.cuh"
#include "tests/gpu/peak.h"

namespace hearth::gpu {
namespace {

using namespace kernels::cuda;  // NOLINT

constexpr unsigned kThreads = 256;
constexpr unsigned kChains = 8;  // products of a warp that do not wait for one another

HEARTH_KERNEL(kThreads, 2) multiply_only(Global<std::int32_t> out, unsigned rounds) {
  const std::uint32_t a[4] = {thread_index(), thread_index() * 3, 0x01020304U, 0x05060708U};
  const std::uint32_t b[2] = {thread_index() * 5, 0x09080706U};
  std::int32_t sums[kChains][4] = {};
  HEARTH_ROLL
  for (unsigned round = 0; round < rounds; ++round) {
    HEARTH_UNROLL
    for (unsigned c = 0; c < kChains; ++c) multiply_16x8x32(sums[c], a, b);
  }
  std::int32_t all = 0;
  HEARTH_UNROLL
  for (unsigned c = 0; c < kChains; ++c) all ^= sums[c][0] ^ sums[c][1] ^ sums[c][2] ^ sums[c][3];
  out.put(std::size_t{block_index_x()} * kThreads + thread_index(), all);
}

HEARTH_KERNEL(32, 1) nothing() {}

HEARTH_KERNEL(32, 1) nothing_early() { wait_for_previous_kernel(); }

}  // namespace

double peak_operations(unsigned blocks, unsigned rounds) {
  return 2.0 * 16 * 8 * 32 * kChains * rounds * (kThreads / 32) * blocks;
}

std::size_t peak_outputs(unsigned blocks) { return std::size_t{blocks} * kThreads; }

const char* run_peak(std::int32_t* out, unsigned blocks, unsigned rounds, Stream stream) {
  return launch(multiply_only, {blocks, 1}, kThreads, 0, stream, Global(out), rounds);
}

const char* run_nothing(bool early, Stream stream) {
  return early ? launch_early(nothing_early, {1, 1}, 32, 0, stream)
               : launch(nothing, {1, 1}, 32, 0, stream);
}

}  // namespace hearth::gpu
