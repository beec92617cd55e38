#include "node/engine/ranks/rank_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/elementary.h"

namespace hearth::node {
namespace {

using kernels::kBlock;
using kernels::QuantizedRows;

constexpr std::int16_t kFailedExponent = 0x7FFF;    // in place of a row's exponent
constexpr std::uint16_t kFailedHalf = 0x7FFF;       // a NaN: in place of a row's residuals
constexpr std::uint32_t kFailedFloat = 0x7FFFFFFF;  // a NaN: in place of a row's values
constexpr int kExponentMax = 128;
constexpr float kScaleMax = 0x1p24F;  // 2^GRID / 127 is below

// Bytes of `rows` quantised rows of `width` columns: an exponent, scales, values.
std::size_t quantised_size(std::size_t rows, std::size_t width) {
  return width == 0 ? 0 : rows * (sizeof(std::int16_t) + width / kBlock * sizeof(float) + width);
}

RankRows::Ranges ranges_of(const RankGroup& group, IndexRange Share::*kind, std::uint32_t each) {
  RankRows::Ranges ranges;
  for (const Share& share : group.shares) {
    ranges.push_back({(share.*kind).begin * each, (share.*kind).end * each});
  }
  return ranges;
}

RankRows::Ranges queries_of(const model::ModelSpec& spec, const RankGroup& group) {
  return ranges_of(group, &Share::kv_heads, spec.heads / spec.kv_heads * spec.head_dim);
}

// The most that this rank sends in one exchange, and receives.
struct Room {
  std::size_t out = 0;
  std::size_t in = 0;
};

Room room_of(const model::ModelSpec& spec, const RankGroup& group, std::size_t rows,
             std::size_t logit_rows) {
  Room room;
  const auto take = [&](const RankRows::Ranges& ranges, auto size_of, bool to_all) {
    std::size_t in = 0;
    for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
      const std::size_t size = size_of(std::size_t{ranges[rank].size()});
      if (rank == group.rank) {
        room.out = std::max(room.out, size);
      } else if (to_all || group.rank == 0) {
        in += size;
      }
    }
    room.in = std::max(room.in, in);
  };
  const std::size_t pairs = rows * std::max(1U, spec.experts_used);
  const auto floats = [](std::size_t n) {
    return [n](std::size_t width) { return n * width * sizeof(float); };
  };
  const auto quantised = [](std::size_t n) {
    return [n](std::size_t width) { return quantised_size(n, width); };
  };
  take(queries_of(spec, group), quantised(rows), true);
  take(ranges_of(group, &Share::columns, 1), quantised(pairs), true);
  take(ranges_of(group, &Share::hidden, 1), floats(rows), true);
  take(ranges_of(group, &Share::vocabulary, 1), floats(logit_rows), false);
  // Embeddings: every row of the step may be one rank's.
  const std::size_t embedded = rows * spec.hidden * sizeof(std::uint16_t);
  return {std::max(room.out, embedded), std::max(room.in, embedded)};
}

bool are_finite(std::span<const std::uint16_t> bits) {
  bool finite = true;
  for (const std::uint16_t half : bits) finite = finite & kernels::half_is_finite(half);
  return finite;
}

void clear(const QuantizedRows& rows, std::uint32_t row) {
  const std::size_t blocks = rows.cols / kBlock;
  std::memset(rows.values + std::size_t{row} * rows.cols, 0, rows.cols);
  std::memset(rows.scales + row * blocks, 0, blocks * sizeof(float));
  std::memset(rows.sums + row * blocks, 0, blocks * sizeof(float));
  std::memset(rows.block_sums + row * blocks, 0, blocks * sizeof(std::int32_t));
  rows.exponents[row] = kernels::kExponentMin;
}

// The part of a rank as it lies in the exchange's bytes.
struct QuantizedPart {
  QuantizedPart(std::byte* data, std::size_t rows, std::size_t width)
      : width(width),
        exponents(data),
        scales(data + rows * sizeof(std::int16_t)),
        values(scales + rows * (width / kBlock) * sizeof(float)) {}
  std::byte* scales_of(std::size_t row) const {
    return scales + row * (width / kBlock) * sizeof(float);
  }
  std::byte* values_of(std::size_t row) const { return values + row * width; }
  const std::size_t width;
  std::byte* const exponents;
  std::byte* const scales;
  std::byte* const values;
};

// Reads the part without a change of it.
QuantizedPart part_of(ByteSpan bytes, std::size_t rows, std::size_t width) {
  return {const_cast<std::byte*>(bytes.data()), rows, width};
}

// A rank's blocks of a row as those of the whole row, whose grid is 2^-`shift` of the part's. False
// where no rank makes such blocks.
bool place_blocks(const QuantizedPart& part, std::size_t row, int shift, std::size_t first,
                  const QuantizedRows& whole) {
  // Beyond 126 the scale is below 2^-102, whose products round to 0 whatever it is.
  const float factor = kernels::power_of_two(-std::min(shift, 126));
  const std::size_t blocks = part.width / kBlock;
  const std::size_t at = row * (whole.cols / kBlock) + first / kBlock;
  std::int8_t* values = whole.values + at * kBlock;
  std::memcpy(values, part.values_of(row), part.width);
  std::memcpy(whole.scales + at, part.scales_of(row), blocks * sizeof(float));
  bool good = true;
  for (std::size_t b = 0; b < blocks; ++b, values += kBlock) {
    float& scale = whole.scales[at + b];
    good = good && scale >= 0.0F && scale <= kScaleMax;  // false for a NaN
    std::int32_t sum = 0;
    std::int8_t least = 0;
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      sum += values[k];
      least = std::min(least, values[k]);
    }
    good = good && least >= -kernels::kQuantMax;
    scale *= factor;
    whole.block_sums[at + b] = sum;
    whole.sums[at + b] = scale * static_cast<float>(sum);
  }
  return good;
}

}  // namespace

