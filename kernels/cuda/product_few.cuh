// The product for one row of x, for some types two and for floating weights up to eight, with a
// list of matrices of one type, as wide as each other: what decoding spends most of its time on.
// Tiles of all matrices stand in one row; an item is 256 columns of a tile. Every block takes the
// same number of items, one after the other, and its warps take them in turn, so that any shape of
// matrix keeps every multiprocessor busy to the end.
//
// A lane has a row. Its record lies in registers, and the record of the warp's next item is loaded
// piece by piece into the registers that are no longer needed: loads are under way at all times.
// Activations lie in shared memory, where all lanes read the same word. The sums are integers, so
// warps and blocks may add theirs in any order: warps in shared memory, blocks that have parts of
// one tile by atomic additions.
#pragma once

#include <cmath>

#include "kernels/cuda/product.cuh"

namespace hearth::kernels::cuda {

// One matrix of the list.
struct ListMatrix {
  Global<const std::byte> tiles;
  Global<const std::int32_t> exponents;
  Global<float> out;
  std::size_t out_stride;
  std::uint32_t rows;
  std::uint32_t first_tile;  // of the list's tiles; that of no matrix is behind all
};

// The items of a share of the columns, dealt out to the blocks of a row of the grid. The host
// divides, since a block would wait for it before its first load.
struct ShareItems {
  std::uint32_t units;    // of 256 columns
  std::uint64_t inverse;  // of units, times 2^32, rounded up: exact for items * units < 2^32
  std::uint32_t each;     // items of a block
  std::uint32_t more;     // the first blocks have one more
};

struct ListArgs {
  ListMatrix matrices[kListMost];
  ShareItems full;
  ShareItems last;  // of the last share, which may be narrower
  std::uint32_t shares;
  std::size_t tile_bytes;
  std::uint32_t tiles;        // of all matrices
  std::uint32_t records;      // of a row
  std::uint32_t blocks;       // of 32 columns
  std::uint32_t units;        // of 256 columns, the last one apart
  std::uint32_t share_units;  // of a share of the columns, the last one apart
  std::uint32_t tokens;       // at most the kernel's
  Global<const std::int8_t> values;
  Global<const float> scales;
  Global<const float> sums;
  Global<const std::int32_t> block_sums;
  Global<const std::int32_t> exponents;
  // [tile][token of 8][row]: the sum so far, and how many units it has from bit 48 on.
  Global<std::int64_t> shared_sums;
};

// Blocks of 32 columns of which a block of threads has the activations, and the tiles that it may
// touch, as many as shared memory holds.
template <int kTokens>
struct FewShared {
  static constexpr std::uint32_t kBlocks = kTokens == 1 ? 512 : kTokens == 2 ? 256 : 128;
  static constexpr std::uint32_t kTiles = kTokens <= 2 ? 32 : kTokens == 4 ? 16 : 8;
  SharedArray<Words4, kTokens * kBlocks * 2> values;
  SharedArray<float, kTokens * kBlocks> scales;
  SharedArray<std::uint32_t, kTokens * kBlocks> extras;  // extra_of()
  SharedArray<std::int32_t, kTiles * kTokens * 32> sums;
};

// The matrix of tile `tile`; selected without an index, so that the arguments stay where they are.
HEARTH_DEVICE ListMatrix matrix_of(const ListArgs& args, std::uint32_t tile) {
  if (tile >= args.matrices[2].first_tile) return args.matrices[2];
  if (tile >= args.matrices[1].first_tile) return args.matrices[1];
  return args.matrices[0];
}

// Brings the activations of the share into shared memory, and clears the sums. Tokens that are not
// there are zero.
template <WeightType kType, int kTokens>
HEARTH_DEVICE void stage_few(const ListArgs& args, std::uint32_t first, std::uint32_t count,
                             FewShared<kTokens>& shared) {
  constexpr std::uint32_t blocks = FewShared<kTokens>::kBlocks;
  const auto values = args.values.as<const Words4>();
  for (std::uint32_t i = thread_index(); i < kTokens * blocks; i += kProductThreads) {
    const std::uint32_t t = i / blocks;
    const std::uint32_t b = i % blocks;
    if (b >= count) continue;
    if (t >= args.tokens) {
      shared.values.put(2 * i, Words4{});
      shared.values.put(2 * i + 1, Words4{});
      shared.scales.put(i, 0.0F);
      shared.extras.put(i, 0U);
      continue;
    }
    const std::size_t at = std::size_t{t} * args.blocks + first + b;
    copy_async(shared.values, 2 * i, values, 2 * at);
    copy_async(shared.values, 2 * i + 1, values, 2 * at + 1);
    shared.scales.put(i, args.scales.get(at));
    shared.extras.put(i, extra_of<kType>(args, at));
  }
  copy_commit();
  constexpr std::uint32_t sums = FewShared<kTokens>::kTiles * kTokens * 32;
  for (std::uint32_t i = thread_index(); i < sums; i += kProductThreads) shared.sums.put(i, 0);
}

// Grid steps of one block with one token, whose place in the shared arrays is `at`.
template <WeightType kType, int kTokens>
HEARTH_DEVICE std::int32_t staged_steps(const FewShared<kTokens>& shared, std::uint32_t at,
                                        const std::uint32_t (&quads)[8], const BlockScales& row) {
  using R = Record<kType>;
  const Words4 halves[2] = {shared.values.get(2 * at), shared.values.get(2 * at + 1)};
  std::int32_t dots[2] = {0, 0};
  HEARTH_UNROLL
  for (unsigned g = 0; g < 8; ++g) {
    const std::uint32_t values = halves[g / 4].at[g % 4];
    std::int32_t& dot = dots[R::kTwoScales ? g / 4 : 0];
    dot = R::kSigned ? dot_signed(quads[g], values, dot) : dot_unsigned(quads[g], values, dot);
  }
  constexpr bool has_extra = R::kTwoScales || R::kLayout.minimum || R::kZero != 0;
  return grid_steps<kType>(dots, row, shared.scales.get(at), has_extra ? shared.extras.get(at) : 0);
}

// Adds the grid steps of a floating block with every token.
template <WeightType kType, int kTokens>
HEARTH_DEVICE void add_floats(const FewShared<kTokens>& shared, std::uint32_t block,
                              const Record<kType>& record, float row_factor,
                              std::int32_t (&sums)[kTokens]) {
  constexpr std::uint32_t blocks = FewShared<kTokens>::kBlocks;
  float chains[kTokens] = {};
  HEARTH_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    float weights[16];
    HEARTH_UNROLL
    for (unsigned k = 0; k < 16; ++k) weights[k] = weight_of(record, 16 * half + k) * row_factor;
    HEARTH_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const Words4 values = shared.values.get(2 * (t * blocks + block) + half);
      HEARTH_UNROLL
      for (unsigned k = 0; k < 16; ++k) {
        chains[t] = std::fma(weights[k], byte_value(values.at[k / 4], k % 4), chains[t]);
      }
    }
  }
  HEARTH_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    sums[t] += round_even(chains[t] * shared.scales.get(t * blocks + block));
  }
}

