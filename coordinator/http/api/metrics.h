// Prometheus metrics with vLLM's suffixes, buckets and label model_name under the prefix hearth_,
// so that its dashboards work after one replacement. Missing are metrics of caches that Hearth does
// not have, and tokens of a step, which only workers count. Percentages exist as ratios, too.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/proof/ledger_view.h"

namespace hearth::coordinator::http {

// The times and sizes of one finished sequence.
struct FinishedSequence {
  std::string reason;
  double whole_seconds = 0.0;
  double inference_seconds = 0.0;  // from its admission
  double decode_seconds = 0.0;     // from its first token
  std::uint32_t prompt_tokens = 0;
  std::uint32_t generated_tokens = 0;
  std::uint32_t max_tokens = 0;  // the allowed length
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

  // Exponentially weighted mean over finished requests; 1 before the first.
  double mean_request_seconds() const;
  // The share of max_tokens that finished requests used, weighted by length and time; 1 before the
  // first.
  double used_share() const;

  // The text exposition, with the figures of the swarm. `ledger`: null, the server keeps none.
  std::string expose(const SwarmStatus& status, const LedgerView* ledger = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::coordinator::http
