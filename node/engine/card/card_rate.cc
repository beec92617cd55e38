#include "node/engine/card/card_rate.h"

#include <algorithm>
#include <chrono>

#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/tiles.h"
#include "node/engine/card/placement.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

constexpr int kRounds = 5;    // the first one warms up; the best counts
constexpr int kProducts = 8;  // of a round, so that starting one counts little

struct Arrays {
  cuda::CardMatrix matrix;
  kernels::QuantizedRows x;
  float* out = nullptr;
  cuda::ProductSpace space;
};

Arrays place(std::uint32_t rows, std::uint32_t cols, Placement& placement) {
  const auto type = kernels::WeightType::kQ8_0;
  const cuda::TileShape shape = cuda::tile_shape(type, rows, cols);
  const std::uint32_t blocks = cols / kernels::kBlock;
  Arrays arrays;
  arrays.matrix = {type, rows, cols, placement.take<std::byte>(shape.bytes()),
                   placement.take<std::int32_t>(std::size_t{shape.tiles} * cuda::kTileRows)};
  arrays.x.rows = 1;
  arrays.x.cols = cols;
  arrays.x.values = placement.take<std::int8_t>(cols);
  arrays.x.scales = placement.take<float>(blocks);
  arrays.x.sums = placement.take<float>(blocks);
  arrays.x.block_sums = placement.take<std::int32_t>(blocks);
  arrays.x.exponents = placement.take<std::int32_t>(1);
  arrays.out = placement.take<float>(rows);
  arrays.space.sums = placement.take<std::int32_t>(cuda::product_sums(rows));
  arrays.space.tickets = placement.take<std::uint32_t>(cuda::product_tickets(rows));
  return arrays;
}

}  // namespace

Result<double> measure_card_rate(std::uint32_t rows, std::uint32_t cols) {
  Placement counted;
  place(rows, cols, counted);
  TRY(cuda::DeviceMemory memory, cuda::DeviceMemory::allocate(counted.bytes()));
  Placement placement(memory);
  const Arrays arrays = place(rows, cols, placement);
  TRY(const cuda::OwnedStream stream, cuda::make_stream());
  TRY_VOID(cuda::fill_zero(memory.data(), counted.bytes(), stream.get()));
  TRY_VOID(cuda::synchronize(stream.get()));
  const std::size_t bytes =
      cuda::tile_shape(arrays.matrix.type, rows, cols).bytes() * std::size_t{kProducts};
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kProducts; ++i) {
      TRY_VOID(
          cuda::product(arrays.matrix, arrays.x, arrays.out, rows, arrays.space, stream.get()));
    }
    TRY_VOID(cuda::synchronize(stream.get()));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    if (round > 0) best = std::max(best, static_cast<double>(bytes) / spent.count());
  }
  return best;
}

}  // namespace hearth::node
