#include "cli/serve/local_referee.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "kernels/canonical.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/kv_cache.h"
#include "node/runner/local_runner.h"
#include "proto/committed_sampling.h"
#include "proto/split.h"

namespace hearth::cli {
namespace {

using coordinator::RefereeCase;
using coordinator::RefereeFinding;

constexpr int kNiceness = 19;  // the least there is

class Computation {
 public:
  Computation(const RefereeCase& request, const std::function<bool()>& stopped)
      : request_(request), stopped_(stopped) {}

  Status open(const std::string& model) {
    TRY(const auto file, model::GgufFile::open(model));
    TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
    REQUIRE(
        !request_.split.empty() && request_.split.back().end == spec.layers,
        "the case has another number of layers than the model's " + std::to_string(spec.layers));
    const std::size_t prompt = request_.prompt.size();
    REQUIRE(request_.positions > 0 && request_.positions <= prompt + request_.answer.size() &&
                prompt <= request_.positions && request_.positions < spec.context,
            "the case has " + std::to_string(request_.positions) + " positions, and " +
                std::to_string(prompt + request_.answer.size()) + " tokens");
    context_ = spec.context;
    node::LocalOptions local;
    local.stages = static_cast<std::uint32_t>(request_.split.size());
    local.layers = request_.split;
    local.threads = std::max(1U, std::thread::hardware_concurrency() / 4);
    const std::uint64_t most =
        std::min<std::uint64_t>(spec.context, prompt + request_.sampling.max_tokens + 1);
    const std::uint64_t pages =
        pages_for(static_cast<std::uint32_t>(std::max<std::uint64_t>(most, request_.positions + 1)),
                  kernels::kPageTokens);
    local.kv_budget_bytes = node::KvCache::page_bytes(1, spec.kv_layout()) * spec.layers * pages;
    TRY(runner_, node::LocalRunner::load(file, local));
    return ok_status();
  }

  Result<RefereeFinding> run() {
    RefereeFinding found;
    TRY(const std::vector<TokenId> sampled,
        compute(request_.answer.size(), request_.positions, true));
    found.sampled = sampled;
    const auto [ours, theirs] = std::ranges::mismatch(found.sampled, request_.answer);
    const auto right = static_cast<std::size_t>(ours - found.sampled.begin());
    found.tokens.assign(request_.answer.begin(), theirs);
    const bool differs = ours != found.sampled.end() && theirs != request_.answer.end();
    if (differs) {
      TRY(const std::vector<TokenId> own, compute(right, context_, false));
      found.tokens.insert(found.tokens.end(), own.begin(), own.end());
    } else {
      found.tokens = request_.answer;
    }
    write_roots(found);
    return found;
  }