// Adds block `b` of a record, block `block` of the share, with every token.
template <WeightType kType, int kTokens, typename Scales>
HEARTH_DEVICE void add_block(const FewShared<kTokens>& shared, std::uint32_t block,
                             const Record<kType>& record, const Scales& scales, std::uint32_t b,
                             float row_factor, std::int32_t (&sums)[kTokens]) {
  std::uint32_t quads[8];
  quads_of(record, b, quads);
  const BlockScales row = scaled(scales_of<kType>(scales, b), row_factor);
  HEARTH_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const std::uint32_t at = t * FewShared<kTokens>::kBlocks + block;
    sums[t] += staged_steps<kType, kTokens>(shared, at, quads, row);
  }
}

// The block of a record after which its word `word` is not read any more, where the scales have
// been kept elsewhere.
template <WeightType kType>
constexpr std::uint32_t last_use(std::uint32_t word) {
  constexpr RecordLayout places = record_layout_of(kType);
  static_assert(layout_of(kType).blocks == 1 || places.nibbles == 0, "no super-block of bytes");
  const auto is_in = [&](std::uint32_t first, std::uint32_t end) {
    return word - first < end - first;
  };
  if (layout_of(kType).blocks == 1) return 0;
  if (is_in(0, places.pairs)) return word / 4;
  if (is_in(places.pairs, places.singles)) return (word - places.pairs) / 2;
  return is_in(places.singles, places.scales) ? word - places.singles : 0;
}

