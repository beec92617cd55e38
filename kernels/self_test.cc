#include "kernels/self_test.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/random.h"
#include "kernels/matrix_view.h"
#include "kernels/tables.h"

namespace hearth::kernels {
namespace {

// A new entry needs a question here.
static_assert(sizeof(Kernels) == sizeof(std::string_view) + 19 * sizeof(void (*)()));

constexpr KnownAnswer kAnswers[] = {
#include "kernels/self_test_answers.inc"
};

constexpr std::array<std::string_view, kWeightTypes> kTypeNames = {
    "F32",   "F16",     "BF16",  "Q8_0",  "Q4_0",  "Q4_1",   "Q5_0",  "Q5_1",    "IQ4_NL",
    "Q2_K",  "Q3_K",    "Q4_K",  "Q5_K",  "Q6_K",  "IQ4_XS", "MXFP4", "IQ2_XXS", "IQ2_XS",
    "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0",  "TQ2_0"};
constexpr std::uint32_t kFirstTypes = 15;  // those that share inputs with the other entries

constexpr std::uint32_t kRows = 21;              // of a weight matrix: a padded group
constexpr std::uint32_t kTokens[] = {1, 3, 37};  // rows of activations
constexpr std::uint32_t kCols = 800;             // of 32-block types; 768 of the others
constexpr std::uint32_t kOdd = 803;              // of what takes any width

// Inputs, from integers alone.
class Inputs {
 public:
  explicit Inputs(std::uint64_t seed = 1) : random_(seed) {}
  std::uint32_t bits() { return static_cast<std::uint32_t>(random_.next() >> 32); }

  // A number of either sign, with a magnitude in [2^low, 2^(high + 1)).
  float number(int low, int high) {
    const std::uint32_t any = bits();
    const int exponent =
        low + static_cast<int>(bits() % static_cast<std::uint32_t>(high - low + 1));
    return std::bit_cast<float>((any & 0x807FFFFFU) | static_cast<std::uint32_t>(exponent + 127)
                                                          << 23);
  }
  // Every sixteenth is a zero of either sign.
  std::vector<float> numbers(std::size_t count, int low = -6, int high = 1) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = number(low, high);
      if (bits() % 16 == 0) value = std::bit_cast<float>(bits() & 0x80000000U);
    }
    return values;
  }
  // A finite half of ordinary size; every sixteenth is subnormal.
  std::uint16_t half() {
    const std::uint32_t exponent = bits() % 16 == 0 ? 0 : 5 + bits() % 6;
    return static_cast<std::uint16_t>((bits() & 0x83FFU) | exponent << 10);
  }

 private:
  SeededRandom random_;
};

class Digest {
 public:
  template <typename T>
  void add(const T* values, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    hash_.update({reinterpret_cast<const std::byte*>(values), count * sizeof(T)});
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  void add(bool value) {
    const std::byte byte{static_cast<unsigned char>(value ? 1 : 0)};
    add(&byte, 1);
  }
  std::uint64_t finish() {
    const Hash256 hash = hash_.finish();
    std::uint64_t first = 0;
    for (int i = 7; i >= 0; --i) {
      first = first << 8 | std::to_integer<std::uint64_t>(hash.bytes[static_cast<std::size_t>(i)]);
    }
    return first;
  }

 private:
  Blake2b hash_;
};

// Fills memory with garbage, so that an output that was never written is noticed.
template <typename T>
std::vector<T> unwritten(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(count);
  std::memset(values.data(), 0xFF, count * sizeof(T));
  return values;
}

// Owns what a QuantizedRows points to.
struct Quantized {
  Quantized(std::uint32_t rows, std::uint32_t cols)
      : values(unwritten<std::int8_t>(std::size_t{rows} * cols)),
        scales(unwritten<float>(std::size_t{rows} * cols / kBlock)),
        sums(scales),
        block_sums(unwritten<std::int32_t>(scales.size())),
        exponents(unwritten<std::int32_t>(rows)),
        view{rows,
             cols,
             values.data(),
             scales.data(),
             sums.data(),
             block_sums.data(),
             exponents.data()} {}
  Quantized(const Quantized&) = delete;
  Quantized& operator=(const Quantized&) = delete;
  void add_to(Digest& digest) const {
    digest.add(values);
    digest.add(scales);
    digest.add(sums);
    digest.add(block_sums);
    digest.add(exponents);
  }

  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<float> sums;
  std::vector<std::int32_t> block_sums;
  std::vector<std::int32_t> exponents;
  QuantizedRows view;
};

// Tests one table. No entry gets its inputs from another entry of the table, so an error names
// the wrong entry and no other.
class Examiner {
 public:
  explicit Examiner(const Kernels& table) : table_(table) {}

