#include "node/proof/recompute.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "kernels/canonical.h"
#include "ledger/receipt.h"
#include "node/engine/stage_memory.h"
#include "proto/committed_sampling.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

using ledger::RefereeCase;
using ledger::RefereeFinding;

// --- with all of the model in memory ---

class RunnerRun {
 public:
  RunnerRun(LocalRunner& runner, std::uint32_t stages, const RecomputeOrder& order)
      : runner_(runner), order_(order) {
    out_.tokens = order.fed.tokens;
    if (order.report_hashes) {
      out_.boundaries.resize(stages - 1, std::vector<Hash256>(order.positions));
    }
  }

  Result<RecomputedRun> run(const RecomputeEvents& events);

 private:
  SequenceOpen open() const;
  void on_hash(const RowHash& hash);
  void on_token(const SampledToken& token);
  FinishReason end_of(const SampledToken& token) const;

  LocalRunner& runner_;
  const RecomputeOrder& order_;
  RecomputedRun out_;
  std::uint32_t rows_ = 0;  // that left the last stage
  bool done_ = false;
  Status failed_ = ok_status();
};

SequenceOpen RunnerRun::open() const {
  // A runner takes each id once, whatever it has freed since.
  static std::atomic<std::uint64_t> next{1};
  SequenceOpen open;
  open.sequence = SequenceId(next++);
  open.prompt_tokens = order_.fed.prompt;
  open.report_hashes = order_.report_hashes;
  open.sampling = order_.fed.sampling;
  // Neither changes the samples. An end token that the answer continues after is a token like
  // others.
  open.sampling.stop_tokens.clear();
  open.sampling.max_tokens =
      order_.positions >= order_.fed.prompt ? order_.positions - order_.fed.prompt + 1 : 1;
  return open;
}

void RunnerRun::on_hash(const RowHash& hash) {
  if (hash.position >= order_.positions) return;
  if (hash.stage < out_.boundaries.size()) {
    out_.boundaries[hash.stage][hash.position] = hash.out;
  } else if (++rows_ == order_.positions && order_.positions < order_.fed.prompt) {
    done_ = true;
  }
}

// Where the answer ends behind this token.
FinishReason RunnerRun::end_of(const SampledToken& token) const {
  const SamplingParams& sampling = order_.fed.sampling;
  if (std::ranges::find(sampling.stop_tokens, token.token) != sampling.stop_tokens.end()) {
    return FinishReason::kStop;
  }
  const bool is_full = token.position + 1 - order_.fed.prompt >= sampling.max_tokens ||
                       token.position + 1 >= runner_.spec().context;
  return is_full ? FinishReason::kLength : FinishReason::kNone;
}

void RunnerRun::on_token(const SampledToken& token) {
  if (done_ || token.position > order_.positions) return;
  if (token.finish == FinishReason::kError) {
    failed_ = Error{token.error,
                    "position " + std::to_string(token.position) + " cannot be computed here"};
    done_ = true;
    return;
  }
  SampledToken said = token;
  said.finish = end_of(token);
  const bool is_own = token.position >= order_.fed.tokens.size();
  if (is_own) out_.tokens.push_back(token.token);
  done_ = token.position == order_.positions || (is_own && said.finish != FinishReason::kNone);
  out_.sampled.push_back(std::move(said));
}

Result<RecomputedRun> RunnerRun::run(const RecomputeEvents& events) {
  LocalRunner::Events heard;
  heard.on_hash = [this](const RowHash& hash) { on_hash(hash); };
  heard.on_token = [this](const SampledToken& token) { on_token(token); };
  const SequenceOpen opened = open();
  TRY_VOID(runner_.submit(opened, order_.fed.tokens, heard));
  Status ended = ok_status();
  while (!done_ && ended.ok()) {
    if (events.stopped && events.stopped()) {
      ended = Error{ErrorCode::kCancelled, "the recomputation was stopped"};
      break;
    }
    TRY(const bool stepped, runner_.step());
    if (!stepped && !done_)
      ended = Error{ErrorCode::kNoCapacity, "the engine stopped although the window is incomplete"};
    if (events.progress) events.progress(std::min(rows_, order_.positions), order_.positions);
  }
  runner_.cancel(opened.sequence);
  for (bool more = true; more;) {  // frees its KV
    TRY(more, runner_.step());
  }
  TRY_VOID(ended);
  TRY_VOID(failed_);
  return std::move(out_);
}

// --- a referee ---

class RefereeRun {
 public:
  RefereeRun(const RefereeCase& request, const RefereeOptions& options,
             const RecomputeEvents& events)
      : request_(request), options_(options), events_(events) {}

  Status open(const std::string& model);
  Result<RefereeFinding> run();

 private:
  FedSequence fed(std::size_t answer) const;
  Status complete(std::size_t right, RefereeFinding& found) const;
  void write_roots(const std::vector<std::vector<Hash256>>& boundaries,
                   RefereeFinding& found) const;

  const RefereeCase& request_;
  const RefereeOptions& options_;
  const RecomputeEvents& events_;
  std::shared_ptr<const model::GgufFile> file_;
  std::optional<model::ModelSpec> spec_;
};

