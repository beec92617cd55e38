// Prometheus metrics: vLLM's suffixes, buckets and label model_name under the prefix hearth_, so
// that its boards work after one replacement; but for caches that Hearth does not have, and tokens
// of a step, which only workers count. Shares are there as ratios too. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/proof/ledger_view.h"

namespace hearth::coordinator::http {

// One answer, from its request to its last token.
struct FinishedSequence {
  std::string reason;
  double whole_seconds = 0.0;
  double inference_seconds = 0.0;  // from its admission
  double decode_seconds = 0.0;     // from its first token
  std::uint32_t prompt_tokens = 0;
  std::uint32_t generated_tokens = 0;
  std::uint32_t max_tokens = 0;  // that it might have had
  std::uint32_t choices = 1;     // n of its request
};

class Metrics {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  Metrics(const std::string& version, const std::string& model);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void first_token(double seconds);  // from the arrival of the request
  void next_token(double seconds);   // from the token before
  void queued(double seconds);       // from the submission to the admission
  void prefilled(double seconds);    // from the admission to the first token
  void finished(const FinishedSequence& sequence);
  void answered(unsigned status);  // any HTTP answer

  // Of finished requests, exponentially weighted; 1 before there was one.
  double mean_request_seconds() const;
  // The share of their max_tokens that finished requests had, likewise, those of many tokens for
  // more; 1 before there was one.
  double used_share() const;

  // The text exposition, the swarm's own figures included. `ledger`: where one is kept.
  std::string expose(const SwarmStatus& status, const LedgerView* ledger = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::coordinator::http