  Result<std::vector<Answer>> run() {
    for (std::uint32_t i = 0; i < kWeightTypes; ++i) {
      Inputs own(i);  // rows of types that came later, so that all other answers stay the same
      TRY_VOID(weights(static_cast<WeightType>(i), i < kFirstTypes ? inputs_ : own));
    }
    rows();
    norms();
    gated("swiglu_quantize", table_.swiglu_quantize);
    gated("geglu_quantize", table_.geglu_quantize);
    rope();
    kv();
    residual();
    functions();
    softcap();
    capped_attention();
    gpt_oss();
    delta_nets();
    return std::move(answers_);
  }

 private:
  void answer(std::string name, Digest& digest) {
    answers_.push_back({std::move(name), digest.finish()});
  }

  Status weights(WeightType type, Inputs& inputs);
  void products(const PackedMatrix& matrix, const Quantized& x, Digest& whole, Digest& parts);
  void rows();
  void norms();
  void gated(const char* name, decltype(Kernels::swiglu_quantize) entry);
  void rope();
  void kv();
  void attend(KvLayout layout, const std::vector<const std::byte*>& pages, float score_cap,
              bool sinks, Digest& digest);
  void residual();
  void functions();
  void softcap();
  void capped_attention();
  void gpt_oss();
  void delta_nets();

  const Kernels& table_;
  Inputs inputs_;
  std::vector<Answer> answers_;
};

void put(std::byte* at, std::uint32_t bits, std::size_t width) { std::memcpy(at, &bits, width); }

// The place of d for read_d().
void put_d(WeightType type, std::byte* at, std::uint32_t half) {
  if (type != WeightType::kIQ1_M) return put(at, half, 2);
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::byte& high = at[2 * i + 1];
    high = (high & std::byte{0x0F}) | static_cast<std::byte>((half >> (4 * i) & 15U) << 4);
  }
}

// A tensor as a file holds it.
Bytes file_blocks(Inputs& inputs, WeightType type, std::uint32_t cols) {
  const WeightLayout layout = layout_of(type);
  Bytes bytes(std::size_t{kRows} * (cols / layout.columns()) * layout.file_bytes);
  const bool floats = layout.form == BlockForm::kFloat;
  for (std::byte& byte : bytes) {
    if (!floats) byte = static_cast<std::byte>(inputs.bits() & 0xFFU);
  }
  const std::size_t step = floats ? layout.file_bytes / kBlock : layout.file_bytes;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    if (floats) {
      const auto wide = std::bit_cast<std::uint32_t>(inputs.number(-10, -3));
      put(&bytes[at],
          type == WeightType::kF32    ? wide
          : type == WeightType::kBF16 ? wide >> 16
                                      : inputs.half(),
          step);
      continue;
    }
    if (layout.power) {  // any that is not refused
      put(&bytes[at + layout.d_offset], inputs.bits() % (kPowerMax + 1), 1);
      continue;
    }
    put_d(type, &bytes[at + layout.d_offset], inputs.half());
    if (layout.minimum) put(&bytes[at + layout.d_offset + 2U], inputs.half(), 2);
  }
  return bytes;
}