// Loads the pieces of a record that replace those which the block `after` was the last to read.
// `mine`: the lane's first piece of the tile, so that those of 16 bytes are at constant distances.
template <WeightType kType>
HEARTH_DEVICE void replace_words(Global<const std::byte> tile, Global<const std::byte> mine,
                                 std::uint32_t after, Record<kType>& record) {
  constexpr std::uint32_t bytes = Record<kType>::kBytes;
  constexpr std::uint32_t whole = bytes / 16 * 4;
  const std::uint32_t lane = thread_index() % 32;
  HEARTH_UNROLL
  for (std::uint32_t w = 0; w < whole; w += 4) {
    std::uint32_t last = 0;
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      last = last < last_use<kType>(w + i) ? last_use<kType>(w + i) : last;
    }
    if (last != after) continue;
    const Words4 four = mine.as<const Words4>().get_once(word_offset(bytes, w, 0) / 16);
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) record.words[w + i] = four.at[i];
  }
  HEARTH_UNROLL
  for (std::uint32_t w = whole; w < bytes / 4; ++w) {
    if (last_use<kType>(w) != after) continue;
    record.words[w] =
        tile.at(word_offset(bytes, w, lane)).as<const std::uint32_t>().get_constant(0);
  }
  if constexpr (bytes % 4 != 0) {
    constexpr std::uint32_t w = Record<kType>::kWords - 1;
    if (last_use<kType>(w) != after) return;
    record.words[w] =
        tile.at(word_offset(bytes, w, lane)).as<const std::uint16_t>().get_constant(0);
  }
}

// A record's integer scales and d.
template <WeightType kType>
struct KeptScales {
  using R = Record<kType>;
  HEARTH_DEVICE explicit KeptScales(const R& record) {
    HEARTH_UNROLL
    for (std::uint32_t i = 0; i <= scale_words(kType); ++i) {
      words[i] = record.words[R::kPlaces.scales + i];
    }
  }
  HEARTH_DEVICE std::uint32_t scale_word(std::uint32_t i) const { return words[i]; }
  HEARTH_DEVICE std::uint32_t d_word() const { return words[scale_words(kType)]; }

  std::uint32_t words[scale_words(kType) + 1];
};

// Where the records of a batch are, and how many of them there are.
struct BatchPlace {
  Global<const std::byte> tiles;
  Global<const std::byte> mine;  // the lane's first 16 bytes
  std::uint32_t records = 0;
};

// Adds the `records` records of a batch, the first of which is block `block` of the share, and
// loads the next batch into their registers.
template <WeightType kType, int kTokens>
HEARTH_DEVICE void add_batch(const FewShared<kTokens>& shared, std::uint32_t block,
                             std::uint32_t records, float row_factor, const BatchPlace& next,
                             std::size_t tile_bytes, Batch<kType>& batch,
                             std::int32_t (&sums)[kTokens]) {
  using R = Record<kType>;
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < Batch<kType>::kRecords; ++i) {
    R& record = batch.records[i];
    const Global<const std::byte> tile = next.tiles.at(i * tile_bytes);
    const Global<const std::byte> mine = next.mine.at(i * tile_bytes);
    if constexpr (R::kLayout.blocks == 1) {
      if (i < records) {
        if constexpr (R::kFloating) {
          add_floats(shared, block + i, record, row_factor, sums);
        } else {
          add_block(shared, block + i, record, record, 0, row_factor, sums);
        }
      }
      if (i < next.records) replace_words(tile, mine, 0, record);
    } else {
      const KeptScales<kType> scales(record);
      HEARTH_UNROLL
      for (std::uint32_t b = 0; b < R::kLayout.blocks; ++b) {
        // Keeps the compiler from taking up several blocks at once, for which it lacks registers.
        if constexpr (kType == WeightType::kIQ4_XS) sync_warp();
        add_block(shared, block + b, record, scales, b, row_factor, sums);
        if (i < next.records) replace_words(tile, mine, b, record);
      }
    }
  }
}

