// The kernel table: one entry an operation, one table an instruction set. Every table computes the
// same bits (CANONICAL.md); tests compare each with the scalar one for equality.
//
// Kernels allocate nothing, know no sequences, and access only the memory that they are given. No
// pointer needs more than its type's alignment, except KV pages: 64 bytes. A kernel runs on one
// thread; the caller splits the work by rows. Widths (cols, n of a norm) are multiples of kBlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/canonical.h"

namespace hearth::kernels {

// A weight matrix (rows, cols) repacked in groups of kRowGroup rows; layout only, exact meaning of
// the GGUF file. Rows are padded with zero rows to a whole group. Move-only, owns its memory.
class PackedMatrix {
 public:
  // `blocks`: the tensor's bytes in the file, row-major. kInvalidInput for a shape (cols no
  // multiple of the type's block, a size that does not match) or a payload (a scale or a weight
  // that is not finite, with its row and block) that is refused; kNoCapacity when memory is short.
  static Result<PackedMatrix> pack(WeightType type, std::uint32_t rows, std::uint32_t cols,
                                   ByteSpan blocks);
  // The same in two parts, so that threads can share it: room for the matrix, then its groups, each
  // once. The error of pack_groups is that of the first row that is refused.
  static Result<PackedMatrix> allocate(WeightType type, std::uint32_t rows, std::uint32_t cols);
  Status pack_groups(std::uint32_t begin, std::uint32_t end, ByteSpan blocks);
  // Rows [begin, end), both whole groups, as a matrix that borrows this one's memory and must not
  // outlive it.
  PackedMatrix part(std::uint32_t begin, std::uint32_t end) const;
  // bytes() of a matrix of that shape; cols a multiple of the type's block.
  static std::size_t bytes_of(WeightType type, std::uint32_t rows, std::uint32_t cols);
  WeightType type() const { return type_; }
  std::uint32_t rows() const { return rows_; }
  std::uint32_t cols() const { return cols_; }
  std::uint32_t groups() const { return (rows_ + kRowGroup - 1) / kRowGroup; }
  std::size_t bytes() const { return bytes_; }
  // Packed super-blocks of one group (layout in matrix_view.h).
  const std::byte* group(std::uint32_t index) const;
  std::size_t group_bytes() const;
  std::size_t file_row_bytes() const;  // of one row in the file
  // Exponent B of each row: sum of |weights| of the row <= 2^B. groups() * kRowGroup entries.
  const std::int32_t* row_exponents() const { return exponents_; }
  // Columns and bytes of one row's block as the file has it: 256 columns for K and XS types, else
  // 32, floating weights included.
  static std::uint32_t file_block_columns(WeightType type);
  static std::size_t file_block_bytes(WeightType type);

