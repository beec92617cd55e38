#include "node/runner/batcher.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {
namespace {

constexpr std::size_t kIntervals = 2 * limits::kRunningSequences;  // of ids, remembered

std::string name_of(SequenceId sequence) { return "sequence " + std::to_string(sequence.value); }

}  // namespace

bool Batcher::SeenIds::insert(std::uint64_t id) {
  auto after = begins_.upper_bound(id);
  if (after != begins_.begin() && std::prev(after)->second >= id) return false;
  std::uint64_t end = id;
  if (after != begins_.end() && after->first == id + 1) {
    end = after->second;
    after = begins_.erase(after);
  }
  if (after != begins_.begin() && std::prev(after)->second + 1 == id) {
    std::prev(after)->second = end;
  } else {
    begins_.emplace(id, end);
    if (begins_.size() > kIntervals) begins_.erase(begins_.begin());
  }
  return true;
}

Batcher::Batcher(const BatcherOptions& options) : options_(options) {
  INVARIANT(options.batch_rows > 0 && options.prefill_rows > 0 && options.batches_in_flight > 0,
            "a batcher whose bounds are zero never sends anything");
}

Status Batcher::submit(SubmitMessage message) {
  REQUIRE(message.epoch == options_.epoch, "submit for epoch ", message.epoch.value,
          ", this is epoch ", options_.epoch.value);
  const SequenceId id = message.open.sequence;
  const std::size_t most =
      std::size_t{message.open.prompt_tokens} + message.open.sampling.max_tokens;
  REQUIRE(!message.prompt.empty(), "the prompt of " + name_of(id) + " is empty");
  REQUIRE(message.prompt.size() >= message.open.prompt_tokens && message.prompt.size() < most,
          name_of(id), " announces ", message.open.prompt_tokens, " prompt tokens and brings ",
          message.prompt.size(), " tokens, of fewer than ", most);
  REQUIRE(!sequences_.contains(id) && seen_.insert(id.value),
          name_of(id) + " was submitted before");
  Sequence sequence;
  sequence.background = std::exchange(message.open.background, false);
  sequence.open = std::move(message.open);
  sequence.tokens = std::move(message.prompt);
  sequence.submitted = static_cast<std::uint32_t>(sequence.tokens.size());
  prompts_[sequence.background ? 1 : 0].push_back(id);
  sequences_.emplace(id, std::move(sequence));
  return ok_status();
}

void Batcher::end(SequenceId id) {
  const auto found = sequences_.find(id);
  if (!found->second.decoding()) std::erase(prompts_[found->second.background ? 1 : 0], id);
  std::erase(returned_, id);
  if (found->second.opened) {
    releases_.push_back(id);
  } else {
    cancelled_.push_back(std::move(found->second.open));
  }
  sequences_.erase(found);
}

void Batcher::cancel(SequenceId sequence) {
  if (sequences_.contains(sequence)) end(sequence);
}

Status Batcher::check(const StepInFlight& step, const StepTokens& tokens) const {
  const std::string where = "the answer to step " + std::to_string(step.step.value);
  std::vector<bool> answered(step.samples.size(), false);
  std::size_t expected = 0;  // answers mostly come in the order of the rows
  for (const SampledToken& token : tokens.tokens) {
    const auto is_this = [&](const Sample& sample) {
      return sample.sequence == token.sequence && sample.position == token.position;
    };
    auto found = step.samples.begin() + static_cast<std::ptrdiff_t>(expected);
    if (found == step.samples.end() || !is_this(*found)) {
      found = std::find_if(step.samples.begin(), step.samples.end(), is_this);
    }
    REQUIRE(found != step.samples.end(), where, " has a token for ", name_of(token.sequence),
            " at position ", token.position, ", which the step did not sample");
    const auto index = static_cast<std::size_t>(found - step.samples.begin());
    REQUIRE(!answered[index], where + " has two tokens for " + name_of(token.sequence));
    answered[index] = true;
    expected = index + 1;
  }
  const auto missing = std::find(answered.begin(), answered.end(), false);
  REQUIRE(missing == answered.end(), where, " lacks the token of ",
          name_of(step.samples[static_cast<std::size_t>(missing - answered.begin())].sequence));
  return ok_status();
}

Status Batcher::on_tokens(const StepTokens& tokens) {
  REQUIRE(tokens.epoch == options_.epoch, "tokens of epoch ", tokens.epoch.value,
          ", this is epoch ", options_.epoch.value);
  const auto step = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const StepInFlight& one) { return one.step == tokens.step; });
  REQUIRE(step != in_flight_.end(), "step ", tokens.step.value,
          " is answered and is not in flight");
  TRY_VOID(check(*step, tokens));
  in_flight_.erase(step);
  for (const SampledToken& token : tokens.tokens) {
    const auto found = sequences_.find(token.sequence);
    if (found == sequences_.end()) continue;  // cancelled while its row was under way
    if (token.finish != FinishReason::kNone) {
      end(token.sequence);
    } else if (token.position >= found->second.submitted) {
      found->second.token = token.token;
      returned_.push_back(token.sequence);
    }
  }
  return ok_status();
}

