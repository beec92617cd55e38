// A row is quantised four values a thread: eight threads hold a block of 32, whose values never
// leave their registers. Loads of a row come before its first store, for no load passes a store
// that may be to the same place. Where a norm comes first, the values also lie in shared memory,
// in which the norm's 256 lanes sum in their order.
#include <cmath>
#include <string>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementary.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = kNormLanes;
constexpr unsigned kThreadsMost = 1024;
constexpr unsigned kHeld = 2;              // fours that a thread holds at a time
constexpr unsigned kOfBlock = kBlock / 4;  // threads
constexpr unsigned kGateThreads = 256;
constexpr unsigned kGateBlocks = 2048;  // of a launch; beyond, a block takes more of its row
constexpr std::uint32_t kInfinityBits = 0x7F800000U;

struct Out {
  explicit Out(const QuantizedRows& rows, std::uint32_t* flags)
      : cols(rows.cols),
        values(rows.values),
        scales(rows.scales),
        sums(rows.sums),
        block_sums(rows.block_sums),
        exponents(rows.exponents),
        failed(flags) {}
  std::uint32_t cols;
  Global<std::int8_t> values;
  Global<float> scales;
  Global<float> sums;
  Global<std::int32_t> block_sums;
  Global<std::int32_t> exponents;
  Global<std::uint32_t> failed;
};

struct QuantShared {
  SharedArray<std::uint32_t, 32> largest;  // of each warp
  SharedArray<std::uint32_t, 1> last;
};

struct NormShared {
  SharedArray<Words4, kHeld * kThreadsMost> row;
  SharedArray<float, kNormLanes> squares;
  QuantShared quant;
};

struct LaneShared {
  SharedArray<float, kNormLanes> squares;
};

struct Four {
  float at[4];
};

HEARTH_DEVICE Four four_of(const Words4& words) {
  Four out;
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) out.at[k] = std::bit_cast<float>(words.at[k]);
  return out;
}

HEARTH_DEVICE Four load_four(Global<const float> x, std::size_t i) {
  return four_of(x.as<const Words4>().get(i / 4));
}

HEARTH_DEVICE Words4 words_of(const Four& x) {
  Words4 out;
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) out.at[k] = std::bit_cast<std::uint32_t>(x.at[k]);
  return out;
}

HEARTH_DEVICE void store_four(Global<float> to, std::size_t i, const Four& x) {
  to.as<Words4>().put(i / 4, words_of(x));
}

// Where in a row this thread's four number `c` behind `base` begins.
HEARTH_DEVICE std::uint32_t place_of(std::uint32_t base, unsigned c) {
  return base + (c * block_threads() + thread_index()) * 4;
}

// The values that the block holds at a time.
HEARTH_DEVICE std::uint32_t held_at_once() { return kHeld * block_threads() * 4; }

// Zeros behind the row's end.
HEARTH_DEVICE void load_held(Global<const float> row, std::uint32_t base, std::uint32_t n,
                             Four (&out)[kHeld]) {
  HEARTH_UNROLL
  for (unsigned c = 0; c < kHeld; ++c) {
    const std::uint32_t i = place_of(base, c);
    out[c] = i < n ? load_four(row, i) : Four{};
  }
}

// The same of a norm's weights, which no kernel writes.
HEARTH_DEVICE void load_weights(Global<const float> weights, std::uint32_t base, std::uint32_t n,
                                Four (&out)[kHeld]) {
  HEARTH_UNROLL
  for (unsigned c = 0; c < kHeld; ++c) {
    const std::uint32_t i = place_of(base, c);
    out[c] = i < n ? four_of(weights.as<const Words4>().get_once(i / 4)) : Four{};
  }
}

HEARTH_DEVICE void clear_row(const Out& out, std::size_t row) {
  const std::size_t blocks = out.cols / kBlock;
  for (std::uint32_t i = thread_index(); i < out.cols; i += block_threads()) {
    out.values.put(row * out.cols + i, std::int8_t{0});
  }
  for (std::size_t b = thread_index(); b < blocks; b += block_threads()) {
    out.scales.put(row * blocks + b, 0.0F);
    out.sums.put(row * blocks + b, 0.0F);
    out.block_sums.put(row * blocks + b, 0);
  }
  if (thread_index() == 0) {
    out.exponents.put(row, kExponentMin);
    out.failed.put(row, 1U);
  }
}