Status Examiner::weights(WeightType type, Inputs& inputs) {
  const std::string name(kTypeNames[static_cast<std::size_t>(type)]);
  const std::uint32_t cols = kCols / layout_of(type).columns() * layout_of(type).columns();
  TRY(const PackedMatrix matrix,
      PackedMatrix::pack(type, kRows, cols, file_blocks(inputs, type, cols)));
  Digest whole;
  Digest parts;
  for (const std::uint32_t tokens : kTokens) {
    Quantized x(tokens, cols);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      kScalarKernels.quantize(inputs.numbers(cols).data(), x.view, t);
    }
    products(matrix, x, whole, parts);
  }
  Digest rows;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    std::vector<float> out = unwritten<float>(cols);
    table_.dequantize_row(matrix, row, out.data());
    rows.add(out);
  }
  answer("matmul " + name, whole);
  answer("matmul_partial " + name, parts);
  answer("dequantize_row " + name, rows);
  return ok_status();
}

void Examiner::products(const PackedMatrix& matrix, const Quantized& x, Digest& whole,
                        Digest& parts) {
  const std::size_t stride = std::size_t{matrix.groups()} * kRowGroup;
  const std::uint32_t blocks = matrix.cols() / kBlock;
  std::vector<float> out = unwritten<float>(stride * x.view.rows);
  table_.matmul(matrix, x.view, 0, matrix.groups(), out.data(), stride);
  for (std::uint32_t t = 0; t < x.view.rows; ++t) whole.add(out.data() + t * stride, kRows);
  std::vector<std::int32_t> share = unwritten<std::int32_t>(stride * x.view.rows);
  for (const auto& [begin, end] : {std::pair(0U, 7U), std::pair(7U, blocks)}) {
    table_.matmul_partial(matrix, x.view, 0, matrix.groups(), begin, end, share.data(), stride);
    for (std::uint32_t t = 0; t < x.view.rows; ++t) parts.add(share.data() + t * stride, kRows);
  }
}

void Examiner::rows() {
  std::vector<std::vector<float>> cases = {inputs_.numbers(kCols), inputs_.numbers(kCols, -126, 30),
                                           std::vector<float>(kCols), inputs_.numbers(kCols)};
  cases.back()[kCols - 1] = std::bit_cast<float>(0x7F800000U);
  Quantized out(static_cast<std::uint32_t>(cases.size()), kCols);
  Digest digest;
  for (std::uint32_t t = 0; t < cases.size(); ++t) {
    digest.add(table_.quantize(cases[t].data(), out.view, t));
  }
  out.add_to(digest);
  answer("quantize", digest);

  Digest sums;
  for (const std::uint32_t n : {kCols, kOdd}) {
    std::vector<float> x = inputs_.numbers(n);
    table_.add(x.data(), inputs_.numbers(n).data(), n);
    sums.add(x);
  }
  answer("add", sums);
}

void Examiner::norms() {
  Digest plain;
  Digest fused;
  for (const std::uint32_t cols : {64U, kCols}) {
    const std::vector<float> weight = inputs_.numbers(cols, -2, 0);
    for (const int high : {1, 100}) {  // the latter leaves the range
      const std::vector<float> x = inputs_.numbers(cols, high == 1 ? -6 : 90, high);
      std::vector<float> out = unwritten<float>(cols);
      plain.add(table_.rms_norm(x.data(), weight.data(), 0x1p-17F, cols, out.data()));
      plain.add(out);
      for (const bool keep : {false, true}) {
        Quantized rows(1, cols);
        std::vector<float> normed = unwritten<float>(cols);
        const bool good = table_.rms_norm_quantize(x.data(), weight.data(), 0x1p-17F, rows.view, 0,
                                                   keep ? normed.data() : nullptr);
        fused.add(good);
        rows.add_to(fused);
        if (keep && good) fused.add(normed);
      }
    }
  }
  answer("rms_norm", plain);
  answer("rms_norm_quantize", fused);
}