// The items that a block has, of the `units` of its share.
struct Items {
  std::uint32_t first_unit;  // of the share
  std::uint32_t units;
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t first_tile;  // of the block
};

HEARTH_DEVICE Items items_of(const ListArgs& args, std::uint32_t block) {
  const std::uint32_t index = block_index_y();
  const ShareItems share = index + 1 < args.shares ? args.full : args.last;
  Items items;
  items.first_unit = index * args.share_units;
  items.units = share.units;
  items.begin = block * share.each + (block < share.more ? block : share.more);
  items.end = items.begin + share.each + (block < share.more ? 1 : 0);
  items.first_tile = static_cast<std::uint32_t>(items.begin * share.inverse >> 32);
  return items;
}

// An item of a warp.
struct Item {
  std::uint32_t tile;
  std::uint32_t unit;  // of the share

  HEARTH_DEVICE void settle(std::uint32_t units) {
    while (unit >= units) {
      unit -= units;
      ++tile;
    }
  }
};

// A warp's way through the items of its block: every eighth.
struct Walk {
  HEARTH_DEVICE explicit Walk(const Items& items) {
    const std::uint32_t warp = thread_index() / 32;
    item = {items.first_tile, items.begin - items.first_tile * items.units + warp};
    item.settle(items.units);
    const std::uint32_t all = items.end - items.begin;
    left = warp < all ? (all - warp + kProductWarps - 1) / kProductWarps : 0;
  }
  // Whether there is an item after this one; then it is that.
  HEARTH_DEVICE bool step(const Items& items) {
    --left;
    if (left == 0) return false;
    item.unit += kProductWarps;
    item.settle(items.units);
    return true;
  }

  std::uint32_t left;  // items, this one among them
  Item item;
};

// Batch `index` of an item.
template <WeightType kType>
HEARTH_DEVICE BatchPlace batch_of(const ListArgs& args, const Items& items, const Item& item,
                                  std::uint32_t index) {
  constexpr std::uint32_t blocks_of_record = Record<kType>::kLayout.blocks;
  const ListMatrix matrix = matrix_of(args, item.tile);
  const std::uint32_t block = (items.first_unit + item.unit) * kUnitBlocks;
  const std::uint32_t left = args.blocks - block;
  const std::uint32_t records = (left < kUnitBlocks ? left : kUnitBlocks) / blocks_of_record;
  const std::uint32_t first = index * Batch<kType>::kRecords;
  const std::size_t record = block / blocks_of_record + first;
  const std::size_t tile = item.tile - matrix.first_tile;
  const auto at = matrix.tiles.at((tile * args.records + record) * args.tile_bytes);
  const auto mine = at.at(thread_index() % 32 * sizeof(Words4));
  if constexpr (blocks_of_record == kUnitBlocks) return {at, mine, 1};
  return {at, mine, records > first ? records - first : 0};
}

HEARTH_DEVICE std::int32_t row_exponent(const ListArgs& args, std::uint32_t tile) {
  const ListMatrix matrix = matrix_of(args, tile);
  return matrix.exponents.get_constant((tile - matrix.first_tile) * kTileRows +
                                       thread_index() % 32);
}

