// What a worker says of the layers that it holds: which, why, and how they come. On stderr for
// people, or a line of JSON each on stdout. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "cli/terminal/progress.h"
#include "node/holding.h"

namespace hearth::cli {

class HoldReport {
 public:
  explicit HoldReport(bool json) : json_(json) {}

  struct Plan {
    LayerRange layers;
    std::uint32_t model_layers = 0;
    std::string why;
    std::uint64_t bytes = 0;   // on the disk
    std::uint64_t memory = 0;  // that they will take at least, loaded and with KV
    std::uint64_t budget = 0;  // of this machine; 0: a card's, which says so itself
  };
  void plan(const Plan& plan);
  void progress(const node::Holding& holding);
  void done(LayerRange layers, std::uint64_t bytes, std::uint64_t fetched,
            const std::string& in_place);
  void failed(const Error& error);
  // While the coordinator makes its manifest.
  void hashing(std::uint64_t done, std::uint64_t total);

 private:
  void bar(const std::string& message, std::uint64_t done, std::uint64_t total);

  const bool json_;
  SystemClock clock_;
  std::mutex mutex_;
  std::string message_;  // of the bar
  std::optional<ProgressBar> bar_;
  TimePoint said_{};  // the last progress in JSON
  TimePoint since_{};
  std::uint64_t from_ = 0;
};

}  // namespace hearth::cli