void Examiner::gated(const char* name, decltype(Kernels::swiglu_quantize) entry) {
  Digest digest;
  for (const int high : {2, 6, 60}) {
    const std::vector<float> gate = inputs_.numbers(kCols, -20, high);
    const std::vector<float> up = inputs_.numbers(kCols, -20, high);
    Quantized out(1, kCols);
    digest.add(entry(gate.data(), up.data(), out.view, 0));
    out.add_to(digest);
  }
  answer(name, digest);
}

void Examiner::rope() {
  Digest digest;
  constexpr std::uint32_t kHeads = 3;
  for (const std::uint32_t head_dim : {32U, 64U, 96U, 128U, 256U}) {
    const std::vector<float> angles = inputs_.numbers(head_dim, -8, -1);
    for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
      std::vector<float> x = inputs_.numbers(std::size_t{kHeads} * head_dim);
      table_.rope(x.data(), kHeads, head_dim, style, angles.data());
      digest.add(x);
    }
  }
  answer("rope", digest);
}

struct FreePage {
  void operator()(std::byte* page) const { ::operator delete[](page, std::align_val_t{64}); }
};
using Page = std::unique_ptr<std::byte[], FreePage>;

Page aligned_bytes(std::size_t bytes) {
  Page page(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
  std::memset(page.get(), 0, bytes);
  return page;
}

void Examiner::kv() {
  constexpr std::uint32_t kPages = 3;
  Digest written;
  Digest attended;
  for (const KvLayout layout :
       {KvLayout{2, 64}, KvLayout{1, 96}, KvLayout{1, 128}, KvLayout{1, 256}}) {
    const std::size_t width = std::size_t{layout.kv_heads} * layout.head_dim;
    std::vector<Page> reference;
    std::vector<const std::byte*> pages;
    for (std::uint32_t p = 0; p < kPages; ++p) {
      const Page tested = aligned_bytes(layout.page_bytes());
      reference.push_back(aligned_bytes(layout.page_bytes()));
      for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
        const std::vector<float> k = inputs_.numbers(width, -6, 2);
        const std::vector<float> v = inputs_.numbers(width, -6, p == 0 ? 1 : 20);
        kScalarKernels.kv_write(layout, reference.back().get(), slot, k.data(), v.data());
        written.add(table_.kv_write(layout, tested.get(), slot, k.data(), v.data()));
      }
      written.add(tested.get(), layout.page_bytes());
      pages.push_back(reference.back().get());
    }
    const std::vector<float> huge = inputs_.numbers(width, 41, 50);
    const Page refused = aligned_bytes(layout.page_bytes());
    written.add(table_.kv_write(layout, refused.get(), 0, huge.data(), huge.data()));
    attend(layout, pages, 0.0F, false, attended);
  }
  answer("kv_write", written);
  answer("attention", attended);
}

void Examiner::attend(KvLayout layout, const std::vector<const std::byte*>& pages, float score_cap,
                      bool sinks, Digest& digest) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kRanges[] = {{0, 1}, {0, 45}, {40, 96}};
  for (const std::uint32_t group : {1U, 4U, 7U}) {
    for (const auto& [begin, end] : kRanges) {
      const std::vector<float> query =
          inputs_.numbers(std::size_t{group} * layout.head_dim, -6, end == 45 ? 6 : 1);
      const std::size_t scratch_bytes = attention_scratch(group, end - begin) * sizeof(float);
      const Page scratch = aligned_bytes(scratch_bytes);
      std::vector<float> out = unwritten<float>(query.size());
      AttentionArgs args;
      args.layout = layout;
      args.kv_head = layout.kv_heads - 1;
      args.group = group;
      args.query = query.data();
      args.pages = pages.data();
      args.begin = begin;
      args.end = end;
      args.score_scale = 0x1p-3F;
      args.score_cap = score_cap;
      args.scratch = reinterpret_cast<float*>(scratch.get());
      args.out = out.data();
      const std::vector<float> logits =
          sinks ? inputs_.numbers(group, -3, 5) : std::vector<float>();
      args.sinks = sinks ? logits.data() : nullptr;
      digest.add(table_.attention(args));
      digest.add(out);
    }
  }
}