 private:
  // With so many of the answer's tokens fed. For roots: what is sampled behind the prompt and
  // behind each of them, up to `positions`. Else what follows them, to where the answer ends by
  // itself.
  Result<std::vector<TokenId>> compute(std::size_t fed, std::uint32_t positions, bool roots) {
    const auto prompt = static_cast<std::uint32_t>(request_.prompt.size());
    std::vector<TokenId> tokens = request_.prompt;
    fed = std::min<std::size_t>(fed, positions - prompt);
    tokens.insert(tokens.end(), request_.answer.begin(),
                  request_.answer.begin() + static_cast<std::ptrdiff_t>(fed));
    if (roots) rows_.assign(request_.split.size() - 1, std::vector<Hash256>(positions));
    SequenceOpen open;
    open.sequence = SequenceId(next_++);
    open.prompt_tokens = prompt;
    open.report_hashes = roots;
    open.sampling = request_.sampling;
    if (roots) {  // neither decides what is sampled
      open.sampling.stop_tokens.clear();
      open.sampling.max_tokens = positions - prompt + 1;
    }
    const auto first = static_cast<Position>(prompt + fed);
    std::vector<TokenId> sampled;
    bool done = false;
    Status failed = ok_status();
    node::LocalRunner::Events events;
    events.on_hash = [&](const RowHash& hash) {
      if (roots && hash.position < positions && hash.stage < rows_.size()) {
        rows_[hash.stage][hash.position] = hash.out;
      }
    };
    events.on_token = [&](const SampledToken& token) {
      if (done) return;
      if (token.finish == FinishReason::kError) {
        failed = Error{token.error,
                       "position " + std::to_string(token.position) + " cannot be computed here"};
        done = true;
        return;
      }
      if (roots || token.position >= first) sampled.push_back(token.token);
      done = roots ? token.position >= positions : token.finish != FinishReason::kNone;
    };
    TRY_VOID(runner_->submit(open, std::move(tokens), events));
    while (!done) {
      if (stopped_()) return Error{ErrorCode::kCancelled, "nobody waits for it any more"};
      TRY(const bool stepped, runner_->step());
      if (!stepped && !done) return Error{ErrorCode::kNoCapacity, "the engine stalled"};
    }
    runner_->cancel(open.sequence);
    for (bool more = true; more;) {  // frees its KV
      TRY(more, runner_->step());
    }
    TRY_VOID(failed);
    return sampled;
  }

  void write_roots(RefereeFinding& found) const {
    std::vector<std::uint32_t> tokens;
    for (const auto* part : {&request_.prompt, &request_.answer}) {
      for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
    }
    for (std::uint32_t first = 0; first < request_.positions; first += limits::kWindowPositions) {
      const std::uint32_t count = std::min(limits::kWindowPositions, request_.positions - first);
      const Hash256 ends =
          ledger::commit_tokens(request_.salt, first, std::span(tokens).subspan(first, count),
                                encode_committed(request_.sampling));
      auto& stages = found.windows[first / limits::kWindowPositions];
      Hash256 in = ends;
      for (const std::vector<Hash256>& rows : rows_) {
        const Hash256 out =
            ledger::boundary_root(request_.salt, first, std::span(rows).subspan(first, count));
        stages.push_back({in, out});
        in = out;
      }
      stages.push_back({in, ends});
    }
  }

  const RefereeCase& request_;
  const std::function<bool()>& stopped_;
  std::uint32_t context_ = 0;
  std::unique_ptr<node::LocalRunner> runner_;
  std::vector<std::vector<Hash256>> rows_;  // what left each stage but the last
  std::uint64_t next_ = 1;
};

}  // namespace

Result<RefereeFinding> compute_case(const std::string& model, const RefereeCase& request,
                                    const std::function<bool()>& stopped) {
  Computation computation(request, stopped);
  const Status opened = computation.open(model);
  if (!opened.ok()) {
    return Error{ErrorCode::kUnavailable,
                 "this machine cannot compute the model: " + opened.error().message};
  }
  return computation.run();
}

LocalReferee::~LocalReferee() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LocalReferee::judge(RefereeCase request, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kQueue) {
      waiting_.emplace_back(std::move(request), std::move(done));
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      wake_.notify_one();
      return;
    }
  }
  done(Error{ErrorCode::kUnavailable,
             std::to_string(kQueue) + " requests wait for this server's referee"});
}

void LocalReferee::run() {
  // Of this thread, and of those that it will start.
  if (::setpriority(PRIO_PROCESS, 0, kNiceness) != 0) {
    spdlog::warn("the referee computes at the priority of the server");
  }
  const auto stopped = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    auto [request, done] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const auto late = [&request] {
      return request.until != 0 && SystemClock().unix_seconds() >= request.until;
    };
    auto found = compute_case(model_, request, [&] { return stopped() || late(); });
    if (!found && found.error().code == ErrorCode::kCancelled) {
      found = Error{ErrorCode::kTimeout, "this machine does not compute it in time"};
    }
    if (!stopped()) done(std::move(found));
    lock.lock();
  }
}

}  // namespace hearth::cli