// A block of 32 in the eight threads that have it.
struct Quants {
  std::uint32_t largest;  // bits of the largest magnitude
  std::int32_t sum;
  std::uint32_t bytes;  // this thread's four
};

HEARTH_DEVICE Quants quantize_block(const Four& x) {
  Quants out{0, 0, 0};
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x.at[k]) & 0x7FFFFFFFU;
    out.largest = bits > out.largest ? bits : out.largest;
  }
  HEARTH_UNROLL
  for (unsigned mask = kOfBlock / 2; mask > 0; mask /= 2) {
    const std::uint32_t other = shuffle_xor(out.largest, mask);
    out.largest = other > out.largest ? other : out.largest;
  }
  const float maximum = std::bit_cast<float>(out.largest);
  const float inverse = maximum < kTiny ? 0.0F : static_cast<float>(kQuantMax) / maximum;
  std::uint32_t quants[4];
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    quants[k] = static_cast<std::uint32_t>(round_even(x.at[k] * inverse));
  }
  out.bytes = pick_bytes(pick_bytes(quants[0], quants[1], 0x0040),
                         pick_bytes(quants[2], quants[3], 0x0040), 0x5410);
  out.sum = dot_signed(out.bytes, 0x01010101U, 0);
  HEARTH_UNROLL
  for (unsigned mask = kOfBlock / 2; mask > 0; mask /= 2) out.sum += shuffle_xor(out.sum, mask);
  return out;
}

// What a block's values are multiples of, before the row's exponent.
HEARTH_DEVICE float scale_of(std::uint32_t largest) {
  const float maximum = std::bit_cast<float>(largest);
  return maximum < kTiny ? 0.0F : maximum / static_cast<float>(kQuantMax);
}

HEARTH_DEVICE void put_block(const Out& out, std::size_t block, float scale, std::int32_t sum) {
  out.scales.put(block, scale);
  out.sums.put(block, scale * static_cast<float>(sum));
  out.block_sums.put(block, sum);
}

// Until the row's exponent is known, a block's largest magnitude lies in the place of its sum.
HEARTH_DEVICE void put_largest(const Out& out, std::size_t block, const Quants& quants) {
  out.sums.as<std::uint32_t>().put(block, quants.largest);
  out.block_sums.put(block, quants.sum);
}

// The largest of the threads' numbers, in every thread. A barrier.
HEARTH_DEVICE std::uint32_t largest_of_threads(std::uint32_t mine, QuantShared& shared) {
  mine = warp_max(mine);
  if (thread_index() % 32 == 0) shared.largest.put(thread_index() / 32, mine);
  sync_threads();
  const unsigned warp = thread_index() % 32;
  return warp_max(warp < block_threads() / 32 ? shared.largest.get(warp) : 0U);
}

// The end of a row whose blocks' largest magnitudes are stored; `largest` of them all.
HEARTH_DEVICE void finish_row(const Out& out, std::size_t row, std::uint32_t largest) {
  const std::uint32_t blocks = out.cols / kBlock;
  const std::size_t first = row * blocks;
  const std::int32_t exponent = row_exponent(std::bit_cast<float>(largest));
  const float grid = power_of_two(kGridBits - exponent);
  const auto load = [&](std::uint32_t b) {
    if (b >= blocks) return Quants{0, 0, 0};
    return Quants{out.sums.as<std::uint32_t>().get(first + b), out.block_sums.get(first + b), 0};
  };
  for (std::uint32_t b = thread_index(); b < blocks; b += 2 * block_threads()) {
    const std::uint32_t second = b + block_threads();
    const Quants one = load(b);
    const Quants other = load(second);
    put_block(out, first + b, scale_of(one.largest) * grid, one.sum);
    if (second < blocks) put_block(out, first + second, scale_of(other.largest) * grid, other.sum);
  }
  if (thread_index() == 0) out.exponents.put(row, exponent);
}