std::uint32_t Batcher::decoding() const {
  return static_cast<std::uint32_t>(sequences_.size() - prompts_[0].size() - prompts_[1].size());
}

void Batcher::add_row(StepBatch& batch, Sequence& sequence, TokenId token, bool sample) {
  const SequenceId id = sequence.open.sequence;
  const std::uint8_t flags = sample ? BatchRow::kSample : 0;
  batch.rows.push_back({id, sequence.next, token, flags});
  ++sequence.next;
  if (sample) in_flight_.back().samples.push_back({id, sequence.next});
}

// An equal share of the decoding sequences, so that as many are left for every other step that
// travels. All of them wait for a token: none waits longer than one round of the ring.
void Batcher::add_decode_rows(StepBatch& batch) {
  const std::uint32_t steps = options_.batches_in_flight;
  const std::uint32_t share = decoding() / steps + (decoding() % steps != 0 ? 1 : 0);
  const std::uint32_t most = std::min(share, options_.batch_rows);
  while (!returned_.empty() && batch.rows.size() < most) {
    Sequence& sequence = sequences_.at(returned_.front());
    returned_.pop_front();
    add_row(batch, sequence, sequence.token, true);
  }
}

void Batcher::add_prompt_rows(StepBatch& batch) {
  std::uint32_t left = std::min<std::uint32_t>(
      options_.prefill_rows, options_.batch_rows - static_cast<std::uint32_t>(batch.rows.size()));
  if (left == 0) return;
  const bool both = !prompts_[0].empty() && !prompts_[1].empty();
  const std::size_t first = both && background_first_ ? 1 : 0;
  if (both) background_first_ = !background_first_;
  const std::uint32_t most = left;
  if (add_prompt_rows(batch, prompts_[first], left, most))
    add_prompt_rows(batch, prompts_[1 - first], left, most);
}

// How many of the `left` rows a prompt gets. It is cut at the end of a KV page, so that every stage
// sees all rows of a page together, which it may have kept of an earlier sequence. Behind rows of
// other prompts that may leave none for this step.
std::uint32_t Batcher::chunk(const Sequence& sequence, std::uint32_t left, bool first) const {
  constexpr std::uint32_t kPage = kernels::kPageTokens;
  const std::uint32_t rest = sequence.submitted - sequence.next;
  if (rest <= left || options_.prefill_rows < kPage) return std::min(rest, left);
  const std::uint32_t end = (sequence.next + left) / kPage * kPage;
  if (end > sequence.next) return end - sequence.next;
  return first ? left : 0;
}

// False when the step takes no more rows of prompts.
bool Batcher::add_prompt_rows(StepBatch& batch, std::deque<SequenceId>& waiting,
                              std::uint32_t& left, std::uint32_t most) {
  while (!waiting.empty() && left > 0) {
    Sequence& sequence = sequences_.at(waiting.front());
    const std::uint32_t rows = chunk(sequence, left, left == most);
    if (rows == 0) return false;
    if (!sequence.opened) {
      if (batch.opens.size() >= limits::kBatchOpens) return false;
      batch.opens.push_back(sequence.open);
      sequence.opened = true;
    }
    for (std::uint32_t i = 0; i < rows; ++i) {
      add_row(batch, sequence, sequence.tokens[sequence.next], sequence.samples_next());
    }
    left -= rows;
    if (!sequence.decoding()) return true;
    sequence.tokens = {};
    waiting.pop_front();
  }
  return true;
}

void Batcher::add_ends(StepBatch& batch) {
  while (!cancelled_.empty() && batch.opens.size() < limits::kBatchOpens &&
         batch.releases.size() < limits::kBatchReleases) {
    batch.releases.push_back(cancelled_.front().sequence);
    batch.opens.push_back(std::move(cancelled_.front()));
    cancelled_.pop_front();
  }
  while (!releases_.empty() && batch.releases.size() < limits::kBatchReleases) {
    batch.releases.push_back(releases_.front());
    releases_.pop_front();
  }
}

std::optional<StepBatch> Batcher::next() {
  if (in_flight_.size() >= options_.batches_in_flight) return std::nullopt;
  StepBatch batch;
  batch.epoch = options_.epoch;
  batch.step = StepId(next_step_);
  in_flight_.push_back({batch.step, {}});
  add_decode_rows(batch);
  add_prompt_rows(batch);
  add_ends(batch);
  if (batch.rows.empty() && batch.releases.empty()) {
    in_flight_.pop_back();
    return std::nullopt;
  }
  ++next_step_;
  return batch;
}

}  // namespace hearth::node
