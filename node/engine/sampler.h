// Sampler: the next token from logits, parameters and history, in integers. Normative text:
// kernels/CANONICAL.md, "Sampler".
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "proto/step.h"

namespace hearth::node {

// SamplingParams in fixed point, converted once when the sequence opens.
struct SamplerParams {
  SamplerParams() = default;
  explicit SamplerParams(const SamplingParams& params);

  bool greedy = false;
  bool penalties = false;  // any of the three: the sampler needs the history
  std::uint32_t top_k = 0;
  std::uint64_t seed = 0;
  std::uint64_t exponent_factor = 0;  // log2(e) / temperature, 2^-32 units
  std::uint64_t top_p = 0;            // 2^-32 units, 2^32 = off
  std::uint64_t min_p = 0;            // of the largest weight, 2^-40 units
  std::int64_t repetition = 0;        // these four in 2^-16 units
  std::int64_t presence = 0;
  std::int64_t frequency = 0;
  std::vector<std::pair<TokenId, std::int64_t>> bias;
  std::vector<TokenId> excluded;
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;
};

// TokenHistory: the tokens of a sequence so far, for its penalties.
class TokenHistory {
 public:
  struct Seen {
    bool in_prompt = false;
    std::uint32_t generated = 0;  // times
  };
  void add(TokenId token, bool generated);
  // Drops the generated tokens after the first `count`.
  void keep_generated(std::size_t count);
  const std::unordered_map<TokenId, Seen>& counts() const { return counts_; }
  // The generated tokens after the first `count`, in order.
  std::span<const TokenId> generated_behind(std::size_t count) const;
  // visit(token, times generated) for each token seen, once; `later`, of generated_behind(), does
  // not count.
  template <typename Visit>
  void each_before(std::span<const TokenId> later, const Visit& visit) const {
    std::unordered_map<TokenId, std::uint32_t> ahead;
    for (const TokenId token : later) ++ahead[token];
    for (const auto& [token, seen] : counts_) {
      const auto found = ahead.find(token);
      const std::uint32_t generated = seen.generated - (found == ahead.end() ? 0 : found->second);
      if (generated > 0 || seen.in_prompt) visit(token, generated);
    }
  }

 private:
  std::unordered_map<TokenId, Seen> counts_;
  std::vector<TokenId> generated_;
};

// The input of a draw beside the row's logits.
struct DrawRequest {
  const SamplerParams* params = nullptr;
  const TokenHistory* history = nullptr;
  Position position = 0;                     // of the new token
  std::span<const TokenId> later;            // history after this row, which does not count
  std::span<const std::uint64_t> mask = {};  // a set bit allows a token; empty: all are allowed
};

struct Draw {
  TokenId token = 0;
  float logprob = 0.0F;           // 0 unless asked for
  std::vector<TokenLogprob> top;  // descending
};

// Holds scratch of one vocabulary: one sampler a thread.
class Sampler {
 public:
  explicit Sampler(std::uint32_t vocabulary);

  // `logits`: one a vocabulary entry. `position`: of the new token. `later`: generated tokens of
  // the history after this row, which do not count. `mask`: as in a DrawRequest. kNumeric when a
  // logit is not finite or every token is excluded.
  Result<Draw> sample(std::span<const float> logits, const SamplerParams& params,
                      const TokenHistory& history, Position position,
                      std::span<const TokenId> later = {},
                      std::span<const std::uint64_t> mask = {});
  // The log probability of a given token, and the `top` likeliest tokens. kNumeric when a logit is
  // not finite.
  Result<Draw> score(std::span<const float> logits, TokenId token, std::uint32_t top);

 private:
  struct Cut;
  bool load(std::span<const float> logits);
  void find_best();
  void report(std::uint32_t top, double log_sum, Draw& draw);
  double log_total() const;
  void adjust(const SamplerParams& params, const TokenHistory& history,
              std::span<const TokenId> later);
  void apply(std::span<const std::uint64_t> mask);
  void penalise(const SamplerParams& params, const TokenHistory& history,
                std::span<const TokenId> later);
  bool list_few(std::span<const std::uint64_t> mask);
  TokenId draw_few(const SamplerParams& params, std::uint64_t random);
  TokenId draw_all(const SamplerParams& params, std::uint64_t random);
  TokenId draw_filtered(const SamplerParams& params, std::uint64_t random);
  Cut cut_of(const SamplerParams& params);
  void gather(std::uint64_t bucket, int shift, const SamplerParams& params);

  std::vector<std::int32_t> logits_;  // 2^-16 units
  std::vector<std::uint64_t> keys_;   // (distance from the best << 32) + id, of one bucket
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint64_t> sums_;
  std::vector<TokenId> few_;
  std::int32_t best_ = 0;  // the largest of logits_, and the lowest id that has it
  TokenId best_token_ = 0;
};

// 2^-(x * 2^-20) in 2^-40 units; 0 from 41 on.
std::uint64_t sampler_weight(std::uint64_t x);

// ln(total * 2^-40) for total > 0, in pinned double arithmetic.
double sampler_log(std::uint64_t total);

}  // namespace hearth::node