// Adds a lane's sums of a tile, tile `place` of the block, to those of the other warps.
template <int kTokens>
HEARTH_DEVICE void hand_in(FewShared<kTokens>& shared, std::uint32_t place,
                           std::int32_t (&sums)[kTokens]) {
  HEARTH_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    atomic_add(shared.sums, (place * kTokens + t) * 32 + thread_index() % 32, sums[t]);
    sums[t] = 0;
  }
}

// Turns the sum of a row of a tile and a token, of which the block has `units` units, into the
// output, or adds it to those of other blocks. The addition of the last of them finds all units:
// sum and number of units are one word, so nothing else orders the blocks.
HEARTH_DEVICE void finish_row(const ListArgs& args, std::uint32_t tile, std::uint32_t token,
                              std::int32_t sum, std::uint32_t units) {
  const std::uint32_t lane = thread_index() % 32;
  const ListMatrix matrix = matrix_of(args, tile);
  const std::uint32_t row = (tile - matrix.first_tile) * kTileRows + lane;
  if (row >= matrix.rows) return;
  const std::int32_t row_exponent = matrix.exponents.get(row);
  const std::int32_t token_exponent = args.exponents.get(token) - kGridBits;
  if (units < args.units) {
    constexpr int shift = 48;
    const std::size_t place = (std::size_t{tile} * 8 + token) * kTileRows + lane;
    const std::int64_t mine = (std::int64_t{units} << shift) + sum;
    const std::int64_t all = mine + atomic_add(args.shared_sums, place, mine);
    if ((all + (std::int64_t{1} << (shift - 1))) >> shift < std::int64_t{args.units}) return;
    atomic_exchange(args.shared_sums, place, std::int64_t{0});  // for the next product
    sum = static_cast<std::int32_t>(all);
  }
  const float part = static_cast<float>(sum) * power_of_two(row_exponent);
  matrix.out.put(token * matrix.out_stride + row, part * power_of_two(token_exponent));
}

// The sums of all tiles of the block, to outputs or to the sums of all blocks.
template <int kTokens, typename Shared>
HEARTH_DEVICE void finish_tiles(const ListArgs& args, const Items& items, const Shared& shared) {
  for (std::uint32_t i = thread_index() / 32;; i += kProductWarps) {
    const std::uint32_t tile = items.first_tile + i / kTokens;
    const std::uint32_t token = i % kTokens;
    const std::uint32_t begin = tile * items.units;
    if (begin >= items.end) return;
    if (token >= args.tokens) continue;
    const std::uint32_t from = begin < items.begin ? items.begin : begin;
    const std::uint32_t end = begin + items.units;
    const std::uint32_t to = end < items.end ? end : items.end;
    finish_row(args, tile, token, shared.sums.get(i * 32 + thread_index() % 32), to - from);
  }
}

// Loads batch `index` of a unit of `count` records that begins at `unit`.
template <WeightType kType>
HEARTH_DEVICE void load_batch(Global<const std::byte> unit, std::size_t tile_bytes,
                              std::uint32_t count, std::uint32_t index, Batch<kType>& out) {
  HEARTH_UNROLL
  for (std::uint32_t i = 0; i < Batch<kType>::kRecords; ++i) {
    const std::uint32_t record = index * Batch<kType>::kRecords + i;
    if (record < count) {
      load_record<kType, true>(unit.at(record * tile_bytes), thread_index() % 32, out.records[i]);
    }
  }
}

