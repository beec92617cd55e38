// One block of 256 threads a row. Where a row is quantised, a warp takes a block of 32 values at a
// time, one a lane; the 256 threads are the 256 lanes of the norm's sum, so that its tree falls
// out.
#include <cmath>
#include <string>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launched.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementary.h"

namespace hearth::kernels::cuda {
namespace {

constexpr unsigned kThreads = kNormLanes;
constexpr unsigned kWarps = kThreads / 32;
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

struct RowShared {
  SharedArray<std::uint32_t, kWarps> largest;
  SharedArray<float, kNormLanes> squares;
};

HEARTH_DEVICE void clear_row(const Out& out, std::size_t row) {
  const std::size_t blocks = out.cols / kBlock;
  for (std::uint32_t i = thread_index(); i < out.cols; i += kThreads) {
    out.values.put(row * out.cols + i, std::int8_t{0});
  }
  for (std::size_t b = thread_index(); b < blocks; b += kThreads) {
    out.scales.put(row * blocks + b, 0.0F);
    out.sums.put(row * blocks + b, 0.0F);
    out.block_sums.put(row * blocks + b, 0);
  }
  if (thread_index() == 0) {
    out.exponents.put(row, kExponentMin);
    out.failed.put(row, 1U);
  }
}

// CANONICAL.md, "Activation rows"; `value_at(i)` gives value i of the row.
template <typename ValueAt>
HEARTH_DEVICE void quantize_row(const Out& out, std::size_t row, RowShared& shared,
                                ValueAt value_at) {
  const unsigned lane = thread_index() % 32;
  const unsigned warp = thread_index() / 32;
  const std::uint32_t blocks = out.cols / kBlock;
  const std::size_t first = row * blocks;
  std::uint32_t largest = 0;
  for (std::uint32_t b = warp; b < blocks; b += kWarps) {
    const float value = value_at(b * kBlock + lane);
    const std::uint32_t bits = warp_max(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
    largest = bits > largest ? bits : largest;
    const float maximum = std::bit_cast<float>(bits);
    const bool zero = maximum < kTiny;
    const float inverse = zero ? 0.0F : static_cast<float>(kQuantMax) / maximum;
    const std::int32_t quant = round_even(value * inverse);
    const std::int32_t sum = warp_add(quant);
    out.values.put((first + b) * kBlock + lane, static_cast<std::int8_t>(quant));
    if (lane == 0) {
      out.scales.put(first + b, zero ? 0.0F : maximum / static_cast<float>(kQuantMax));
      out.block_sums.put(first + b, sum);
    }
  }
  if (lane == 0) shared.largest.put(warp, largest);
  sync_threads();
  for (unsigned w = 0; w < kWarps; ++w) {
    const std::uint32_t other = shared.largest.get(w);
    largest = other > largest ? other : largest;
  }
  if (largest >= kInfinityBits) return clear_row(out, row);
  const std::int32_t exponent = row_exponent(std::bit_cast<float>(largest));
  const float grid = power_of_two(kGridBits - exponent);
  for (std::uint32_t b = thread_index(); b < blocks; b += kThreads) {
    const float scale = out.scales.get(first + b) * grid;
    out.scales.put(first + b, scale);
    out.sums.put(first + b, scale * static_cast<float>(out.block_sums.get(first + b)));
  }
  if (thread_index() == 0) out.exponents.put(row, exponent);
}

// The norm's tree over what each lane has summed, the same in every thread.
HEARTH_DEVICE float sum_of_lanes(float mine, RowShared& shared) {
  const unsigned thread = thread_index();
  shared.squares.put(thread, mine);
  sync_threads();
  if (thread < 32) {
    const auto four = [&](unsigned j) {  // the tree's steps of 128 and of 64
      return (shared.squares.get(j) + shared.squares.get(j + 128)) +
             (shared.squares.get(j + 64) + shared.squares.get(j + 192));
    };
    float sum = four(thread) + four(thread + 32);
    for (unsigned half = 16; half > 0; half /= 2) sum = sum + shuffle_down(sum, half);
    if (thread == 0) shared.squares.put(0, sum);
  }
  sync_threads();
  return shared.squares.get(0);
}

// The sum of squares of x[0..n), the same in every thread.
HEARTH_DEVICE float sum_of_squares(Global<const float> x, std::uint32_t n, RowShared& shared) {
  float mine = 0.0F;
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) {
    const float value = x.get(i);
    mine = std::fma(value, value, mine);
  }
  return sum_of_lanes(mine, shared);
}

HEARTH_DEVICE float norm_factor(float squares, std::uint32_t n, float epsilon) {
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
}

HEARTH_KERNEL(kThreads, 4) quantize_rows(Global<const float> x, Out out) {
  const std::size_t row = block_index_x();
  const Global<const float> mine = x.at(row * out.cols);
  quantize_row(out, row, shared_memory<RowShared>(), [&](std::uint32_t i) { return mine.get(i); });
}

HEARTH_KERNEL(kThreads, 4)
norm_quantize_rows(Global<const float> x, Global<const float> weight, float epsilon, Out out,
                   Global<float> normed) {
  RowShared& shared = shared_memory<RowShared>();
  const std::size_t row = block_index_x();
  const Global<const float> mine = x.at(row * out.cols);
  const float squares = sum_of_squares(mine, out.cols, shared);
  if (!is_finite(squares)) return clear_row(out, row);
  const float r = norm_factor(squares, out.cols, epsilon);
  quantize_row(out, row, shared, [&](std::uint32_t i) {
    const float value = (mine.get(i) * r) * weight.get(i);
    if (!normed.is_null()) normed.put(row * out.cols + i, value);
    return value;
  });
}

// x and out may be the same memory: a thread writes only values that no other thread reads.
HEARTH_KERNEL(kThreads, 4)
norm_rows(Global<const float> x, Global<const float> weight, float epsilon, std::uint32_t n,
          std::uint32_t rows_of_token, Global<float> out, Global<std::uint32_t> failed) {
  const std::size_t row = block_index_x();
  const Global<const float> mine = x.at(row * n);
  const float squares = sum_of_squares(mine, n, shared_memory<RowShared>());
  const bool fails = !is_finite(squares);
  const float r = fails ? 0.0F : norm_factor(squares, n, epsilon);
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) {
    out.put(row * n + i, fails ? 0.0F : (mine.get(i) * r) * weight.get(i));
  }
  if (fails && thread_index() == 0) {
    atomic_or(failed, static_cast<std::uint32_t>(row) / rows_of_token, 1U);
  }
}

template <bool kGelu>
HEARTH_KERNEL(kThreads, 4)
gated_quantize_rows(Global<const float> gate, Global<const float> up, Out out) {
  const std::size_t row = block_index_x();
  const std::size_t at = row * out.cols;
  quantize_row(out, row, shared_memory<RowShared>(), [&](std::uint32_t i) {
    const float g = gate.get(at + i);
    return (kGelu ? gelu(g) : silu(g)) * up.get(at + i);
  });
}

HEARTH_KERNEL(kThreads, 4)
add_rows(Global<float> x, Global<const float> y, std::uint32_t n, std::size_t y_stride) {
  const std::size_t row = block_index_x();
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) {
    x.put(row * n + i, x.get(row * n + i) + y.get(row * y_stride + i));
  }
}

