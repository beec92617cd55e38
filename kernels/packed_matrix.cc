#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "kernels/elementary.h"
#include "kernels/file_block.h"
#include "kernels/kernels.h"
#include "kernels/matrix_view.h"
#include "kernels/pack_group.h"
#include "kernels/tables.h"
#include "kernels/weight_rows.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hearth::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 4 * kHugePage;

// Bytes r and 16 + r of a block's integer scales (layout in matrix_view.h).
void place_scales(const WeightLayout& layout, const FileBlock& block, std::byte* out) {
  if (layout.form == BlockForm::kTwoScales) {
    for (int half = 0; half < 2; ++half) {
      const int minimum = layout.minimum ? block.integers.minimums[half] << 4 : 0;
      out[half * kRowGroup] = static_cast<std::byte>(block.integers.scales[half] | minimum);
    }
    return;
  }
  out[0] = std::byte{block.integers.scales[0]};
  if (layout.minimum) out[kRowGroup] = std::byte{block.integers.minimums[0]};
}

void put_word(std::byte* at, std::uint32_t four) { std::memcpy(at, &four, 4); }

// A row's quants by planes; `out` is at the row's first byte of the block's quants.
void place_quants(std::uint8_t bits, const FileBlock& block, std::byte* out) {
  if (bits == 8) {
    for (int g = 0; g < 8; ++g) put_word(out + g * 64, block.quads[g]);
    return;
  }
  std::uint32_t shift = 0;
  if (bits >= 4) {
    for (int g = 0; g < 4; ++g, out += 64) {
      put_word(out, (block.quads[g] & 0x0F0F0F0FU) | (block.quads[g + 4] & 0x0F0F0F0FU) << 4);
    }
    shift = 4;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    for (int half = 0; half < 2; ++half, out += 64) {
      std::uint32_t pairs = 0;
      for (int g = 0; g < 4; ++g) {
        pairs |= ((block.quads[half * 4 + g] >> shift) & 0x03030303U) << (2 * g);
      }
      put_word(out, pairs);
    }
    shift += 2;
  }
  if (bits == 3 || bits == 5) {
    std::uint32_t singles = 0;
    for (int g = 0; g < 8; ++g) singles |= ((block.quads[g] >> shift) & 0x01010101U) << g;
    put_word(out, singles);
  }
}

// One super-block of a quantised row into its packed place.
void place_super_block(WeightType type, const WeightLayout& layout, const std::byte* file,
                       std::uint32_t row, std::byte* packed, RowMagnitude& magnitude) {
  const std::byte* scales = file + layout.d_offset;
  const std::size_t width = layout.scale_bytes();
  if (layout.power) {
    packed[row] = *scales;
  } else {
    const std::uint16_t d = read_d(type, scales);
    std::memcpy(packed + row * width, &d, width);
  }
  if (layout.minimum) std::memcpy(packed + (kRowGroup + row) * width, scales + width, width);
  std::byte* out = packed + layout.header_bytes();
  for (std::uint32_t b = 0; b < layout.blocks; ++b, out += layout.block_bytes()) {
    const FileBlock block = read_file_block(type, file, b);
    magnitude.add(block);
    if (layout.integer_bytes != 0) place_scales(layout, block, out + row);
    place_quants(layout.bits, block, out + kRowGroup * layout.integer_bytes + row * 4);
  }
}

// 32 floating weights of a row.
void place_floats(std::size_t width, const std::byte* file, std::uint32_t row, std::byte* packed) {
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    std::memcpy(packed + (k * kRowGroup + row) * width, file + k * width, width);
  }
}

// Rows of zero weight fill the last group.
void fill_padding(const WeightLayout& layout, std::byte* group, std::size_t group_bytes) {
  std::memset(group, 0, group_bytes);
  if (layout.zero == 0) return;
  FileBlock block{};
  for (std::uint32_t& quad : block.quads) quad = layout.zero * 0x01010101U;
  for (std::size_t at = 0; at < group_bytes; at += layout.super_bytes()) {
    for (std::uint32_t i = 0; i < layout.blocks * kRowGroup; ++i) {
      std::byte* quants = group + at + layout.header_bytes() +
                          i / kRowGroup * layout.block_bytes() + kRowGroup * layout.integer_bytes;
      place_quants(layout.bits, block, quants + i % kRowGroup * 4);
    }
  }
}

}  // namespace