void Examiner::residual() {
  Digest rounded;
  Digest expanded;
  for (const int shift : {-6, 0, 6}) {
    std::vector<float> x = inputs_.numbers(kOdd, -30, 9);
    std::vector<std::uint16_t> bits = unwritten<std::uint16_t>(kOdd);
    rounded.add(table_.residual_round(x.data(), bits.data(), kOdd, shift));
    rounded.add(x);
    rounded.add(bits);
    for (std::uint16_t& each : bits) each = inputs_.half();
    x = unwritten<float>(kOdd);
    table_.residual_expand(bits.data(), x.data(), kOdd, shift);
    expanded.add(x);
  }
  std::vector<float> huge(kOdd, 0x1p60F);
  std::vector<std::uint16_t> bits(kOdd);
  rounded.add(table_.residual_round(huge.data(), bits.data(), kOdd, 0));
  answer("residual_round", rounded);
  answer("residual_expand", expanded);
}

// Functions outside of the tables: those that a family needs for its angles.
void Examiner::functions() {
  Digest angles;
  std::vector<double> frequencies;
  for (std::uint32_t i = 0; i < 48; ++i) frequencies.push_back(1.0 / (1.0 + i * i));
  for (const std::uint32_t position : {0U, 1U, 7U, 4'095U, 131'071U, 1'048'575U}) {
    std::vector<float> out = unwritten<float>(frequencies.size() * 2);
    rope_table_row(position, frequencies, 1.0, out.data());
    angles.add(out);
  }
  answer("rope_table_row", angles);
  Digest powers;
  for (const double base : {0x1p-1060, 0.5, 1.0, 10'000.0, 500'000.0, 1e6, 1e12}) {
    for (const double exponent : {-400.0, -1.0, -0.96875, -0.5, -0.015625, 0.0, 0.3125, 1.0}) {
      const double value = pow_canonical(base, exponent);
      powers.add(&value, 1);
    }
  }
  answer("pow_canonical", powers);
  Digest twos;
  for (int i = -520; i <= 520; ++i) {
    const float value = exp2_canonical(static_cast<float>(i) * 0.25F + 0x1p-7F);
    twos.add(&value, 1);
  }
  answer("exp2_canonical", twos);
}

void Examiner::softcap() {
  Digest digest;
  for (const float cap : {0.5F, 30.0F, 50.0F, 65'536.0F}) {
    std::vector<float> x = inputs_.numbers(kOdd, -20, 12);
    table_.softcap(x.data(), kOdd, cap);
    digest.add(x);
  }
  answer("softcap", digest);
}

void Examiner::capped_attention() {
  Digest digest;
  for (const KvLayout layout : {KvLayout{1, 96}, KvLayout{1, 256}}) {
    std::vector<Page> all;
    std::vector<const std::byte*> pages;
    for (std::uint32_t p = 0; p < 3; ++p) {
      all.push_back(aligned_bytes(layout.page_bytes()));
      for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
        const std::vector<float> k = inputs_.numbers(layout.head_dim, -6, 2);
        const std::vector<float> v = inputs_.numbers(layout.head_dim, -6, 4);
        kScalarKernels.kv_write(layout, all.back().get(), slot, k.data(), v.data());
      }
      pages.push_back(all.back().get());
    }
    attend(layout, pages, 50.0F, false, digest);
  }
  answer("attention with a cap", digest);
}

