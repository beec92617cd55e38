// Chooses the kernel of a product, and unpacks rows of a matrix to numbers.
#include <algorithm>
#include <string>

#include "kernels/cuda/batch.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/product_few.cuh"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/wide.cuh"

namespace hearth::kernels::cuda {
namespace {

constexpr std::uint32_t kTokensMost = 8;  // of one launch of the decoding kernels
// Up to so many rows, two launches for eight rows each are faster than one of the kernels for more
// rows: on an H100, 14,336 x 4,096 weights of Q4_K take 25 us each, and 48 us with 32 rows.
constexpr std::uint32_t kFewTokens = 16;
// OpenCL has no tensor cores: the decoding kernels take any number of rows.
#ifdef HEARTH_OPENCL
constexpr bool kHasTensorCores = false;
#else
constexpr bool kHasTensorCores = true;
#endif
// Blocks of the decoding kernel that a multiprocessor runs at once, as HEARTH_KERNEL asks for.
constexpr std::uint32_t kBlocksAtOnce = 2;
constexpr std::uint32_t kMultiprocessorsUnknown = 128;

// Whether the decoding kernels take so many rows of x.
bool are_few(WeightType type, std::uint32_t tokens) {
  return tokens <= kFewTokens || layout_of(type).form == BlockForm::kFloat;
}

const char* run_list(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream) {
  const WeightLayout layout = layout_of(type);
  if (layout.form == BlockForm::kFloat) return run_floating(type, args, slots, stream);
  if (layout.blocks == 1) return run_small(type, args, slots, stream);
  if (layout.form == BlockForm::kOneScale) return run_super(type, args, slots, stream);
  return run_super_two(type, args, slots, stream);
}

const char* run_tensor_cores(WeightType type, const ProductArgs& args, Stream stream) {
  const bool small = layout_of(type).blocks == 1;
  if (args.tokens > kBatchTokens) {
    return small ? run_wide_small(type, args, stream) : run_wide_super(type, args, stream);
  }
  return small ? run_batch_small(type, args, stream) : run_batch_super(type, args, stream);
}

constexpr unsigned kRowThreads = 128;

// One thread a block of 32 columns.
template <WeightType kType>
HEARTH_KERNEL(kRowThreads, 1)
dequantize(Global<const std::byte> tiles, std::size_t tile_bytes, std::uint32_t records,
           Global<const std::uint32_t> rows, Global<float> out) {
  wait_for_previous_kernel();
  using R = Record<kType>;
  const std::uint32_t row = rows.get(block_index_x());
  const std::uint32_t blocks = records * R::kLayout.blocks;
  const std::uint32_t block = block_index_y() * kRowThreads + thread_index();
  if (block >= blocks) return;
  const std::size_t tile = std::size_t{row / kTileRows} * records + block / R::kLayout.blocks;
  R record;
  load_record<kType, false>(tiles.at(tile * tile_bytes), row % kTileRows, record);
  const Global<float> to = out.at((std::size_t{block_index_x()} * blocks + block) * kBlock);
  HEARTH_UNROLL
  for (std::uint32_t b = 0; b < R::kLayout.blocks; ++b) {
    if (b != block % R::kLayout.blocks) continue;
    std::uint32_t quads[8];
    BlockScales scales;
    if constexpr (!R::kFloating) {
      quads_of(record, b, quads);
      scales = scales_of<kType>(record, b);
    }
    HEARTH_UNROLL
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      if constexpr (R::kFloating) {
        to.put(k, weight_of(record, k));
        continue;
      }
      const std::uint32_t stored = quads[k / 4] >> (8 * (k % 4)) & 255U;
      const std::int32_t quant = R::kSigned ? static_cast<std::int8_t>(stored)
                                            : static_cast<std::int32_t>(stored) - R::kZero;
      float value = scales.d * static_cast<float>(scales.s[k / 16] * quant);
      if constexpr (R::kLayout.minimum) {
        value += R::kTwoScales ? scales.m * static_cast<float>(scales.t[k / 16]) : scales.m;
      }
      to.put(k, value);
    }
  }
}

template <WeightType kType>
const char* run_dequantize(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                           float* out, Stream stream) {
  const TileShape shape = tile_shape(w.type, w.rows, w.cols);
  const std::uint32_t blocks = w.cols / kBlock;
  return launch_early(dequantize<kType>, {count, (blocks + kRowThreads - 1) / kRowThreads},
                      kRowThreads, 0, stream, Global(w.tiles), shape.tile_bytes, shape.records,
                      Global(rows), Global(out));
}

// Calls `run.operator()<type>()`.
template <std::uint32_t kFirst = 0, typename Run>
const char* for_type(WeightType type, Run run) {
  if constexpr (kFirst + 1 < kTileTypes) {
    if (type != static_cast<WeightType>(kFirst)) return for_type<kFirst + 1>(type, run);
  }
  return run.template operator()<static_cast<WeightType>(kFirst)>();
}

constexpr std::uint32_t kColumnsMost = 1U << 22;     // sums of blocks count their units in 16 bits
constexpr std::uint32_t kRowsMost = 65'535U * 128U;  // blocks of 128 rows side by side in a grid

Status check_matrix(const CardMatrix& w) {
  REQUIRE(has_tiles(w.type), "no GPU computes this type of weights");
  REQUIRE(w.rows > 0 && w.rows <= kRowsMost && w.cols > 0 && w.cols <= kColumnsMost &&
              w.cols % layout_of(w.type).columns() == 0,
          "a weight matrix of " + std::to_string(w.rows) + " x " + std::to_string(w.cols) +
              ", a shape that its type does not allow");
  return ok_status();
}

// Rows `t` to `t + tokens` of x with a list of matrices of one type, whose tiles stand behind
// `tiles_before` others in the space.
ListArgs list_args(std::span<const ProductOutput> list, const QuantizedRows& x, std::uint32_t t,
                   std::uint32_t tokens, const ProductSpace& space, std::uint32_t tiles_before) {
  const std::uint32_t blocks = x.cols / kBlock;
  const std::size_t at = std::size_t{t} * blocks;
  ListArgs args{};
  for (std::uint32_t i = 0; i < kListMost; ++i) {
    args.matrices[i].first_tile = ~0U;
    if (i >= list.size()) continue;
    const CardMatrix& w = list[i].w;
    args.matrices[i] = {Global(w.tiles),
                        Global(w.exponents),
                        Global(list[i].out + t * list[i].out_stride),
                        list[i].out_stride,
                        w.rows,
                        args.tiles};
    args.tiles += (w.rows + kTileRows - 1) / kTileRows;
  }
  const TileShape shape = tile_shape(list[0].w.type, kTileRows, x.cols);
  args.tile_bytes = shape.tile_bytes;
  args.records = shape.records;
  args.blocks = blocks;
  args.units = (blocks + kUnitBlocks - 1) / kUnitBlocks;
  args.tokens = tokens;
  args.values = Global<const std::int8_t>(x.values + at * kBlock);
  args.scales = Global<const float>(x.scales + at);
  args.sums = Global<const float>(x.sums + at);
  args.block_sums = Global<const std::int32_t>(x.block_sums + at);
  args.exponents = Global<const std::int32_t>(x.exponents + t);
  args.shared_sums = Global(reinterpret_cast<std::int64_t*>(space.sums));
  args.shared_sums = args.shared_sums.at(std::size_t{tiles_before} * kTokensMost * kTileRows);
  return args;
}

// How many matrices from the first on are of one type, and fit into one list.
std::size_t of_one_list(std::span<const ProductOutput> list) {
  std::size_t count = 0;
  while (count < std::min<std::size_t>(list.size(), kListMost) &&
         list[count].w.type == list[0].w.type) {
    ++count;
  }
  return count;
}

// As many of the first matrices as one launch takes; how many there were.
Result<std::size_t> few_products(std::span<const ProductOutput> list, const QuantizedRows& x,
                                 const ProductSpace& space, Stream stream, std::uint32_t slots) {
  const WeightType type = list[0].w.type;
  const std::size_t count = of_one_list(list);
  const std::span rest = list.subspan(count);
  const bool pair = !rest.empty() && has_pair(type, rest[0].w.type);
  const std::size_t others = pair ? of_one_list(rest) : 0;
  for (std::uint32_t t = 0; t < x.rows; t += kTokensMost) {
    const std::uint32_t tokens = std::min(kTokensMost, x.rows - t);
    const ListArgs args = list_args(list.first(count), x, t, tokens, space, 0);
    if (!pair) {
      TRY_VOID(launched("product_tiles", run_list(type, args, slots, stream)));
      continue;
    }
    const ListArgs further = list_args(rest.first(others), x, t, tokens, space, args.tiles);
    TRY_VOID(launched("product_pair", run_pair(type, args, further, slots, stream)));
  }
  return count + others;
}

// Tiles of outputs on the tensor cores whose columns can be shared, in a space for `rows` rows: all
// of a list with one tile of tokens, and with more of them where matrices are not tiny.
std::uint32_t shared_tiles(std::uint32_t rows) {
  constexpr std::uint32_t wide = kWideTiles * kTileRows;
  constexpr std::uint32_t many = 512;
  return rows < 1024 ? (product_list_rows(rows) + wide - 1) / wide + kListMost : many;
}

// All rows of x with as many of the first matrices as one launch on the tensor cores takes; how
// many there were.
Result<std::size_t> many_products(std::span<const ProductOutput> list, const QuantizedRows& x,
                                  const ProductSpace& space, Stream stream, std::uint32_t slots) {
  const WeightType type = list[0].w.type;
  const std::size_t count = of_one_list(list);
  const TileShape shape = tile_shape(type, kTileRows, x.cols);
  ProductArgs args{};
  std::uint32_t widest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const CardMatrix& w = list[i].w;
    widest = std::max(widest, w.rows);
    args.matrices[i] = {Global(w.tiles),
                        Global(w.exponents),
                        Global(list[i].out),
                        list[i].out_stride,
                        w.rows,
                        tile_shape(type, w.rows, x.cols).tiles,
                        0};
  }
  args.tile_bytes = shape.tile_bytes;
  args.blocks = x.cols / kBlock;
  args.records = shape.records;
  args.tokens = x.rows;
  args.slots = slots;
  args.token_tiles = 1;
  args.values = Global<const std::int8_t>(x.values);
  args.scales = Global<const float>(x.scales);
  args.sums = Global<const float>(x.sums);
  args.block_sums = Global<const std::int32_t>(x.block_sums);
  args.exponents = Global<const std::int32_t>(x.exponents);
  args.shared_sums = Global(space.sums);
  args.tickets = Global(space.tickets);
  args.shared_tiles = shared_tiles(widest);
  args.shares = 1;
  args.share_blocks = args.blocks;
  TRY_VOID(launched("product on tensor cores", run_tensor_cores(type, args, stream)));
  return count;
}

}  // namespace