// CANONICAL.md, "Activation rows", by one block; `values(base, c, i)` gives this thread's four
// number c behind `base`, which begins at i.
template <typename Values>
HEARTH_DEVICE void quantize_row(const Out& out, std::size_t row, QuantShared& shared,
                                Values values) {
  const std::size_t first = row * (out.cols / kBlock);
  const bool at_once = out.cols <= held_at_once();
  const bool leads = thread_index() % kOfBlock == 0;
  Quants held[kHeld];
  std::uint32_t largest = 0;
  for (std::uint32_t base = 0; base < out.cols; base += held_at_once()) {
    HEARTH_UNROLL
    for (unsigned c = 0; c < kHeld; ++c) {
      if (place_of(base, c) - thread_index() * 4 >= out.cols) continue;  // all threads
      const std::uint32_t i = place_of(base, c);
      held[c] = quantize_block(i < out.cols ? values(base, c, i) : Four{});
      largest = held[c].largest > largest ? held[c].largest : largest;
      if (i >= out.cols) continue;
      out.values.as<std::uint32_t>().put((row * out.cols + i) / 4, held[c].bytes);
      if (!at_once && leads) put_largest(out, first + i / kBlock, held[c]);
    }
  }
  largest = largest_of_threads(largest, shared);
  if (largest >= kInfinityBits) return clear_row(out, row);
  if (!at_once) return finish_row(out, row, largest);
  const std::int32_t exponent = row_exponent(std::bit_cast<float>(largest));
  const float grid = power_of_two(kGridBits - exponent);
  HEARTH_UNROLL
  for (unsigned c = 0; c < kHeld; ++c) {
    const std::uint32_t i = place_of(0, c);
    if (i >= out.cols || !leads) continue;
    put_block(out, first + i / kBlock, scale_of(held[c].largest) * grid, held[c].sum);
  }
  if (thread_index() == 0) out.exponents.put(row, exponent);
}

// The norm's tree over what each lane has summed, the same in every thread.
HEARTH_DEVICE float sum_of_lanes(float mine, SharedArray<float, kNormLanes>& squares) {
  const unsigned thread = thread_index();
  if (thread < kNormLanes) squares.put(thread, mine);
  sync_threads();
  if (thread < 32) {
    const auto four = [&](unsigned j) {  // the tree's steps of 128 and of 64
      return (squares.get(j) + squares.get(j + 128)) + (squares.get(j + 64) + squares.get(j + 192));
    };
    float sum = four(thread) + four(thread + 32);
    HEARTH_UNROLL
    for (unsigned half = 16; half > 0; half /= 2) sum = sum + shuffle_down(sum, half);
    if (thread == 0) squares.put(0, sum);
  }
  sync_threads();
  return squares.get(0);
}

// Adds to this lane's sum the squares of what the block holds of a row of n values, from `base` on.
// A barrier stands between the call and the one before.
HEARTH_DEVICE float add_squares(float mine, const Four (&x)[kHeld], std::uint32_t base,
                                std::uint32_t n, NormShared& shared) {
  HEARTH_UNROLL
  for (unsigned c = 0; c < kHeld; ++c) {
    if (place_of(base, c) < n) shared.row.put(place_of(0, c) / 4, words_of(x[c]));
  }
  sync_threads();
  if (thread_index() >= kNormLanes) return mine;
  const std::uint32_t left = n - base;
  const std::uint32_t end = left < held_at_once() ? left : held_at_once();
  for (std::uint32_t i = thread_index(); i < end; i += kNormLanes) {
    const float value = std::bit_cast<float>(shared.row.word(i));
    mine = std::fma(value, value, mine);
  }
  return mine;
}

// The sum of squares of a row of n values, the same in every thread; `first` holds its beginning.
HEARTH_DEVICE float sum_of_squares(Global<const float> row, std::uint32_t n,
                                   const Four (&first)[kHeld], NormShared& shared) {
  float mine = add_squares(0.0F, first, 0, n, shared);
  for (std::uint32_t base = held_at_once(); base < n; base += held_at_once()) {
    Four next[kHeld];
    load_held(row, base, n, next);
    sync_threads();
    mine = add_squares(mine, next, base, n, shared);
  }
  return sum_of_lanes(mine, shared.squares);
}

HEARTH_DEVICE float norm_factor(float squares, std::uint32_t n, float epsilon) {
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
}

HEARTH_DEVICE Four normalized(const Four& x, float r, const Four& weight) {
  Four out;
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) out.at[k] = (x.at[k] * r) * weight.at[k];
  return out;
}

HEARTH_KERNEL(kThreadsMost, 1) quantize_rows(Global<const float> x, Out out) {
  wait_for_previous_kernel();
  const std::size_t row = block_index_x();
  const Global<const float> mine = x.at(row * out.cols);
  Four held[kHeld];
  load_held(mine, 0, out.cols, held);
  quantize_row(out, row, shared_memory<QuantShared>(),
               [&](std::uint32_t base, unsigned c, std::uint32_t i) {
                 return base == 0 ? held[c] : load_four(mine, i);
               });
}