// Functions that gpt-oss needs, with their own inputs.
void Examiner::gpt_oss() {
  const Inputs shared = std::exchange(inputs_, Inputs(20));
  gated("clamped_swiglu_quantize", table_.clamped_swiglu_quantize);
  Digest attended;
  const KvLayout layout{2, 64};
  std::vector<Page> owned;
  std::vector<const std::byte*> pages;
  for (std::uint32_t p = 0; p < 3; ++p) {
    owned.push_back(aligned_bytes(layout.page_bytes()));
    pages.push_back(owned.back().get());
    for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
      const std::vector<float> k = inputs_.numbers(128, -6, 2);
      const std::vector<float> v = inputs_.numbers(128, -6, 1);
      kScalarKernels.kv_write(layout, owned.back().get(), slot, k.data(), v.data());
    }
  }
  attend(layout, pages, 0.0F, true, attended);
  answer("attention with sinks", attended);
  inputs_ = shared;
}

// What gated delta nets need, with inputs of their own.
void Examiner::delta_nets() {
  constexpr std::uint32_t kHead = 96;
  const Inputs shared = std::exchange(inputs_, Inputs(30));
  Digest digest;
  std::vector<float> x = inputs_.numbers(kHead, -20, 12);
  table_.silu(x.data(), kHead);
  digest.add(x);
  answer("silu", digest);
  Digest gated;
  std::vector<float> gate = inputs_.numbers(kHead, -20, 12);
  x = inputs_.numbers(kHead, -9, 9);
  gated.add(table_.multiply_sigmoid(x.data(), gate.data(), kHead));
  gated.add(x);
  gate[kHead - 5] = std::numeric_limits<float>::infinity();
  gated.add(table_.multiply_sigmoid(x.data(), gate.data(), kHead));
  answer("multiply_sigmoid", gated);
  Digest states;
  std::vector<float> state = inputs_.numbers(std::size_t{kHead} * kHead, -6, 1);
  for (int position = 0; position < 3; ++position) {
    const std::vector<float> query = inputs_.numbers(kHead, -9, -2);
    const std::vector<float> key = inputs_.numbers(kHead, -9, -2);
    const std::vector<float> value = inputs_.numbers(kHead, -6, 2);
    std::vector<float> out = unwritten<float>(kHead);
    table_.delta_step(
        kHead, {query.data(), key.data(), value.data(), {0.625F, 0.99F}, state.data(), out.data()});
    states.add(out);
  }
  states.add(state);
  answer("delta_step", states);
  inputs_ = shared;
}

std::string hex(std::uint64_t digest) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i > 0; --i, digest >>= 4) {
    text[i - 1] = "0123456789abcdef"[digest & 15U];
  }
  return text;
}

}  // namespace

std::span<const KnownAnswer> known_answers() { return kAnswers; }

Result<std::vector<Answer>> answers_of(const Kernels& table) { return Examiner(table).run(); }

Status self_test(const Kernels& table) {
  TRY(const std::vector<Answer> answers, answers_of(table));
  const std::span<const KnownAnswer> known = known_answers();
  for (std::size_t i = 0; i < answers.size() && i < known.size(); ++i) {
    if (answers[i].name == known[i].name && answers[i].digest == known[i].digest) continue;
    return Error::of(ErrorCode::kNumeric, "self-test of the ", table.name,
                     " kernels: ", answers[i].name, " gives ", hex(answers[i].digest),
                     ", the known answer is ", hex(known[i].digest),
                     "; this machine computes other numbers than the swarm and must not serve");
  }
  REQUIRE(answers.size() == known.size(), "self-test: ", answers.size(), " answers, ", known.size(),
          " are known");
  return ok_status();
}

Status require_known_answers(const Kernels& table) {
  static std::mutex mutex;
  static std::vector<const Kernels*> passed;
  const std::lock_guard lock(mutex);
  for (const Kernels* each : passed) {
    if (each == &table) return ok_status();
  }
  TRY_VOID(self_test(table));
  passed.push_back(&table);
  return ok_status();
}

}  // namespace hearth::kernels
