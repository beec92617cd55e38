// Canaries: requests that the coordinator makes itself, so that newcomers have something to check
// that no client sent (ledger/PROTOCOL.md, 4). They look like requests of clients to the pipeline
// that serves them: as long, sampled alike, and of text that the model itself wrote in answer to
// earlier ones. Of clients' requests nothing is kept but how long they are and how they are
// sampled.
//
// A share of what clients send (canary_rate of the policy), drawn at random; and where those who
// check have nothing to do and no client waits for an answer, one now and then.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

class Canaries {
 public:
  static constexpr std::size_t kShapes = 256;        // of the latest requests of clients
  static constexpr std::size_t kTextTokens = 8'192;  // of the model's own
  static constexpr std::uint32_t kDueMost = 8;
  // Between two that are made for idle checkers: some hundred a day, and no rhythm to know one by.
  static constexpr Duration kIdleLeast = std::chrono::minutes(2);
  static constexpr Duration kIdleMost = std::chrono::minutes(8);

  // `random`: outlives it. `rate`: in parts of a million.
  Canaries(CanaryWords words, StepShape shape, std::int64_t rate, Random& random)
      : words_(std::move(words)), shape_(shape), rate_(rate), random_(random) {}

  // A client's request runs; `checked`: there is somebody to check what is made for it.
  void saw(const GenerateRequest& request, bool checked);
  // What the model answered to one of these.
  void heard(const std::vector<TokenId>& answer);
  // Whether one is to be made now, which is then reckoned as made. `idle`: who checks has nothing
  // to do, and no client waits for an answer.
  bool due(TimePoint now, bool idle);
  // Without a name for receipts.
  GenerateRequest make();

 private:
  struct Shape {
    std::uint32_t prompt_tokens = 0;
    SamplingParams sampling;  // without tokens of its owner's, and without its seed
  };
  std::uint64_t below(std::uint64_t bound) { return random_.next() % bound; }
  std::vector<TokenId> text(std::size_t tokens);

  const CanaryWords words_;
  const StepShape shape_;
  const std::int64_t rate_;
  Random& random_;
  std::vector<Shape> shapes_;
  std::size_t next_shape_ = 0;  // that is overwritten when there are kShapes
  std::vector<TokenId> text_;
  std::size_t next_token_ = 0;  // likewise
  std::uint32_t due_ = 0;
  TimePoint next_idle_{};
};

}  // namespace hearth::coordinator