HEARTH_KERNEL(kThreadsMost, 1)
norm_quantize_rows(Global<const float> x, Global<const float> weight, float epsilon, Out out,
                   Global<float> normed) {
  NormShared& shared = shared_memory<NormShared>();
  const std::size_t row = block_index_x();
  const std::uint32_t n = out.cols;
  Four weights[kHeld];
  load_weights(weight, 0, n, weights);
  wait_for_previous_kernel();
  const Global<const float> mine = x.at(row * n);
  Four held[kHeld];
  load_held(mine, 0, n, held);
  const float squares = sum_of_squares(mine, n, held, shared);
  if (!is_finite(squares)) return clear_row(out, row);
  const float r = norm_factor(squares, n, epsilon);
  quantize_row(out, row, shared.quant, [&](std::uint32_t base, unsigned c, std::uint32_t i) {
    const Four value = base == 0 ? normalized(held[c], r, weights[c])
                                 : normalized(load_four(mine, i), r, load_four(weight, i));
    if (!normed.is_null()) store_four(normed, row * n + i, value);
    return value;
  });
}

// x and out may be the same memory: a thread writes only values that no other thread reads.
HEARTH_KERNEL(kThreads, 4)
norm_rows(Global<const float> x, Global<const float> weight, float epsilon, std::uint32_t n,
          std::uint32_t rows_of_token, Global<float> out, Global<std::uint32_t> failed) {
  wait_for_previous_kernel();
  const std::size_t row = block_index_x();
  const Global<const float> mine = x.at(row * n);
  const std::uint32_t thread = thread_index();
  // Of heads, a thread has one value.
  const float first_weight = thread < n ? weight.get_once(thread) : 0.0F;
  const float first = thread < n ? mine.get(thread) : 0.0F;
  float sum = std::fma(first, first, 0.0F);
  for (std::uint32_t i = thread + kThreads; i < n; i += kThreads) {
    const float value = mine.get(i);
    sum = std::fma(value, value, sum);
  }
  const float squares = sum_of_lanes(sum, shared_memory<LaneShared>().squares);
  const bool fails = !is_finite(squares);
  const float r = fails ? 0.0F : norm_factor(squares, n, epsilon);
  if (thread < n) out.put(row * n + thread, fails ? 0.0F : (first * r) * first_weight);
  for (std::uint32_t i = thread + kThreads; i < n; i += kThreads) {
    out.put(row * n + i, fails ? 0.0F : (mine.get(i) * r) * weight.get(i));
  }
  if (fails && thread_index() == 0) {
    atomic_or(failed, static_cast<std::uint32_t>(row) / rows_of_token, 1U);
  }
}

// Whether this block is the last of its row to come here: it then sees what the others wrote. The
// row's flag counts above its lowest bit, and is as before in the end.
HEARTH_DEVICE bool is_last_of_row(Global<std::uint32_t> failed, std::size_t row,
                                  std::uint32_t parts, QuantShared& shared) {
  sync_threads();
  if (thread_index() == 0) {
    fence_device();
    const std::uint32_t before = atomic_add(failed, row, 2U);
    const bool last = before / 2 + 1 == parts;
    shared.last.put(0, last ? 1U : 0U);
    if (last) {
      fence_device();
      atomic_add(failed, row, 0U - 2 * parts);
    }
  }
  sync_threads();
  return shared.last.get(0) != 0;
}

struct Gates {
  Four gate;
  Four up;
};

template <bool kGelu>
HEARTH_DEVICE Four gated(const Gates& in) {
  Four out;
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    out.at[k] = (kGelu ? gelu(in.gate.at[k]) : silu(in.gate.at[k])) * in.up.at[k];
  }
  return out;
}

