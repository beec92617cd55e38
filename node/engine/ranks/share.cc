#include "node/engine/ranks/share.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::node {
namespace {

// The end of the first ranks' share of `size`, where they have `sum` of the speed `all`.
std::uint32_t end_of(std::uint32_t size, std::uint32_t unit, std::uint64_t sum, std::uint64_t all) {
  const std::uint64_t units = (std::uint64_t{size} + unit - 1) / unit;
  const std::uint64_t end = (2 * units * sum + all) / (2 * all);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, end * unit));
}

// `shares` are those of one kind, `size` all that there is of it.
Status check_ranges(std::span<const Share> shares, IndexRange Share::*kind, std::uint32_t size,
                    std::uint32_t unit, const char* name) {
  std::uint32_t end = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const IndexRange& range = shares[rank].*kind;
    REQUIRE(range.begin == end && range.begin <= range.end && range.end <= size, name, " ",
            range.begin, " to ", range.end, " of rank ", rank, ": they must begin at ", end,
            ", where those of the rank before end, and end at ", size, " at most");
    REQUIRE(range.end % unit == 0 || range.end == size, name, " of rank ", rank, " end at ",
            range.end, ": they must end at a multiple of ", unit, " or at ", size);
    end = range.end;
  }
  REQUIRE(end == size, name, " of the last rank end at ", end, ": they must end at ", size);
  return ok_status();
}

Status check_family(const model::ModelSpec& spec) {
  if (spec.family->in_shares && spec.shared_feed_forward == 0) return ok_status();
  std::string known;
  for (const std::string_view name : model::known_families()) {
    if (!model::find_family(name)->in_shares) continue;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return Error::of(ErrorCode::kUnsupported, "family '", spec.family->architecture,
                   "' is not computed by a group of ranks; known are: ", known,
                   "; use stages of one rank");
}

}  // namespace

Result<std::vector<Share>> divide(const model::ModelSpec& spec,
                                  std::span<const std::uint32_t> speeds,
                                  std::uint64_t whole_output) {
  TRY_VOID(check_family(spec));
  REQUIRE(!speeds.empty() && speeds.size() <= limits::kRanks, "ranks are ", speeds.size(),
          "; they must be 1 to ", limits::kRanks);
  const std::uint64_t all = std::accumulate(speeds.begin(), speeds.end(), std::uint64_t{0});
  REQUIRE(all > 0, "the speeds of all ranks are 0: one at least must be above");
  std::vector<Share> shares;
  Share share;
  share.whole_attention_output = std::uint64_t{spec.hidden} * spec.widest_queries() <= whole_output;
  std::uint64_t sum = 0;
  for (const std::uint32_t speed : speeds) {
    sum += speed;
    const auto next = [&](IndexRange& range, std::uint32_t size, std::uint32_t unit) {
      range = {range.end, end_of(size, unit, sum, all)};
    };
    next(share.kv_heads, spec.kv_heads, 1);
    next(share.columns, spec.feed_forward, kShareUnit);
    next(share.hidden, spec.hidden, kShareUnit);
    next(share.vocabulary, spec.vocabulary, kShareUnit);
    shares.push_back(share);
  }
  return shares;
}

Status check_shares(const model::ModelSpec& spec, std::span<const Share> shares) {
  TRY_VOID(check_family(spec));
  REQUIRE(!shares.empty() && shares.size() <= limits::kRanks, "ranks are ", shares.size(),
          "; they must be 1 to ", limits::kRanks);
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    REQUIRE(shares[rank].whole_attention_output == shares[0].whole_attention_output, "attn_output ",
            "is divided on one of rank 0 and rank ", rank, ": it must be whole on all or on none");
  }
  TRY_VOID(check_ranges(shares, &Share::kv_heads, spec.kv_heads, 1, "KV heads"));
  TRY_VOID(check_ranges(shares, &Share::columns, spec.feed_forward, kShareUnit,
                        "columns of the feed-forward"));
  TRY_VOID(check_ranges(shares, &Share::hidden, spec.hidden, kShareUnit, "values of the residual"));
  return check_ranges(shares, &Share::vocabulary, spec.vocabulary, kShareUnit, "tokens");
}

model::ModelSpec narrowed(const model::ModelSpec& spec, const Share& share) {
  INVARIANT(share.kv_heads.end <= spec.kv_heads && share.columns.end <= spec.feed_forward,
            "a checked share lies in its model");
  model::ModelSpec own = spec;
  if (spec.layers == spec.family->narrow_score_layers && spec.score_factor == 0.0F) {
    own.score_factor = 1.0F / std::sqrt(static_cast<float>(spec.hidden / spec.heads));
  }
  own.heads = spec.heads / spec.kv_heads * share.kv_heads.size();
  own.kv_heads = share.kv_heads.size();
  own.feed_forward = share.columns.size();
  return own;
}

}  // namespace hearth::node