std::size_t product_sums(std::uint32_t rows) {
  const std::size_t list_tiles = (product_list_rows(rows) + kTileRows - 1) / kTileRows + kListMost;
  constexpr std::size_t of_tile =
      kTileRows * kTokensMost * sizeof(std::int64_t) / sizeof(std::int32_t);
  return std::max(list_tiles * of_tile,
                  std::size_t{shared_tiles(rows)} * kWideTiles * kTileRows * kWideTokens);
}

std::size_t product_tickets(std::uint32_t rows) { return shared_tiles(rows); }

// Two matrices as large as the widest of a layer; a vocabulary stands alone.
std::uint32_t product_list_rows(std::uint32_t rows) {
  constexpr std::uint32_t most = 65'536;
  return rows > most / 2 ? std::max(rows, most) : 2 * rows;
}

Status products(std::span<const ProductOutput> list, const QuantizedRows& x,
                const ProductSpace& space, Stream stream, std::uint32_t blocks) {
  for (const ProductOutput& each : list) {
    TRY_VOID(check_matrix(each.w));
    REQUIRE(x.cols == each.w.cols, "rows of " + std::to_string(x.cols) +
                                       " values for a matrix of " + std::to_string(each.w.cols) +
                                       " columns");
  }
  const std::uint32_t known = blocks == 0 ? multiprocessors() : 0;
  const std::uint32_t slots =
      blocks != 0 ? blocks : kBlocksAtOnce * (known == 0 ? kMultiprocessorsUnknown : known);
  for (std::size_t done = 0; done < list.size();) {
    const std::span rest = list.subspan(done);
    std::size_t count = 0;
    if (!kHasTensorCores || are_few(rest[0].w.type, x.rows)) {
      TRY(count, few_products(rest, x, space, stream, slots));
    } else if constexpr (kHasTensorCores) {
      TRY(count, many_products(rest, x, space, stream, slots));
    }
    done += count;
  }
  return ok_status();
}

Status product(const CardMatrix& w, const QuantizedRows& x, float* out, std::size_t out_stride,
               const ProductSpace& space, Stream stream, std::uint32_t blocks) {
  const ProductOutput output{w, out, out_stride};
  return products({&output, 1}, x, space, stream, blocks);
}

Status dequantize_rows(const CardMatrix& w, const std::uint32_t* rows, std::uint32_t count,
                       float* out, Stream stream) {
  TRY_VOID(check_matrix(w));
  if (count == 0) return ok_status();
  return launched("dequantize", for_type(w.type, [&]<WeightType kType>() {
                    return run_dequantize<kType>(w, rows, count, out, stream);
                  }));
}

}  // namespace hearth::kernels::cuda