// Block y takes the `width` values of the row from y * width on; the last block of a row finishes
// it.
template <bool kGelu>
HEARTH_KERNEL(kGateThreads, 4)
gated_quantize_rows(Global<const float> gate, Global<const float> up, Out out, std::uint32_t width,
                    std::uint32_t parts) {
  wait_for_previous_kernel();
  constexpr std::uint32_t kStep = kGateThreads * 4;
  QuantShared& shared = shared_memory<QuantShared>();
  const std::size_t row = block_index_x();
  const std::uint32_t blocks = out.cols / kBlock;
  const std::uint32_t begin = block_index_y() * width;
  const std::uint32_t end = out.cols - begin < width ? out.cols : begin + width;
  const auto load = [&](std::uint32_t i) {
    const std::size_t at = row * out.cols + i;
    return i < end ? Gates{load_four(gate, at), load_four(up, at)} : Gates{};
  };
  std::uint32_t largest = 0;
  std::uint32_t i = begin + thread_index() * 4;
  Gates next = load(i);
  for (std::uint32_t base = begin; base < end; base += kStep, i += kStep) {
    const Gates now = next;
    next = load(i + kStep);
    const Quants quants = quantize_block(gated<kGelu>(now));
    largest = quants.largest > largest ? quants.largest : largest;
    if (i >= end) continue;
    out.values.as<std::uint32_t>().put((row * out.cols + i) / 4, quants.bytes);
    if (i % kBlock == 0) put_largest(out, row * blocks + i / kBlock, quants);
  }
  if (parts > 1) {
    if (!is_last_of_row(out.failed, row, parts, shared)) return;
    for (std::uint32_t b = thread_index(); b < blocks; b += kGateThreads) {
      const std::uint32_t other = out.sums.as<std::uint32_t>().get(row * blocks + b);
      largest = other > largest ? other : largest;
    }
  }
  largest = largest_of_threads(largest, shared);
  if (largest >= kInfinityBits) return clear_row(out, row);
  finish_row(out, row, largest);
}

// One value a thread: a row's blocks along y.
HEARTH_DEVICE std::uint32_t place_in_row() { return block_index_y() * kThreads + thread_index(); }

HEARTH_KERNEL(kThreads, 4)
add_rows(Global<float> x, Global<const float> y, std::uint32_t n, std::size_t y_stride) {
  wait_for_previous_kernel();
  const std::size_t row = block_index_x();
  const std::uint32_t i = place_in_row();
  if (i < n) x.put(row * n + i, x.get(row * n + i) + y.get(row * y_stride + i));
}

HEARTH_KERNEL(kThreads, 4)
round_rows(Global<float> x, Global<std::uint16_t> bits, std::uint32_t n, float down, float up,
           Global<std::uint32_t> failed) {
  wait_for_previous_kernel();
  const std::size_t row = block_index_x();
  const std::uint32_t i = place_in_row();
  bool fails = false;
  if (i < n) {
    const std::uint16_t half = narrow_half(x.get(row * n + i) * down);
    fails = !half_is_finite(half);
    bits.put(row * n + i, half);
    x.put(row * n + i, widen_half(half) * up);
  }
  if (warp_any(fails) && thread_index() % 32 == 0) atomic_or(failed, row, 1U);
}

struct Step {
  std::uint32_t n;
  Global<float> x;
  Global<const float> y;
  Global<const float> post_norm;
  Global<std::uint16_t> bits;
  float down;
  float up;
  Global<const float> norm;
  float epsilon;
  Global<std::uint32_t> failed;
};

// x becomes x + y, rounded where the step rounds. False where a value is beyond the rounding.
HEARTH_DEVICE bool close_four(const Step& step, std::size_t at, const Four& y, Four& x) {
  HEARTH_UNROLL
  for (unsigned k = 0; k < 4; ++k) x.at[k] = x.at[k] + y.at[k];
  bool good = true;
  if (!step.bits.is_null()) {
    std::uint64_t bits = 0;
    HEARTH_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint16_t half = narrow_half(x.at[k] * step.down);
      good = good && half_is_finite(half);
      bits |= std::uint64_t{half} << (16 * k);
      x.at[k] = widen_half(half) * step.up;
    }
    step.bits.as<std::uint64_t>().put(at / 4, bits);
  }
  store_four(step.x, at, x);
  return good;
}

// The end of what the block holds of a row, in x and in memory; r: the factor of the norm over y, 0
// where that fails. False where this thread's values fail.
template <bool kPost>
HEARTH_DEVICE bool close_held(const Step& step, std::size_t at, std::uint32_t base, float r,
                              const Four (&y)[kHeld], const Four (&post)[kHeld], Four (&x)[kHeld]) {
  bool good = r != 0.0F;
  HEARTH_UNROLL
  for (unsigned c = 0; c < kHeld; ++c) {
    const std::uint32_t i = place_of(base, c);
    if (i >= step.n) continue;
    Four add = y[c];
    if constexpr (kPost) add = r != 0.0F ? normalized(y[c], r, post[c]) : Four{};
    good = close_four(step, at + i, add, x[c]) && good;
  }
  return good;
}