HEARTH_KERNEL(kThreads, 4)
round_rows(Global<float> x, Global<std::uint16_t> bits, std::uint32_t n, float down, float up,
           Global<std::uint32_t> failed) {
  const std::size_t row = block_index_x();
  bool fails = false;
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) {
    const std::uint16_t half = float_to_half(x.get(row * n + i) * down);
    fails = fails || !half_is_finite(half);
    bits.put(row * n + i, half);
    x.put(row * n + i, half_to_float(half) * up);
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

// x + y with the norm before and the rounding after it; gives this lane's sum of squares of the
// result.
HEARTH_DEVICE float close_row(const Step& step, std::size_t row, RowShared& shared) {
  const std::size_t at = row * step.n;
  const bool normed = !step.post_norm.is_null();
  const bool rounded = !step.bits.is_null();
  float r = 1.0F;
  bool zero = false;
  if (normed) {
    const float squares = sum_of_squares(step.y.at(at), step.n, shared);
    zero = !is_finite(squares);
    if (!zero) r = norm_factor(squares, step.n, step.epsilon);
  }
  bool fails = zero;
  float mine = 0.0F;
  for (std::uint32_t i = thread_index(); i < step.n; i += kThreads) {
    float y = step.y.get(at + i);
    if (normed) y = zero ? 0.0F : (y * r) * step.post_norm.get(i);
    float x = step.x.get(at + i) + y;
    if (rounded) {
      const std::uint16_t half = float_to_half(x * step.down);
      fails = fails || !half_is_finite(half);
      step.bits.put(at + i, half);
      x = half_to_float(half) * step.up;
    }
    step.x.put(at + i, x);
    mine = std::fma(x, x, mine);
  }
  if (warp_any(fails) && thread_index() % 32 == 0) atomic_or(step.failed, row, 1U);
  return mine;
}

// A thread reads again only what it wrote itself: its lane of the norm is its lane of the
// quantiser.
HEARTH_KERNEL(kThreads, 4) residual_step_rows(Step step, Out out) {
  RowShared& shared = shared_memory<RowShared>();
  const std::size_t row = block_index_x();
  const float mine = close_row(step, row, shared);
  if (step.norm.is_null()) return;
  sync_threads();  // close_row may have used the same shared memory
  const float squares = sum_of_lanes(mine, shared);
  if (!is_finite(squares)) return clear_row(out, row);
  const float r = norm_factor(squares, step.n, step.epsilon);
  quantize_row(out, row, shared, [&](std::uint32_t i) {
    return (step.x.get(row * step.n + i) * r) * step.norm.get(i);
  });
}

HEARTH_KERNEL(kThreads, 4)
expand_rows(Global<const std::uint16_t> bits, Global<float> x, std::uint32_t n, float up) {
  const std::size_t row = block_index_x();
  for (std::uint32_t i = thread_index(); i < n; i += kThreads) {
    x.put(row * n + i, half_to_float(bits.get(row * n + i)) * up);
  }
}

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

template <bool kGelu>
Status gated_quantize(const float* gate, const float* up, const QuantizedRows& out,
                      std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  return launched("gated_quantize_rows",
                  launch(gated_quantize_rows<kGelu>, {out.rows, 1}, kThreads, sizeof(RowShared),
                         stream, Global(gate), Global(up), Out(out, failed)));
}

}  // namespace