Status RefereeRun::open(const std::string& model) {
  TRY(file_, model::GgufFile::open(model));
  TRY(spec_, model::ModelSpec::read(*file_));
  REQUIRE(!request_.split.empty() && request_.split.back().end == spec_->layers,
          "the case's last layer range must end at the model's ", spec_->layers, " layers");
  const std::size_t prompt = request_.prompt.size();
  REQUIRE(request_.positions > 0 && request_.positions <= prompt + request_.answer.size() &&
              prompt <= request_.positions && request_.positions < spec_->context,
          "the case has ", request_.positions, " positions; with a prompt of ", prompt,
          " tokens and an answer of ", request_.answer.size(), ", it must have ", prompt, " to ",
          prompt, request_.answer.size(), ", below the context of ", spec_->context);
  return ok_status();
}

FedSequence RefereeRun::fed(std::size_t answer) const {
  FedSequence out{request_.prompt, static_cast<std::uint32_t>(request_.prompt.size()),
                  request_.sampling};
  out.tokens.insert(out.tokens.end(), request_.answer.begin(),
                    request_.answer.begin() + static_cast<std::ptrdiff_t>(answer));
  return out;
}

Result<RefereeFinding> RefereeRun::run() {
  StreamOptions stream;
  stream.split = request_.split;
  stream.threads = options_.threads;
  stream.stopped = events_.stopped;
  if (events_.progress) {
    stream.progress = [this](std::uint32_t done, std::uint32_t of) { events_.progress(done, of); };
  }
  TRY(const FedRun run,
      stream_layers(file_, *spec_, fed(request_.positions - request_.prompt.size()), stream));
  RefereeFinding found;
  for (const SampledToken& token : run.sampled) found.sampled.push_back(token.token);
  const auto [ours, theirs] = std::ranges::mismatch(found.sampled, request_.answer);
  const auto right = static_cast<std::size_t>(theirs - request_.answer.begin());
  found.tokens.assign(request_.answer.begin(), theirs);
  if (ours != found.sampled.end() && theirs != request_.answer.end()) {
    TRY_VOID(complete(right, found));
  } else {
    found.tokens = request_.answer;
  }
  write_roots(run.boundaries, found);
  return found;
}

// The model's own tokens from the first false one on. Each token needs all layers, so streaming the
// layers would read the whole file for every token.
Status RefereeRun::complete(std::size_t right, RefereeFinding& found) const {
  found.tokens.push_back(found.sampled[right]);
  found.is_cut = true;
  if (!options_.with_true_answer) return ok_status();
  const auto prompt = static_cast<std::uint32_t>(request_.prompt.size());
  RecomputeOrder order;
  order.fed = fed(right);
  order.positions = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      spec_->context - 1, std::uint64_t{prompt} + request_.sampling.max_tokens));
  LocalOptions local;
  local.stages = 1;
  local.threads = options_.threads;
  const std::uint64_t pages = pages_for(order.positions + 1, kernels::kPageTokens);
  local.kv_budget_bytes = kv_budget_of(*spec_, {0, spec_->layers}, pages, 1);
  local.sequences = 1;
  auto runner = LocalRunner::load(file_, local);
  if (!runner && runner.error().code == ErrorCode::kNoCapacity) return ok_status();
  TRY(const auto loaded, std::move(runner));
  RecomputeEvents events;
  events.stopped = events_.stopped;
  TRY(const RecomputedRun own, recompute(*loaded, local.stages, order, events));
  INVARIANT(!own.sampled.empty() && own.sampled.front().token == found.sampled[right],
            "a streamed model samples what the whole one does");
  found.tokens.resize(right);
  for (const SampledToken& token : own.sampled) found.tokens.push_back(token.token);
  found.is_cut = false;
  return ok_status();
}

void RefereeRun::write_roots(const std::vector<std::vector<Hash256>>& boundaries,
                             RefereeFinding& found) const {
  std::vector<std::uint32_t> tokens;
  for (const auto* part : {&request_.prompt, &request_.answer}) {
    for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
  }
  for (std::uint32_t first = 0; first < request_.positions; first += limits::kWindowPositions) {
    const std::uint32_t count = std::min(limits::kWindowPositions, request_.positions - first);
    std::vector<Hash256>& roots = found.windows[first / limits::kWindowPositions];
    for (const std::vector<Hash256>& rows : boundaries) {
      roots.push_back(
          ledger::boundary_root(request_.salt, first, std::span(rows).subspan(first, count)));
    }
    roots.push_back(ledger::commit_tokens(request_.salt, first,
                                          std::span(tokens).subspan(first, count),
                                          encode_committed(request_.sampling)));
  }
}

}  // namespace

Result<RecomputedRun> recompute(LocalRunner& runner, std::uint32_t stages,
                                const RecomputeOrder& order, const RecomputeEvents& events) {
  INVARIANT(stages > 0 && order.positions > 0, "an order has positions, and its runner stages");
  return RunnerRun(runner, stages, order).run(events);
}

Result<RefereeFinding> compute_case(const std::string& model, const RefereeCase& request,
                                    const RefereeOptions& options, const RecomputeEvents& events) {
  RefereeRun referee(request, options, events);
  const auto unavailable = [](const Error& error) {
    return Error::of(ErrorCode::kUnavailable,
                     "this machine cannot compute the model: ", error.message);
  };
  if (const Status opened = referee.open(model); !opened.ok()) return unavailable(opened.error());
  auto found = referee.run();
  if (!found && found.error().code == ErrorCode::kNoCapacity) return unavailable(found.error());
  return found;
}

}  // namespace hearth::node