// kPost: there is a norm over y. A thread reads again only what it wrote itself.
template <bool kPost>
HEARTH_KERNEL(kThreadsMost, 1)
residual_step_rows(Step step, Out out) {
  NormShared& shared = shared_memory<NormShared>();
  const std::size_t row = block_index_x();
  const std::uint32_t n = step.n;
  const bool normed = !step.norm.is_null();
  Four post[kHeld] = {};
  Four norm[kHeld] = {};
  if constexpr (kPost) load_weights(step.post_norm, 0, n, post);
  if (!kPost && normed) load_weights(step.norm, 0, n, norm);  // kPost: registers are short
  wait_for_previous_kernel();
  const Global<const float> y_row = step.y.at(row * n);
  const Global<const float> x_row = step.x.at(row * n).as<const float>();
  Four y[kHeld];
  Four x[kHeld];
  load_held(y_row, 0, n, y);
  load_held(x_row, 0, n, x);
  float post_r = 1.0F;
  if constexpr (kPost) {
    const float squares = sum_of_squares(y_row, n, y, shared);
    post_r = is_finite(squares) ? norm_factor(squares, n, step.epsilon) : 0.0F;
  }
  bool good = close_held<kPost>(step, row * n, 0, post_r, y, post, x);
  if (kPost && normed) load_weights(step.norm, 0, n, norm);
  float mine = normed ? add_squares(0.0F, x, 0, n, shared) : 0.0F;
  for (std::uint32_t base = held_at_once(); base < n; base += held_at_once()) {
    Four next[kHeld];
    load_held(y_row, base, n, y);
    load_held(x_row, base, n, next);
    if constexpr (kPost) load_weights(step.post_norm, base, n, post);
    good = close_held<kPost>(step, row * n, base, post_r, y, post, next) && good;
    sync_threads();
    if (normed) mine = add_squares(mine, next, base, n, shared);
  }
  if (warp_any(!good) && thread_index() % 32 == 0) atomic_or(step.failed, row, 1U);
  if (!normed) return;
  const float squares = sum_of_lanes(mine, shared.squares);
  if (!is_finite(squares)) return clear_row(out, row);
  const float r = norm_factor(squares, n, step.epsilon);
  quantize_row(out, row, shared.quant, [&](std::uint32_t base, unsigned c, std::uint32_t i) {
    return base == 0 ? normalized(x[c], r, norm[c])
                     : normalized(load_four(x_row, i), r, load_four(step.norm, i));
  });
}

HEARTH_KERNEL(kThreads, 4)
expand_rows(Global<const std::uint16_t> bits, Global<float> x, std::uint32_t n, float up) {
  wait_for_previous_kernel();
  const std::size_t row = block_index_x();
  const std::uint32_t i = place_in_row();
  if (i < n) x.put(row * n + i, widen_half(bits.get(row * n + i)) * up);
}

// A block for every kThreads values of a row.
Grid grid_of(std::uint32_t rows, std::uint32_t n) { return {rows, (n + kThreads - 1) / kThreads}; }

Status check_width(std::uint32_t n) {
  REQUIRE(n != 0 && n % kBlock == 0,
          "rows of " + std::to_string(n) + " values, not a multiple of " + std::to_string(kBlock));
  return ok_status();
}

Status check_shift(int shift) {
  REQUIRE(shift >= -64 && shift <= 64,
          "a residual shift of " + std::to_string(shift) + ", beyond 64");
  return ok_status();
}

// Threads of a block that has a row of n values: four values each, and the lanes of a norm.
unsigned threads_for(std::uint32_t n) {
  const std::uint32_t wanted = (n / 4 + 31) / 32 * 32;
  return wanted < kThreads ? kThreads : wanted > kThreadsMost ? kThreadsMost : wanted;
}

template <bool kGelu>
Status gated_quantize(const float* gate, const float* up, const QuantizedRows& out,
                      std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  constexpr std::uint32_t kStep = kGateThreads * 4;
  const std::uint32_t steps = (out.cols + kStep - 1) / kStep;
  const std::uint32_t most = out.rows < kGateBlocks ? kGateBlocks / out.rows : 1;
  const std::uint32_t width = (steps + most - 1) / most * kStep;
  const std::uint32_t parts = (out.cols + width - 1) / width;
  return launched(
      "gated_quantize_rows",
      launch_early(gated_quantize_rows<kGelu>, {out.rows, parts}, kGateThreads, sizeof(QuantShared),
                   stream, Global(gate), Global(up), Out(out, failed), width, parts));
}

}  // namespace