void PackedMatrix::Free::operator()(std::byte* data) const {
  if (owns) std::free(data);
}

PackedMatrix PackedMatrix::part(std::uint32_t begin, std::uint32_t end) const {
  INVARIANT(begin < end && end <= rows_ && begin % kRowGroup == 0 && end % kRowGroup == 0,
            "a part of a matrix is whole row groups of it");
  PackedMatrix part;
  part.type_ = type_;
  part.rows_ = end - begin;
  part.cols_ = cols_;
  part.bytes_ = part.group_bytes() * part.groups();
  part.data_ = {data_.get() + begin / kRowGroup * group_bytes(), Free(false)};
  part.exponents_ = exponents_ + begin;
  return part;
}

std::uint32_t PackedMatrix::file_block_columns(WeightType type) {
  return layout_of(type).columns();
}

std::size_t PackedMatrix::file_block_bytes(WeightType type) { return layout_of(type).file_bytes; }

Status PackedMatrix::place_row(std::uint32_t row, const std::byte* file) {
  INVARIANT(row < rows_, "a packed row is in the matrix");
  const WeightLayout layout = layout_of(type_);
  const std::uint32_t in_group = row % kRowGroup;
  std::byte* packed = data_.get() + row / kRowGroup * group_bytes();
  RowMagnitude magnitude(type_);
  for (std::uint32_t b = 0; b < cols_ / layout.columns(); ++b) {
    if (!magnitude.add(file)) return refused_weight(type_, row, b);
    if (layout.form == BlockForm::kFloat) {
      place_floats(layout.file_bytes / kBlock, file, in_group, packed);
    } else {
      place_super_block(type_, layout, file, in_group, packed, magnitude);
    }
    file += layout.file_bytes;
    packed += layout.super_bytes();
  }
  row_exponents_[row] = magnitude.exponent(cols_);
  return ok_status();
}

Result<PackedMatrix> PackedMatrix::allocate(WeightType type, std::uint32_t rows,
                                            std::uint32_t cols) {
  TRY_VOID(check_weight_shape(type, rows, cols));
  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.rows_ = rows;
  matrix.cols_ = cols;
  matrix.bytes_ = matrix.group_bytes() * matrix.groups();
  const std::size_t alignment = matrix.bytes_ >= kLarge ? kHugePage : kAlignment;
  const std::size_t rounded = (matrix.bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, rounded) != 0) {
    return Error::of(ErrorCode::kNoCapacity, "no memory for a weight matrix of ", rounded,
                     " bytes");
  }
  matrix.data_.reset(static_cast<std::byte*>(data));
#if defined(__linux__)
  // Huge pages mean fewer page faults while packing and fewer TLB misses in every product. The
  // kernel may ignore the advice.
  if (alignment == kHugePage) ::madvise(data, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  matrix.row_exponents_.assign(std::size_t{matrix.groups()} * kRowGroup, kWeightExponentMin);
  matrix.exponents_ = matrix.row_exponents_.data();
  return matrix;
}

std::size_t PackedMatrix::file_row_bytes() const {
  const WeightLayout layout = layout_of(type_);
  return std::size_t{cols_} / layout.columns() * layout.file_bytes;
}

