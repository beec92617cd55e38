#include "tests/sim/reference.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "node/runner/local_runner.h"

namespace hearth::sim {
namespace {

coordinator::GenerateRequest make_request(std::uint32_t index, std::uint32_t vocabulary) {
  SeededRandom random(index + 1000);
  const auto between = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random.next() % (high - low + 1));
  };
  coordinator::GenerateRequest request;
  if (index % 3 == 2) {  // turns of two conversations, and branches of them
    SeededRandom told(index / 3 % 2 + 500);
    for (std::uint32_t i = between(40, 70); i > 0; --i) {
      request.prompt.push_back(static_cast<TokenId>(told.next() % vocabulary));
    }
  }
  const std::uint32_t prompt = index % 6 == 1 ? between(70, 90) : between(1, 20);
  for (std::uint32_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(between(0, vocabulary - 1)));
  }
  request.sampling.temperature = index % 3 == 0 ? 0.0F : 0.9F;
  request.sampling.top_p = index % 4 == 1 ? 0.8F : 1.0F;
  request.sampling.top_k = index % 4 == 2 ? 20 : 0;
  request.sampling.seed = random.next();
  request.sampling.max_tokens = between(1, 24);
  request.sampling.logprobs = index % 5 == 0;
  request.sampling.top_logprobs = index % 5 == 0 ? 3 : 0;
  if (index % 2 == 1) {
    for (int i = 0; i < 12; ++i) {
      request.sampling.stop_tokens.push_back(static_cast<TokenId>(between(0, vocabulary - 1)));
    }
  }
  request.report_hashes = index % 4 == 3;
  return request;
}

void run(const EnginePool& pool, std::uint32_t stages,
         const std::vector<coordinator::GenerateRequest>& requests, std::vector<Answer>& answers) {
  node::LocalOptions options;
  options.stages = stages;
  options.batch_rows = 64;
  options.prefill_rows = 16;
  options.kv_budget_bytes = 64 << 20;
  auto runner = node::LocalRunner::load(pool.file(), options);
  INVARIANT(runner.ok(), runner.error().message.c_str());
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    Answer& answer = answers[i];
    answer.tokens.clear();
    node::LocalRunner::Events events;
    events.on_token = [&](const SampledToken& token) { answer.tokens.push_back(token); };
    events.on_hash = [&](const RowHash& hash) { answer.hashes[stages].push_back(hash); };
    const SequenceOpen open{SequenceId(i + 1),
                            static_cast<std::uint32_t>(requests[i].prompt.size()),
                            requests[i].report_hashes, requests[i].sampling};
    const Status submitted = (*runner)->submit(open, requests[i].prompt, events);
    INVARIANT(submitted.ok(), submitted.error().message.c_str());
    for (bool more = true; more;) {
      auto stepped = (*runner)->step();
      INVARIANT(stepped.ok(), "a fault-free step");
      more = *stepped;
    }
    INVARIANT(!answer.tokens.empty() && answer.tokens.back().finish != FinishReason::kNone,
              "the reference ends");
    std::vector<RowHash>& hashes = answer.hashes[stages];
    std::sort(hashes.begin(), hashes.end(), [](const RowHash& a, const RowHash& b) {
      return std::tie(a.position, a.stage) < std::tie(b.position, b.stage);
    });
  }
}

}  // namespace

Reference::Reference(const EnginePool& pool) : answers_(kRequests) {
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    requests_.push_back(make_request(i, pool.spec().vocabulary));
  }
  for (std::uint32_t stages = kStagesLeast; stages <= kStagesMost; ++stages) {
    run(pool, stages, requests_, answers_);
  }
}

std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)> Reference::drafts(
    SimWorld& world) const {
  return [this, &world](const SequenceOpen& open, Position position) {
    std::vector<TokenId> drafts;
    const auto asked =
        std::ranges::find_if(requests_, [&](const coordinator::GenerateRequest& request) {
          return request.sampling.seed == open.sampling.seed;
        });
    if (asked == requests_.end()) return drafts;
    const std::vector<SampledToken>& tokens =
        answers_[static_cast<std::size_t>(asked - requests_.begin())].tokens;
    const std::uint64_t count = world.between(0, 6);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = position - open.prompt_tokens + i;
      const bool right = at < tokens.size() && world.chance(75);
      drafts.push_back(right ? tokens[at].token : static_cast<TokenId>(world.between(0, 99)));
    }
    return drafts;
  };
}

}  // namespace hearth::sim
