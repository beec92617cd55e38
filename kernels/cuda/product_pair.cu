// The products of up to eight rows of x with matrices of two types in one launch: those that files
// of mixed types have side by side, as query and key with value.
#include "kernels/cuda/product_eight.cuh"

namespace hearth::kernels::cuda {
namespace {

// The first `split` blocks have the one type, the others the other.
template <WeightType kFirst, WeightType kSecond>
HEARTH_KERNEL(kProductThreads, 2)
product_pair(ListArgs first, ListArgs second, std::uint32_t split) {
  if (block_index_x() < split) {
    product_of_block<kFirst, 1>(first, block_index_x());
  } else {
    product_of_block<kSecond, 1>(second, block_index_x() - split);
  }
}

template <WeightType kFirst, WeightType kSecond>
HEARTH_KERNEL(kProductThreads, 2)
product_pair_eight(ListArgs first, ListArgs second, std::uint32_t split) {
  if (block_index_x() < split) {
    eight_of_block<kFirst>(first, block_index_x());
  } else {
    eight_of_block<kSecond>(second, block_index_x() - split);
  }
}

// Both types get blocks by the bytes of their matrices.
template <typename Shared, typename Kernel>
const char* run_both(Kernel kernel, ListArgs first, ListArgs second, std::uint32_t slots,
                     Stream stream) {
  const std::size_t mine = first.tiles * first.records * first.tile_bytes;
  const std::size_t all = mine + second.tiles * second.records * second.tile_bytes;
  const auto share = static_cast<std::uint32_t>((mine * slots + all / 2) / all);
  const std::uint32_t most = slots < 2 ? 1 : slots - 1;
  const std::uint32_t of_first = share < 1 ? 1 : share < most ? share : most;
  const Grid one = grid_of<Shared>(first, of_first);
  const Grid other = grid_of<Shared>(second, slots - of_first < 1 ? 1 : slots - of_first);
  return launch_early(kernel, {one.x + other.x, one.y}, kProductThreads, sizeof(Shared), stream,
                      first, second, one.x);
}

template <WeightType kFirst, WeightType kSecond>
const char* run_types(const ListArgs& first, const ListArgs& second, std::uint32_t slots,
                      Stream stream) {
  if (first.tokens == 1) {
    return run_both<FewShared<1>>(product_pair<kFirst, kSecond>, first, second, slots, stream);
  }
  return run_both<EightShared>(product_pair_eight<kFirst, kSecond>, first, second, slots, stream);
}

}  // namespace

bool has_pair(WeightType first, WeightType second) {
  return (first == WeightType::kQ4_K || first == WeightType::kQ5_K) && second == WeightType::kQ6_K;
}

const char* run_pair(WeightType first_type, const ListArgs& first, const ListArgs& second,
                     std::uint32_t slots, Stream stream) {
  return first_type == WeightType::kQ4_K
             ? run_types<WeightType::kQ4_K, WeightType::kQ6_K>(first, second, slots, stream)
             : run_types<WeightType::kQ5_K, WeightType::kQ6_K>(first, second, slots, stream);
}

}  // namespace hearth::kernels::cuda