RankRows::RankRows(const model::ModelSpec& spec, const RankGroup& group, std::uint32_t rows,
                   std::uint32_t logit_rows)
    : group_(group),
      hidden_(spec.hidden),
      vocabulary_(spec.vocabulary),
      queries_(queries_of(spec, group)),
      columns_(ranges_of(group, &Share::columns, 1)),
      parts_(group.shares.size()) {
  INVARIANT(group.rank < group.shares.size() && group.exchange != nullptr,
            "a rank is one of its group");
  const Room room = room_of(spec, group, rows, logit_rows);
  out_.reserve(room.out);
  in_.reserve(room.in);
}

std::uint64_t RankRows::bytes_of(const model::ModelSpec& spec, const RankGroup& group,
                                 std::uint32_t rows, std::uint32_t logit_rows) {
  const Room room = room_of(spec, group, rows, logit_rows);
  return room.out + room.in;
}

std::uint32_t RankRows::owner_of(std::uint32_t token) const {
  const auto owner = std::ranges::find_if(
      group_.shares, [&](const Share& share) { return share.vocabulary.holds(token); });
  INVARIANT(owner != group_.shares.end(), "each token of a checked batch is in one share");
  return static_cast<std::uint32_t>(owner - group_.shares.begin());
}

Error RankRows::false_rank(std::uint32_t rank) {
  return *(lost_ = group_.exchange->blame(
               rank,
               "sent rows that no rank makes: its program or its memory is at fault; take it out "
               "of the group"));
}

Status RankRows::swap(const std::vector<std::size_t>& sizes, bool to_all) {
  if (lost_) return *lost_;
  const std::uint32_t own = group_.rank;
  const auto sends = [&](std::uint32_t from, std::uint32_t to) {
    return from != to && (to_all || to == 0);
  };
  std::size_t all = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) all += sends(rank, own) ? sizes[rank] : 0;
  INVARIANT(out_.size() == sizes[own] && all <= in_.capacity(), "an exchange has its bounds");
  in_.resize(all);
  std::vector<ByteSpan> out(ranks());
  std::vector<MutableByteSpan> in(ranks());
  std::size_t at = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (sends(own, rank)) out[rank] = out_;
    if (sends(rank, own)) in[rank] = MutableByteSpan(in_).subspan(at, sizes[rank]);
    at += in[rank].size();
    parts_[rank] = rank == own ? ByteSpan(out_) : in[rank];
  }
  if (ranks() == 1) return ok_status();
  Status done = group_.exchange->swap(out, in);
  if (!done.ok()) lost_ = done.error();
  return done;
}

