#include "node/engine/card/card_draws.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

cuda::SampleRow sample_row(const SamplerParams& params, std::uint32_t position) {
  cuda::SampleRow row;
  row.seed = params.seed;
  row.exponent_factor = params.greedy ? 0 : params.exponent_factor;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.top_k = params.top_k;
  row.position = position;
  row.repetition = static_cast<std::int32_t>(params.repetition);
  row.presence = static_cast<std::int32_t>(params.presence);
  row.frequency = static_cast<std::int32_t>(params.frequency);
  row.penalties = params.penalties;
  return row;
}

void CardDraws::begin(const DrawArrays& host, std::uint32_t vocabulary) {
  *this = {};
  host_ = host;
  vocabulary_ = vocabulary;
}

bool CardDraws::add(const DrawRequest& request) {
  const SamplerParams& params = *request.params;
  const auto& counts = request.history->counts();
  if (params.bias.size() > DrawArrays::kBiasMost - bias_ ||
      params.excluded.size() > DrawArrays::kBiasMost - excluded_ ||
      (params.penalties && counts.size() > DrawArrays::kSeenMost - seen_)) {
    return false;
  }
  cuda::SampleRow row = sample_row(params, request.position);
  const auto known = [&](TokenId token) {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocabulary_;
  };
  row.bias_begin = bias_;
  for (const auto& [token, value] : params.bias) {
    if (!known(token)) continue;
    host_.bias[bias_++] = {static_cast<std::uint32_t>(token), static_cast<std::int32_t>(value)};
  }
  row.bias_end = bias_;
  row.excluded_begin = excluded_;
  for (const TokenId token : params.excluded) {
    if (known(token)) host_.excluded[excluded_++] = static_cast<std::uint32_t>(token);
  }
  row.excluded_end = excluded_;
  row.seen_begin = seen_;
  if (params.penalties) {
    request.history->each_before(request.later, [&](TokenId token, std::uint32_t generated) {
      host_.seen[seen_++] = {static_cast<std::uint32_t>(token), generated};
    });
  }
  row.seen_end = seen_;
  host_.rows[rows_++] = row;
  return true;
}

Status CardDraws::send(const DrawArrays& card, cuda::Stream stream) const {
  const auto copy = [&]<typename T>(T* to, const T* from, std::uint32_t count) {
    return count == 0 ? ok_status() : cuda::copy_to_device(to, from, count * sizeof(T), stream);
  };
  TRY_VOID(copy(card.rows, host_.rows, rows_));
  TRY_VOID(copy(card.bias, host_.bias, bias_));
  TRY_VOID(copy(card.excluded, host_.excluded, excluded_));
  return copy(card.seen, host_.seen, seen_);
}

}  // namespace hearth::node
