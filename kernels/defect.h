// Planted defects: typical mistakes of kernels, one at a time, with which tests/defects/run shows
// that the tests find each of them. cmake -DHEARTH_DEFECT=N plants number N in the files that its
// line names and in no other. The default plants no defect: the compiler drops every `if constexpr`
// on it, and the object code is that of a source without it.
#pragma once

#ifndef HEARTH_DEFECT
#define HEARTH_DEFECT 0
#endif

namespace hearth::kernels {

// One line each: number, [files], effect. If several tables are named, all have the same fault, so
// comparing tables does not find the defect.
enum class Defect : int {
  kNone = 0,
  kFusedRotation = 1,    // [avx2.cc] RoPE: fused where the text has two roundings
  kHalfAway = 2,         // [avx2.cc avx2_attention.cc] int8: halves away from zero
  kSaturatingSum = 3,    // [avx2_matmul.cc] Q8_0, IQ4: a block summed in saturating 16 bits
  kSubnormalScales = 4,  // [avx2.cc] subnormal block scales flushed to zero
  kNormSumOrder = 5,     // [avx2.cc] RMSNorm: lanes added one after the other
  kNormTail = 6,         // [avx2.cc] RMSNorm: the last part row squares in two roundings
  kResidualTail = 7,     // [avx2.cc] residual: the last few values cut off, not rounded
  kRootEstimate = 8,     // [avx2.cc] RMSNorm: an estimated root and one Newton step
  kValueScaleHalf = 9,   // [avx2_attention.cc] scales of V rounded to fp16
  kWindowOffByOne = 10,  // [avx2_attention.cc] the first position of a window is not seen
  kLastPage = 11,        // [avx2_attention.cc] the last page is skipped unless it is full
  kSplitBlock = 12,      // [avx2_matmul.cc] a K-split begins at its super-block's first block
  kBatchRow33 = 13,      // [avx2_matmul.cc] rows from the 33rd on cut off, not rounded, to the grid
  kSoftmaxSum = 14,      // [scalar_attention.cc] the softmax's denominator is a float sum
  kAvx512Score = 15,     // [avx512_attention.cc] scores: two roundings where the text has fma
  kAvx512NormProduct = 16,  // [avx512.cc] RMSNorm: x (r w) in place of (x r) w
  kExp2Constant = 17,       // [scalar.cc scalar_attention.cc avx2.cc avx2_attention.cc avx512.cc
                            //  avx512_attention.cc] exp2: c3 one unit of the last place too large
  kMinimumRounded = 18,     // [scalar_matmul.cc avx2_matmul.cc avxvnni_matmul.cc avx512_matmul.cc]
                            //  the M term is rounded to the grid by itself
  kAngleFrequency = 19,     // [rope_table.cc] RoPE: frequencies rounded to fp32
  kRowBound = 20,           // [weight_rows.cc] row exponent: S < 2^B in place of S <= 2^B
  kArgMaxTie = 21,          // [sampler.cc] greedy: of equal logits the highest id
  kTopPShare = 22,          // [sampler.cc] top_p: the share of the weights is rounded down
  kThreadSplit = 23,        // [forward.cc] several threads: a product is a float sum of two halves
};

// The defect of the file that includes this; internal linkage, since each file has its own.
static constexpr Defect kDefect = static_cast<Defect>(HEARTH_DEFECT);

// The defect of the build.
Defect planted_defect();

}  // namespace hearth::kernels
