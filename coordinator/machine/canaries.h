// Canaries: the coordinator's own requests, so that newcomers can check work that discloses no
// client's prompt (ledger/PROTOCOL.md, 4). To the serving pipeline they look like clients'
// requests: similar lengths and sampling, and text that the model wrote for earlier canaries. Only
// lengths and sampling parameters of clients' requests are kept.
//
// One is made for a random share of clients' requests (canary_rate of the policy). When checking
// nodes are idle and no client waits, another is made every few minutes.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "coordinator/coordinator.h"
#include "ledger/policy.h"

namespace hearth::coordinator {

class Canaries {
 public:
  static constexpr std::size_t kShapes = 256;        // of the latest requests of clients
  static constexpr std::size_t kTextTokens = 8'192;  // of the model's own
  static constexpr std::uint32_t kDueMost = 8;
  // Pause between two for idle checkers: some hundred a day, at random so that they cannot be
  // recognised.
  static constexpr Duration kIdleLeast = std::chrono::minutes(2);
  static constexpr Duration kIdleMost = std::chrono::minutes(8);

  // `random`: outlives it. `rate`: in parts of a million.
  Canaries(CanaryWords words, StepShape shape, std::int64_t rate, Random& random)
      : words_(std::move(words)), shape_(shape), rate_(rate), random_(random) {}

  // A client's request runs. `checked`: nodes can check a canary made for it.
  void saw(const GenerateRequest& request, bool checked) {
    Shape shape;
    shape.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    shape.sampling = request.sampling;
    // Values that depend on its content are dropped.
    shape.sampling.seed = 0;
    shape.sampling.logit_bias.clear();
    shape.sampling.stop_tokens.clear();
    shape.sampling.grammar.clear();
    keep(shapes_, kShapes, next_shape_, std::move(shape));
    if (!checked || due_ >= kDueMost) return;
    if (below(ledger::kMillion) < static_cast<std::uint64_t>(rate_)) ++due_;
  }

  // Takes the model's answer to a canary.
  void heard(const std::vector<TokenId>& answer) {
    for (const TokenId token : answer) {
      if (std::ranges::count(words_.end_tokens, token) > 0) continue;
      keep(text_, kTextTokens, next_token_, token);
    }
  }

  // Whether to make one now, which then counts as made. `idle`: the checkers are idle, and no
  // client waits for an answer.
  bool due(TimePoint now, bool idle) {
    if (due_ > 0) {
      --due_;
      return true;
    }
    if (!idle || now < next_idle_) return false;
    const auto spread = static_cast<std::uint64_t>((kIdleMost - kIdleLeast).count());
    next_idle_ = now + kIdleLeast + Duration(static_cast<Duration::rep>(below(spread)));
    return true;
  }

  // Makes a canary, without a name for receipts.
  GenerateRequest make() {
    Shape shape{kFirstPrompt, {}};
    shape.sampling.max_tokens = kFirstAnswer;
    if (!shapes_.empty()) shape = shapes_[below(shapes_.size())];
    const auto prompt_of = [this](const std::vector<TokenId>& words) {
      return words_.prompt_of ? words_.prompt_of(words) : words;
    };
    const std::size_t frame = prompt_of({}).size();
    const std::size_t wanted = shape.prompt_tokens > frame ? shape.prompt_tokens - frame : 1;
    GenerateRequest request;
    request.prompt = prompt_of(text(wanted));
    request.sampling = std::move(shape.sampling);
    request.sampling.seed = random_.next();
    request.sampling.stop_tokens = words_.end_tokens;
    const auto room =
        shape_.context - std::min<std::size_t>(request.prompt.size() + 1, shape_.context);
    request.sampling.max_tokens =
        std::clamp<std::uint32_t>(request.sampling.max_tokens, 1,
                                  std::max<std::uint32_t>(1, static_cast<std::uint32_t>(room)));
    request.origin = Origin::kCanary;
    request.policy.share = true;
    // Each has a scope of its own: by a common one a stage could tell what they are. No API key's
    // id has a space.
    request.policy.cache_owner = "canary " + std::to_string(request.sampling.seed);
    return request;
  }

 private:
  struct Shape {
    std::uint32_t prompt_tokens = 0;
    SamplingParams sampling;  // without the client's tokens and seed
  };
  // Lengths before the first client's request.
  static constexpr std::uint32_t kFirstPrompt = 32;
  static constexpr std::uint32_t kFirstAnswer = 64;

  template <typename T>
  static void keep(std::vector<T>& all, std::size_t most, std::size_t& next, T one) {
    if (all.size() < most) return all.push_back(std::move(one));
    all[next] = std::move(one);
    next = (next + 1) % most;
  }
  std::uint64_t below(std::uint64_t bound) { return random_.next() % bound; }
  // A piece from a random place of the kept text; one meaningless token before there is any.
  std::vector<TokenId> text(std::size_t tokens) {
    if (text_.empty()) return {static_cast<TokenId>(below(shape_.vocabulary))};
    const std::size_t count = std::clamp<std::size_t>(tokens, 1, text_.size());
    const std::size_t first = below(text_.size());
    std::vector<TokenId> piece;
    for (std::size_t i = 0; i < count; ++i) piece.push_back(text_[(first + i) % text_.size()]);
    return piece;
  }

  const CanaryWords words_;
  const StepShape shape_;
  const std::int64_t rate_;
  Random& random_;
  std::vector<Shape> shapes_;
  std::size_t next_shape_ = 0;  // overwritten next once there are kShapes
  std::vector<TokenId> text_;
  std::size_t next_token_ = 0;  // likewise
  std::uint32_t due_ = 0;
  TimePoint next_idle_{};
};

}  // namespace hearth::coordinator