Status quantize(const float* x, const QuantizedRows& out, std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  return launched("quantize_rows", launch(quantize_rows, {out.rows, 1}, kThreads, sizeof(RowShared),
                                          stream, Global(x), Out(out, failed)));
}

Status rms_norm_quantize(const float* x, const float* weight, float epsilon,
                         const QuantizedRows& out, float* normed, std::uint32_t* failed,
                         Stream stream) {
  TRY_VOID(check_width(out.cols));
  if (out.rows == 0) return ok_status();
  return launched("norm_quantize_rows",
                  launch(norm_quantize_rows, {out.rows, 1}, kThreads, sizeof(RowShared), stream,
                         Global(x), Global(weight), epsilon, Out(out, failed), Global(normed)));
}

Status rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t rows,
                std::uint32_t n, std::uint32_t rows_of_token, float* out, std::uint32_t* failed,
                Stream stream) {
  TRY_VOID(check_width(n));
  REQUIRE(rows_of_token != 0, "a token of no rows");
  if (rows == 0) return ok_status();
  return launched("norm_rows",
                  launch(norm_rows, {rows, 1}, kThreads, sizeof(RowShared), stream, Global(x),
                         Global(weight), epsilon, n, rows_of_token, Global(out), Global(failed)));
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
  return launched("add_rows", launch(add_rows, {rows, 1}, kThreads, 0, stream, Global(x), Global(y),
                                     n, std::size_t{n}));
}

Status add_bias(float* x, const float* bias, std::uint32_t rows, std::uint32_t n, Stream stream) {
  if (rows == 0) return ok_status();
  return launched("add_rows", launch(add_rows, {rows, 1}, kThreads, 0, stream, Global(x),
                                     Global(bias), n, std::size_t{0}));
}

Status residual_round(float* x, std::uint16_t* bits, std::uint32_t rows, std::uint32_t n, int shift,
                      std::uint32_t* failed, Stream stream) {
  TRY_VOID(check_shift(shift));
  if (rows == 0) return ok_status();
  return launched("round_rows",
                  launch(round_rows, {rows, 1}, kThreads, 0, stream, Global(x), Global(bits), n,
                         power_of_two(-shift), power_of_two(shift), Global(failed)));
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
  return launched("residual_step_rows",
                  launch(residual_step_rows, {out.rows, 1}, kThreads, sizeof(RowShared), stream,
                         device, Out(out, failed)));
}

Status residual_expand(const std::uint16_t* bits, float* x, std::uint32_t rows, std::uint32_t n,
                       int shift, Stream stream) {
  TRY_VOID(check_shift(shift));
  if (rows == 0) return ok_status();
  return launched("expand_rows", launch(expand_rows, {rows, 1}, kThreads, 0, stream, Global(bits),
                                        Global(x), n, power_of_two(shift)));
}

}  // namespace hearth::kernels::cuda