Status PackedMatrix::pack_groups(std::uint32_t begin, std::uint32_t end, ByteSpan blocks) {
  REQUIRE(begin <= end && end <= groups(), "row groups ", begin, " to ", end,
          " are not in a matrix of ", groups());
  const std::size_t row_bytes = file_row_bytes();
  TRY_VOID(check_weight_bytes(type_, rows_, cols_, blocks.size()));
  for (std::uint32_t group = begin; group < end; ++group) {
    const std::uint32_t first = group * kRowGroup;
    const std::byte* file = blocks.data() + first * row_bytes;
    if (rows_ - first >= kRowGroup && place_group(group, file, row_bytes)) continue;
    if (rows_ - first < kRowGroup) {
      fill_padding(layout_of(type_), data_.get() + group * group_bytes(), group_bytes());
    }
    for (std::uint32_t row = first; row < std::min(rows_, first + kRowGroup); ++row) {
      TRY_VOID(place_row(row, file + (row - first) * row_bytes));
    }
  }
  return ok_status();
}

// False if the rows must be placed one by one: without AVX2, or to find the row that is refused.
bool PackedMatrix::place_group([[maybe_unused]] std::uint32_t group,
                               [[maybe_unused]] const std::byte* file,
                               [[maybe_unused]] std::size_t row_bytes) {
#if defined(__x86_64__)
  static const bool fast = runs_avx2();
  RowBound bounds[kRowGroup];
  std::byte* packed = data_.get() + group * group_bytes();
  if (!fast || !avx2_pack_group(type_, cols_, file, row_bytes, packed, bounds)) return false;
  const WeightLayout layout = layout_of(type_);
  const bool floats = layout.form == BlockForm::kFloat;
  for (std::uint32_t row = 0; row < kRowGroup; ++row) {
    row_exponents_[group * kRowGroup + row] = floats
                                                  ? floating_exponent(bounds[row].largest, cols_)
                                                  : quantised_exponent(layout, bounds[row].units);
  }
  return true;
#else
  return false;
#endif
}

Result<PackedMatrix> PackedMatrix::pack(WeightType type, std::uint32_t rows, std::uint32_t cols,
                                        ByteSpan blocks) {
  TRY_VOID(check_weight_shape(type, rows, cols));
  TRY_VOID(check_weight_bytes(type, rows, cols, blocks.size()));
  TRY(PackedMatrix matrix, allocate(type, rows, cols));
  TRY_VOID(matrix.pack_groups(0, matrix.groups(), blocks));
  return matrix;
}

std::size_t PackedMatrix::bytes_of(WeightType type, std::uint32_t rows, std::uint32_t cols) {
  const WeightLayout layout = layout_of(type);
  const std::size_t groups = (std::size_t{rows} + kRowGroup - 1) / kRowGroup;
  return groups * (cols / layout.columns() * layout.super_bytes());
}

std::size_t PackedMatrix::group_bytes() const {
  const WeightLayout layout = layout_of(type_);
  return cols_ / layout.columns() * layout.super_bytes();
}

const std::byte* PackedMatrix::group(std::uint32_t index) const {
  INVARIANT(index == 0 || index < groups(), "the row group is in the matrix");
  return data_.get() + index * group_bytes();
}

MatrixView view_of(const PackedMatrix& matrix) {
  return {matrix.type(),        matrix.rows(),   matrix.groups(),       matrix.cols() / kBlock,
          matrix.group_bytes(), matrix.group(0), matrix.row_exponents()};
}

PageOffsets page_offsets(std::uint32_t head_dim) {
  PageOffsets offsets{};
  offsets.key_scales = std::size_t{kPageTokens} * head_dim;
  offsets.values = offsets.key_scales + std::size_t{kPageTokens} * (head_dim / kBlock) * 4;
  offsets.value_scales = offsets.values + std::size_t{kPageTokens} * head_dim;
  offsets.head_bytes = offsets.value_scales + std::size_t{kPageTokens} * 4;
  return offsets;
}

std::size_t KvLayout::head_bytes() const {
  if (latent == 0) return page_offsets(head_dim).head_bytes;
  return kPageTokens * (head_dim + head_dim / kBlock * sizeof(float));
}

// A float for every head and every position of the pages touched.
std::size_t attention_scratch(std::uint32_t group, std::uint32_t positions) {
  const std::size_t padded =
      (std::size_t{positions} + 2 * kPageTokens - 1) / kPageTokens * kPageTokens;
  return group * padded;
}

}  // namespace hearth::kernels