Status quantize(const float* x, const QuantizedRows& out, std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  return launched("quantize_rows",
                  launch_early(quantize_rows, {out.rows, 1}, threads_for(out.cols),
                               sizeof(QuantShared), stream, Global(x), Out(out, failed)));
}

Status rms_norm_quantize(const float* x, const float* weight, float epsilon,
                         const QuantizedRows& out, float* normed, std::uint32_t* failed,
                         Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  return launched(
      "norm_quantize_rows",
      launch_early(norm_quantize_rows, {out.rows, 1}, threads_for(out.cols), sizeof(NormShared),
                   stream, Global(x), Global(weight), epsilon, Out(out, failed), Global(normed)));
}

Status rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t rows,
                std::uint32_t n, std::uint32_t rows_of_token, float* out, std::uint32_t* failed,
                Stream stream) {
  TRY_VOID(check_width(n));
  REQUIRE(rows_of_token != 0, "a token of no rows");
  if (rows == 0) return ok_status();
  return launched("norm_rows", launch_early(norm_rows, {rows, 1}, kThreads, sizeof(LaneShared),
                                            stream, Global(x), Global(weight), epsilon, n,
                                            rows_of_token, Global(out), Global(failed)));
}

Status swiglu_quantize(const float* gate, const float* up, const QuantizedRows& out,
                       std::uint32_t* failed, Stream stream) {
  return gated_quantize<false>(gate, up, out, failed, stream);
}

Status geglu_quantize(const float* gate, const float* up, const QuantizedRows& out,
                      std::uint32_t* failed, Stream stream) {
  return gated_quantize<true>(gate, up, out, failed, stream);
}

Status add(float* x, const float* y, std::uint32_t rows, std::uint32_t n, Stream stream) {
  if (rows == 0) return ok_status();
  return launched("add_rows", launch_early(add_rows, grid_of(rows, n), kThreads, 0, stream,
                                           Global(x), Global(y), n, std::size_t{n}));
}

Status add_bias(float* x, const float* bias, std::uint32_t rows, std::uint32_t n, Stream stream) {
  if (rows == 0) return ok_status();
  return launched("add_rows", launch_early(add_rows, grid_of(rows, n), kThreads, 0, stream,
                                           Global(x), Global(bias), n, std::size_t{0}));
}

Status residual_round(float* x, std::uint16_t* bits, std::uint32_t rows, std::uint32_t n, int shift,
                      std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_shift(shift));
  if (rows == 0) return ok_status();
  return launched("round_rows", launch_early(round_rows, grid_of(rows, n), kThreads, 0, stream,
                                             Global(x), Global(bits), n, power_of_two(-shift),
                                             power_of_two(shift), Global(failed)));
}

Status residual_step(const ResidualStep& step, const QuantizedRows& out, std::uint32_t* failed,
                     Stream stream) {
  TRY_VOID(check_width(out.cols));
  TRY_VOID(check_shift(step.shift));
  if (out.rows == 0) return ok_status();
  const Step device{out.cols,
                    Global(step.x),
                    Global(step.y),
                    Global(step.post_norm),
                    Global(step.bits),
                    power_of_two(-step.shift),
                    power_of_two(step.shift),
                    Global(step.norm),
                    step.epsilon,
                    Global(failed)};
  return launched(
      "residual_step_rows",
      launch_early(step.post_norm == nullptr ? residual_step_rows<false> : residual_step_rows<true>,
                   {out.rows, 1}, threads_for(out.cols), sizeof(NormShared), stream, device,
                   Out(out, failed)));
}

Status residual_expand(const std::uint16_t* bits, float* x, std::uint32_t rows, std::uint32_t n,
                       int shift, Stream stream) {
  TRY_VOID(check_shift(shift));
  if (rows == 0) return ok_status();
  return launched("expand_rows", launch_early(expand_rows, grid_of(rows, n), kThreads, 0, stream,
                                              Global(bits), Global(x), n, power_of_two(shift)));
}

}  // namespace hearth::kernels::cuda