// Block `block` of those that share the list's items.
template <WeightType kType, int kTokens>
HEARTH_DEVICE void product_of_block(const ListArgs& args, std::uint32_t block) {
  using B = Batch<kType>;
  FewShared<kTokens>& shared = shared_memory<FewShared<kTokens>>();
  const Items items = items_of(args, block);
  Walk walk(items);
  B batch;
  BatchPlace here;
  std::int32_t exponent = 0;
  if (walk.left > 0) {
    here = batch_of<kType>(args, items, walk.item, 0);
    load_batch(here.tiles, args.tile_bytes, here.records, 0, batch);
    exponent = row_exponent(args, walk.item.tile);
  }
  const std::uint32_t first = items.first_unit * kUnitBlocks;
  const std::uint32_t count = items.units * kUnitBlocks;
  wait_for_previous_kernel();
  stage_few<kType, kTokens>(args, first, args.blocks - first < count ? args.blocks - first : count,
                            shared);
  copy_wait<0>();
  sync_threads();
  std::int32_t sums[kTokens] = {};
  while (walk.left > 0) {
    const Item mine = walk.item;
    const float row_factor = power_of_two(-exponent);
    if (walk.step(items)) exponent = row_exponent(args, walk.item.tile);
    for (std::uint32_t index = 0; index < B::kBatches; ++index) {
      BatchPlace next;
      if (index + 1 < B::kBatches) {
        next = batch_of<kType>(args, items, mine, index + 1);
      } else if (walk.left > 0) {
        next = batch_of<kType>(args, items, walk.item, 0);
      }
      const std::uint32_t at = mine.unit * kUnitBlocks + index * B::kRecords;
      add_batch<kType, kTokens>(shared, at, here.records, row_factor, next, args.tile_bytes, batch,
                                sums);
      here = next;
    }
    if (walk.left == 0 || walk.item.tile != mine.tile) {
      hand_in(shared, mine.tile - items.first_tile, sums);
    }
  }
  sync_threads();
  if (items.begin < items.end) finish_tiles<kTokens>(args, items, shared);
}

template <WeightType kType, int kTokens>
HEARTH_KERNEL(kProductThreads, 2)
product_tiles(ListArgs args) {
  product_of_block<kType, kTokens>(args, block_index_x());
}

inline ShareItems share_items(std::uint32_t tiles, std::uint32_t units, std::uint32_t blocks) {
  const std::uint32_t items = tiles * units;
  const std::uint64_t inverse = ((std::uint64_t{1} << 32) + units - 1) / units;
  return {units, inverse, items / blocks, items % blocks};
}

// The grid of a list with `slots` blocks at once, and what args says of it: a block has at least an
// item for each warp, and no more tiles than it may touch.
template <typename Shared>
Grid grid_of(ListArgs& args, std::uint32_t slots) {
  constexpr std::uint32_t units_most = Shared::kBlocks / kUnitBlocks;
  constexpr std::uint32_t whole_tiles = Shared::kTiles - 1;
  const std::uint32_t least = (args.units + units_most - 1) / units_most;
  args.share_units = (args.units + least - 1) / least;
  args.shares = (args.units + args.share_units - 1) / args.share_units;
  const std::uint32_t items = args.tiles * args.share_units;
  const std::uint32_t useful = (items + kProductWarps - 1) / kProductWarps;
  const std::uint32_t wanted = slots < args.shares ? 1 : slots / args.shares;
  const std::uint32_t at_once = wanted < useful ? wanted : useful;
  const std::uint32_t waves = (args.tiles + at_once * whole_tiles - 1) / (at_once * whole_tiles);
  const std::uint32_t blocks = at_once * waves;
  args.full = share_items(args.tiles, args.share_units, blocks);
  args.last = share_items(args.tiles, args.units - (args.shares - 1) * args.share_units, blocks);
  return {blocks, args.shares};
}

template <typename Shared, typename Kernel>
const char* run_kernel(Kernel kernel, ListArgs args, std::uint32_t slots, Stream stream) {
  const Grid grid = grid_of<Shared>(args, slots);
  return launch_early(kernel, grid, kProductThreads, sizeof(Shared), stream, args);
}

// One file of kernels a family of types, so that they compile side by side.
const char* run_floating(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream);
const char* run_small(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream);
const char* run_super(WeightType type, const ListArgs& args, std::uint32_t slots, Stream stream);
const char* run_super_two(WeightType type, const ListArgs& args, std::uint32_t slots,
                          Stream stream);

// The same for matrices of two types, where has_pair().
bool has_pair(WeightType first, WeightType second);
const char* run_pair(WeightType first_type, const ListArgs& first, const ListArgs& second,
                     std::uint32_t slots, Stream stream);

}  // namespace hearth::kernels::cuda