Status RankRows::join(const Ranges& ranges, const QuantizedRows& own, const QuantizedRows& whole,
                      const Failures& failures) {
  INVARIANT(whole.cols == width_of(ranges), "the whole row has the columns of all ranks");
  const std::uint32_t rows = whole.rows;
  std::vector<std::size_t> sizes;
  for (const IndexRange& range : ranges) sizes.push_back(quantised_size(rows, range.size()));
  const std::uint32_t width = ranges[group_.rank].size();
  out_.resize(sizes[group_.rank]);
  if (width != 0) {
    INVARIANT(own.rows == rows && own.cols == width, "a rank has its columns of each row");
    const QuantizedPart part(out_.data(), rows, width);
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto exponent = static_cast<std::int16_t>(own.exponents[row]);
      const std::int16_t said = failures.has(row) ? kFailedExponent : exponent;
      std::memcpy(part.exponents + row * sizeof said, &said, sizeof said);
    }
    const std::size_t blocks = std::size_t{rows} * (width / kBlock);
    std::memcpy(part.scales, own.scales, blocks * sizeof(float));
    std::memcpy(part.values, own.values, blocks * kBlock);
  }
  TRY_VOID(swap(sizes, true));
  for (std::uint32_t row = 0; row < rows; ++row) {
    TRY_VOID(join_row(ranges, rows, row, whole, failures));
  }
  return ok_status();
}

Status RankRows::join_row(const Ranges& ranges, std::uint32_t rows, std::uint32_t row,
                          const QuantizedRows& whole, const Failures& failures) {
  const auto exponent_of = [&](std::uint32_t rank) {
    std::int16_t exponent = 0;
    std::memcpy(&exponent, parts_[rank].data() + row * sizeof exponent, sizeof exponent);
    return exponent;
  };
  int exponent = kernels::kExponentMin;
  bool failed = failures.has(row);
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (ranges[rank].size() == 0) continue;
    const int own = exponent_of(rank);
    failed = failed || own == kFailedExponent;
    const bool good = own >= kernels::kExponentMin && own <= kExponentMax;
    if (!good && own != kFailedExponent) return false_rank(rank);
    if (good) exponent = std::max(exponent, own);
  }
  if (failed) {
    clear(whole, row);
    failures.add(row);
    return ok_status();
  }
  whole.exponents[row] = exponent;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (ranges[rank].size() == 0) continue;
    const int shift = exponent - exponent_of(rank);
    const QuantizedPart part = part_of(parts_[rank], rows, ranges[rank].size());
    if (!place_blocks(part, row, shift, ranges[rank].begin, whole)) {
      return false_rank(rank);
    }
  }
  return ok_status();
}

Status RankRows::join_values(std::uint32_t rows, const float* own, float* whole,
                             const Failures& failures) {
  std::vector<std::size_t> sizes;
  for (const Share& share : group_.shares) {
    sizes.push_back(std::size_t{rows} * share.hidden.size() * sizeof(float));
  }
  out_.resize(sizes[group_.rank]);
  if (!out_.empty()) std::memcpy(out_.data(), own, out_.size());
  const std::size_t row_bytes = this->own().hidden.size() * sizeof(float);
  for (std::uint32_t row = 0; row < rows && row_bytes != 0; ++row) {
    if (!failures.has(row)) continue;
    std::memcpy(out_.data() + row * row_bytes, &kFailedFloat, sizeof kFailedFloat);
  }
  TRY_VOID(swap(sizes, true));
  for (std::uint32_t row = 0; row < rows; ++row) {
    bool failed = failures.has(row);
    float* to = whole + std::size_t{row} * hidden_;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const IndexRange& range = group_.shares[rank].hidden;
      if (range.size() == 0) continue;
      const std::byte* from = parts_[rank].data() + std::size_t{row} * range.size() * sizeof(float);
      std::uint32_t first = 0;
      std::memcpy(&first, from, sizeof first);
      failed = failed || first == kFailedFloat;
      std::memcpy(to + range.begin, from, range.size() * sizeof(float));
    }
    if (!failed) continue;
    std::fill_n(to, hidden_, 0.0F);
    failures.add(row);
  }
  return ok_status();
}