 private:
  Status place_row(std::uint32_t row, const std::byte* file);
  bool place_group(std::uint32_t group, const std::byte* file, std::size_t row_bytes);
  struct Free {
    Free() : owns(true) {}
    explicit Free(bool owned) : owns(owned) {}
    void operator()(std::byte* data) const;
    bool owns;
  };
  WeightType type_ = WeightType::kQ8_0;
  std::uint32_t rows_ = 0;
  std::uint32_t cols_ = 0;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> data_;  // 64-byte aligned
  std::vector<std::int32_t> row_exponents_;
  const std::int32_t* exponents_ = nullptr;  // row_exponents_, or those that are borrowed
};

// Activation rows quantised to int8 with one fp32 scale per kBlock.
struct QuantizedRows {
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::int8_t* values = nullptr;       // (rows, cols)
  float* scales = nullptr;             // (rows, cols / kBlock), scaled to the row's grid
  float* sums = nullptr;               // (rows, cols / kBlock): scale * sum of the block's values
  std::int32_t* block_sums = nullptr;  // (rows, cols / kBlock): sum of the block's values
  std::int32_t* exponents = nullptr;   // (rows): e with |x| <= 2^e
};

// One layer's share of a KV page, for all kv heads. K after RoPE, one scale per kBlock inside the
// head; V with one scale per (token, head). Or, in latent attention (latent.h), one row of head_dim
// values for all heads, one scale per kBlock.
struct KvLayout {
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  // multiple of kBlock, at most limits::kModelHeadDim or kModelLatent
  std::uint32_t latent = 0;    // of a row's values those that are values too; 0: K and V
  std::size_t head_bytes() const;
  std::size_t page_bytes() const { return head_bytes() * kv_heads; }
  std::size_t slot_bytes() const;  // of what kv_read gives
};

// The heads of a gated delta net (delta_net.h).
struct DeltaShape {
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;  // a multiple of key_heads
  std::uint32_t head = 0;         // values of each; a multiple of kBlock, at most kModelHeadDim
  std::uint32_t taps = 0;         // of the convolution: positions that it reads
  // Of the row that the convolution reads: queries, keys and values of all heads.
  std::uint32_t channels() const { return head * (2 * key_heads + value_heads); }
  std::uint32_t inner() const { return head * value_heads; }  // values of all heads that come out
  std::uint32_t history() const { return (taps - 1) * channels(); }
  // What a sequence keeps in a layer: the rows of its last taps - 1 positions, the oldest first,
  // then a matrix (head, head) for each value head.
  std::uint64_t state_values() const {
    return history() + std::uint64_t{value_heads} * head * head;
  }
};

enum class RopeStyle : std::uint8_t {
  kAdjacent,  // pairs (2i, 2i+1): llama files
  kHalves,    // pairs (i, i + d/2): qwen, gemma files
};

// How a row's experts are chosen and weighed (experts.h).
struct ExpertRouting {
  bool sigmoid = false;      // of each logit alone, in place of the softmax of all
  bool to_one = true;        // the weights add up to 1; else they are shares of all experts, or
                             // the sigmoids as they are
  float scale = 1.0F;        // of the weights, in the end
  std::uint32_t groups = 1;  // of as many experts each, at least 2 where there are several
  std::uint32_t groups_used = 1;  // of them by a row
};

struct AttentionArgs {
  KvLayout layout;
  std::uint32_t kv_head = 0;
  std::uint32_t group = 0;                  // query heads that share this kv head
  const float* query = nullptr;             // (group, head_dim), after RoPE
  const std::byte* const* pages = nullptr;  // this layer's pages, in order from position 0;
                                            // those wholly before `begin` are never read
  std::uint32_t begin = 0;                  // first visible position
  std::uint32_t end = 0;                    // one past the query's own position
  float score_scale = 0.0F;                 // 1/sqrt(head_dim), before log2(e) is folded in;
                                            // in [0, 2^20]
  float* scratch = nullptr;                 // attention_scratch(group, end - begin) floats,
                                            // 64-byte aligned
  float* out = nullptr;                     // (group, head_dim)
  float score_cap = 0.0F;                   // of softcap over the scores, in (0, 65536]; 0: none
  const float* sinks = nullptr;  // (group): logits that take weight and have no value; null: none
};
std::size_t attention_scratch(std::uint32_t group, std::uint32_t positions);

// Of one head of a gated delta net, at one position.
struct DeltaNumbers {
  float beta = 0.0F;   // of what is corrected
  float decay = 0.0F;  // of all that the state holds
};

struct DeltaStep {
  const float* query = nullptr;  // (n), normed and scaled
  const float* key = nullptr;    // (n), normed
  const float* value = nullptr;  // (n)
  DeltaNumbers numbers;
  float* state = nullptr;  // (n, n): key, value
  float* out = nullptr;    // (n)
};

struct Kernels {
  std::string_view name;  // scalar, avx2, avxvnni, avx512, neon, dotprod, i8mm

  // out[t * out_stride + r] for rows r of row groups [group_begin, group_end) and every row t of x.
  void (*matmul)(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                 std::uint32_t group_end, float* out, std::size_t out_stride);

  // The same before rounding, for a share [block_begin, block_end) of the columns: grid sums, all 0
  // for an empty share. The sums of all shares of a row add up, as integers and in any order, to
  // what grid_outputs turns into the output of matmul.
  void (*matmul_partial)(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                         std::uint32_t group_end, std::uint32_t block_begin,
                         std::uint32_t block_end, std::int32_t* out, std::size_t out_stride);

  // Row `t` of `out` from x (cols). False when a value is not finite (the row is then all zero).
  bool (*quantize)(const float* x, const QuantizedRows& out, std::uint32_t t);

  // RMSNorm of x (cols) by weight (cols), then quantize. `normed`, when not null, also gets the
  // unquantised values. False also when the sum of squares leaves the range.
  bool (*rms_norm_quantize)(const float* x, const float* weight, float epsilon,
                            const QuantizedRows& out, std::uint32_t t, float* normed);

  // RMSNorm of x (n) by weight (n); `out` may be x. False when the sum of squares leaves the range:
  // `out` is then all zero. Values of `out` may be infinite where the weights are that large.
  bool (*rms_norm)(const float* x, const float* weight, float epsilon, std::uint32_t n, float* out);

