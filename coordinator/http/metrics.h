// Prometheus metrics: vLLM's suffixes and buckets under the prefix hearth_, so that its boards work
// after one replacement. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"

namespace hearth::coordinator::http {

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
  void decoded(double seconds);      // from the first token to the last
  void finished(double seconds, const std::string& reason);  // the whole request
  void answered(unsigned status);                            // any HTTP answer

  // Of finished requests, exponentially weighted; 1 before there was one.
  double mean_request_seconds() const;

  // The text exposition, the swarm's own figures included.
  std::string expose(const SwarmStatus& status) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::coordinator::http