Status RankRows::join_residuals(std::uint32_t rows, std::uint16_t* bits, const Failures& failures) {
  constexpr std::size_t kBytes = sizeof(std::uint16_t);
  std::vector<std::size_t> sizes;
  for (const Share& share : group_.shares) {
    sizes.push_back(std::size_t{rows} * share.hidden.size() * kBytes);
  }
  const IndexRange range = own().hidden;
  out_.resize(sizes[group_.rank]);
  for (std::uint32_t row = 0; row < rows && range.size() != 0; ++row) {
    std::byte* to = out_.data() + std::size_t{row} * range.size() * kBytes;
    std::memcpy(to, bits + std::size_t{row} * hidden_ + range.begin, range.size() * kBytes);
    if (failures.has(row)) std::memcpy(to, &kFailedHalf, kBytes);
  }
  TRY_VOID(swap(sizes, true));
  for (std::uint32_t row = 0; row < rows; ++row) {
    bool failed = failures.has(row);
    std::uint16_t* to = bits + std::size_t{row} * hidden_;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const IndexRange& from = group_.shares[rank].hidden;
      if (from.size() == 0) continue;
      std::memcpy(to + from.begin, parts_[rank].data() + std::size_t{row} * from.size() * kBytes,
                  from.size() * kBytes);
    }
    failed = failed || !are_finite({to, hidden_});
    if (!failed) continue;
    std::fill_n(to, hidden_, std::uint16_t{0});
    failures.add(row);
  }
  return ok_status();
}

Status RankRows::join_embeddings(std::span<const std::uint32_t> tokens, std::uint16_t* bits,
                                 const Failures& failures) {
  const std::size_t row_bytes = hidden_ * sizeof(std::uint16_t);
  std::vector<std::size_t> sizes(ranks());
  std::vector<std::uint32_t> owners;
  for (const std::uint32_t token : tokens) sizes[owners.emplace_back(owner_of(token))] += row_bytes;
  out_.resize(sizes[group_.rank]);
  std::size_t at = 0;
  for (std::uint32_t row = 0; row < owners.size(); ++row) {
    if (owners[row] != group_.rank) continue;
    std::memcpy(out_.data() + at, bits + std::size_t{row} * hidden_, row_bytes);
    if (failures.has(row)) std::memcpy(out_.data() + at, &kFailedHalf, sizeof kFailedHalf);
    at += row_bytes;
  }
  TRY_VOID(swap(sizes, true));
  std::vector<std::size_t> next(ranks());
  for (std::uint32_t row = 0; row < owners.size(); ++row) {
    std::uint16_t* to = bits + std::size_t{row} * hidden_;
    std::memcpy(to, parts_[owners[row]].data() + next[owners[row]], row_bytes);
    next[owners[row]] += row_bytes;
    if (are_finite({to, hidden_})) continue;
    std::fill_n(to, hidden_, std::uint16_t{0});
    failures.add(row);
  }
  return ok_status();
}

Status RankRows::gather_logits(std::uint32_t rows, const float* own, float* whole) {
  std::vector<std::size_t> sizes;
  for (const Share& share : group_.shares) {
    sizes.push_back(std::size_t{rows} * share.vocabulary.size() * sizeof(float));
  }
  out_.resize(sizes[group_.rank]);
  if (!out_.empty()) std::memcpy(out_.data(), own, out_.size());
  TRY_VOID(swap(sizes, false));
  if (!leads()) return ok_status();
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    const IndexRange& range = group_.shares[rank].vocabulary;
    const std::size_t bytes = range.size() * sizeof(float);
    for (std::size_t row = 0; row < rows && bytes != 0; ++row) {
      std::memcpy(whole + row * vocabulary_ + range.begin, parts_[rank].data() + row * bytes,
                  bytes);
    }
  }
  return ok_status();
}

}  // namespace hearth::node