  // silu(gate) * up, then quantize.
  bool (*swiglu_quantize)(const float* gate, const float* up, const QuantizedRows& out,
                          std::uint32_t t);
  // gelu(gate) * up, then quantize.
  bool (*geglu_quantize)(const float* gate, const float* up, const QuantizedRows& out,
                         std::uint32_t t);

  // Clamped SwiGLU of gate and up (alpha 1.702, limit 7), then quantize.
  bool (*clamped_swiglu_quantize)(const float* gate, const float* up, const QuantizedRows& out,
                                  std::uint32_t t);

  // Rotates `heads` heads of head_dim in place. cos_sin: (head_dim / 2, 2) of the position.
  void (*rope)(float* x, std::uint32_t heads, std::uint32_t head_dim, RopeStyle style,
               const float* cos_sin);

  // Quantises one token's K and V (kv_heads, head_dim) into slot `slot` of a page. False when a
  // value is not finite or its magnitude is above kAttentionMax; the slot then holds no meaning.
  bool (*kv_write)(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
                   const float* v);

  // False when a value of the query or a sink is not finite or its magnitude is above
  // kAttentionMax; out is then all zero.
  bool (*attention)(const AttentionArgs& args);

  // softcap of each of x (n); 0 < cap <= 65536. Values that are not finite may come out as any.
  void (*softcap)(float* x, std::uint32_t n, float cap);

  // silu of each of x (n), in place.
  void (*silu)(float* x, std::uint32_t n);

  // x[i] times the sigmoid of gate[i], in place. False when a gate is not finite.
  bool (*multiply_sigmoid)(float* x, const float* gate, std::uint32_t n);

  // One position of a head of n values, at most kModelHeadDim.
  void (*delta_step)(std::uint32_t n, const DeltaStep& step);

  // x += y
  void (*add)(float* x, const float* y, std::uint32_t n);

  // x (n) to the 16-bit residual: fp16(x * 2^-shift), and x back from it. |shift| <= 64. False when
  // a value leaves fp16's range; bits and x then hold no meaning.
  bool (*residual_round)(float* x, std::uint16_t* bits, std::uint32_t n, int shift);
  void (*residual_expand)(const std::uint16_t* bits, float* x, std::uint32_t n, int shift);

  // Row `row` of w, dequantised.
  void (*dequantize_row)(const PackedMatrix& w, std::uint32_t row, float* out);
};

// One slot of a page in the order of CANONICAL.md, "Hashes", whatever the order in memory is.
// out: layout.slot_bytes().
void kv_read(const KvLayout& layout, const std::byte* page, std::uint32_t slot, std::byte* out);

// The best table that this processor runs, or the one HEARTH_ISA names. kUnsupported, with the
// choices named, when the name is unknown or the processor lacks it.
Result<const Kernels*> select_kernels();
Result<const Kernels*> kernels_named(std::string_view name);
// All tables that this processor runs, scalar first.
std::vector<const Kernels*> available_kernels();

// The outputs of matmul from the added up grid sums of a split row, for rows of row groups
// [group_begin, group_end) and every row t of x, of which only the exponents are read. sums and
// out: element t * stride + r.
void grid_outputs(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                  std::uint32_t group_end, const std::int32_t* sums, float* out,
                  std::size_t stride);

// Checks that subnormals are kept, that rounding is to nearest, and that float operations run one
// by one in the order written. Every thread that computes calls this first. kNumeric names the
// fault.
Status check_float_environment();

// cos and sin of position * frequency, times magnitude, for every pair that a head turns, from
// double arithmetic that is pinned by CANONICAL.md (no libm). cos_sin: (frequencies.size(), 2).
void rope_table_row(std::uint32_t position, std::span<const double> frequencies, double magnitude,
                    float* cos_sin);

// x[0..n) divided by its length (CANONICAL.md, "Embedding"); `out` may be x. False, and `out` all
// zero, where the sum of squares is 0 or leaves the range. Any table gives these bits.
bool unit_length(const float* x, std::uint32_t n, float* out);

// x[0..n) divided by the root of its sum of squares and epsilon, then times `factor`; `out` may be
// x. False, and `out` all zero, where the sum leaves the range. Any table gives these bits.
bool bounded_length(const float* x, std::uint32_t n, float epsilon, float factor, float* out);

// base^exponent, for base > 0 and both finite; 0 where the result is below 2^-1022, infinity from
// 2^1023 on, NaN for any other input. No libm: for the frequencies of RoPE.
double pow_canonical(double base, double exponent);
// The logarithm in it, for a finite x > 0; NaN for any other x.
double log2_canonical(double x);

// 2^x of the canonical function, for all x but NaN: 0 below -126, 2^127 from 127 on.
float exp2_canonical(float x);

}  // namespace hearth::kernels
