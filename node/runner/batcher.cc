#include "node/runner/batcher.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::node {
namespace {

// The ids of an epoch, as intervals: a coordinator counts them up, so there are few. Where several
// pipelines share the count every id may be an interval of its own: the lowest are forgotten, so
// that only the newest ones are known to have been here. A repeated id that still runs is found
// among the sequences; one that is over and forgotten does no harm on any stage.
class SeenIds {
 public:
  bool insert(std::uint64_t id) {
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

 private:
  static constexpr std::size_t kIntervals = 2 * limits::kRunningSequences;
  std::map<std::uint64_t, std::uint64_t> begins_;  // first id of an interval -> its last id
};

struct Sequence {
  SequenceOpen open;
  std::vector<TokenId> tokens;  // the submit's, given back once their last chunk has left
  std::uint32_t submitted = 0;  // of them
  Position next = 0;            // position of the next row to send
  TokenId token = 0;            // of that row, once all that were submitted are sent
  bool opened = false;          // some step carried its open
  bool background = false;
  bool decoding() const { return next >= submitted; }
  // Of the rows that were submitted the last one, and where hashes are wanted each that has been
  // sampled before: what a row says is part of its hash.
  bool samples_next() const {
    return next + 1 == submitted || (open.report_hashes && next + 1 >= open.prompt_tokens);
  }
};

struct Sample {
  SequenceId sequence;
  Position position = 0;  // of the new token
};

struct StepInFlight {
  StepId step;
  std::vector<Sample> samples;
};

std::string name_of(SequenceId sequence) { return "sequence " + std::to_string(sequence.value); }

}  // namespace

struct Batcher::State {
  explicit State(const BatcherOptions& given) : options(given) {}

  BatcherOptions options;
  std::uint64_t next_step = 0;
  SeenIds seen;
  std::unordered_map<SequenceId, Sequence> sequences;
  // Not wholly sent, oldest first: those that somebody watches, and those in the background.
  std::array<std::deque<SequenceId>, 2> prompts;
  bool background_first = false;       // in the next step that has both
  std::deque<SequenceId> returned;     // their token is back, in the order of its coming
  std::deque<SequenceOpen> cancelled;  // before their first row: opened and released in one step
  std::deque<SequenceId> releases;
  std::deque<StepInFlight> in_flight;

  std::uint32_t decoding() const;
  void add_decode_rows(StepBatch& batch);
  void add_prompt_rows(StepBatch& batch);
  bool add_prompt_rows(StepBatch& batch, std::deque<SequenceId>& waiting, std::uint32_t& left);
  void add_ends(StepBatch& batch);
  void add_row(StepBatch& batch, Sequence& sequence, TokenId token, bool sample);
  Status check(const StepInFlight& step, const StepTokens& tokens) const;
  void end(SequenceId sequence);
};

Batcher::Batcher(const BatcherOptions& options) : state_(std::make_unique<State>(options)) {
  INVARIANT(options.batch_rows > 0 && options.prefill_rows > 0 && options.batches_in_flight > 0,
            "a batcher whose bounds are zero never sends anything");
}
Batcher::~Batcher() = default;
Batcher::Batcher(Batcher&&) noexcept = default;
Batcher& Batcher::operator=(Batcher&&) noexcept = default;

Status Batcher::submit(SubmitMessage message) {
  State& s = *state_;
  REQUIRE(message.epoch == s.options.epoch,
          "submit for epoch " + std::to_string(message.epoch.value) + ", this is epoch " +
              std::to_string(s.options.epoch.value));
  const SequenceId id = message.open.sequence;
  const std::size_t most =
      std::size_t{message.open.prompt_tokens} + message.open.sampling.max_tokens;
  REQUIRE(!message.prompt.empty(), "the prompt of " + name_of(id) + " is empty");
  REQUIRE(message.prompt.size() >= message.open.prompt_tokens && message.prompt.size() < most,
          name_of(id) + " announces " + std::to_string(message.open.prompt_tokens) +
              " prompt tokens and brings " + std::to_string(message.prompt.size()) +
              " tokens, of fewer than " + std::to_string(most));
  REQUIRE(!s.sequences.contains(id) && s.seen.insert(id.value),
          name_of(id) + " was submitted before");
  Sequence sequence;
  sequence.background = std::exchange(message.open.background, false);
  sequence.open = std::move(message.open);
  sequence.tokens = std::move(message.prompt);
  sequence.submitted = static_cast<std::uint32_t>(sequence.tokens.size());
  s.prompts[sequence.background ? 1 : 0].push_back(id);
  s.sequences.emplace(id, std::move(sequence));
  return ok_status();
}

void Batcher::State::end(SequenceId id) {
  const auto found = sequences.find(id);
  if (!found->second.decoding()) std::erase(prompts[found->second.background ? 1 : 0], id);
  std::erase(returned, id);
  if (found->second.opened) {
    releases.push_back(id);
  } else {
    cancelled.push_back(std::move(found->second.open));
  }
  sequences.erase(found);
}

void Batcher::cancel(SequenceId sequence) {
  if (state_->sequences.contains(sequence)) state_->end(sequence);
}

Status Batcher::State::check(const StepInFlight& step, const StepTokens& tokens) const {
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
    REQUIRE(found != step.samples.end(), where + " has a token for " + name_of(token.sequence) +
                                             " at position " + std::to_string(token.position) +
                                             ", which the step did not sample");
    const auto index = static_cast<std::size_t>(found - step.samples.begin());
    REQUIRE(!answered[index], where + " has two tokens for " + name_of(token.sequence));
    answered[index] = true;
    expected = index + 1;
  }
  const auto missing = std::find(answered.begin(), answered.end(), false);
  REQUIRE(missing == answered.end(),
          where + " lacks the token of " +
              name_of(step.samples[static_cast<std::size_t>(missing - answered.begin())].sequence));
  return ok_status();
}

Status Batcher::on_tokens(const StepTokens& tokens) {
  State& s = *state_;
  REQUIRE(tokens.epoch == s.options.epoch, "tokens of epoch " + std::to_string(tokens.epoch.value) +
                                               ", this is epoch " +
                                               std::to_string(s.options.epoch.value));
  const auto step = std::find_if(s.in_flight.begin(), s.in_flight.end(),
                                 [&](const StepInFlight& one) { return one.step == tokens.step; });
  REQUIRE(step != s.in_flight.end(),
          "step " + std::to_string(tokens.step.value) + " is answered and is not in flight");
  TRY_VOID(s.check(*step, tokens));
  s.in_flight.erase(step);
  for (const SampledToken& token : tokens.tokens) {
    const auto found = s.sequences.find(token.sequence);
    if (found == s.sequences.end()) continue;  // cancelled while its row was under way
    if (token.finish != FinishReason::kNone) {
      s.end(token.sequence);
    } else if (token.position >= found->second.submitted) {
      found->second.token = token.token;
      s.returned.push_back(token.sequence);
    }
  }
  return ok_status();
}

std::uint32_t Batcher::State::decoding() const {
  return static_cast<std::uint32_t>(sequences.size() - prompts[0].size() - prompts[1].size());
}

void Batcher::State::add_row(StepBatch& batch, Sequence& sequence, TokenId token, bool sample) {
  const SequenceId id = sequence.open.sequence;
  const std::uint8_t flags = sample ? BatchRow::kSample : 0;
  batch.rows.push_back({id, sequence.next, token, flags});
  ++sequence.next;
  if (sample) in_flight.back().samples.push_back({id, sequence.next});
}

// An equal share of the decoding sequences, so that as many are left for every other step that
// travels. All of them wait for a token: none waits longer than one round of the ring.
void Batcher::State::add_decode_rows(StepBatch& batch) {
  const std::uint32_t steps = options.batches_in_flight;
  const std::uint32_t share = decoding() / steps + (decoding() % steps != 0 ? 1 : 0);
  const std::uint32_t most = std::min(share, options.batch_rows);
  while (!returned.empty() && batch.rows.size() < most) {
    Sequence& sequence = sequences.at(returned.front());
    returned.pop_front();
    add_row(batch, sequence, sequence.token, true);
  }
}

void Batcher::State::add_prompt_rows(StepBatch& batch) {
  std::uint32_t left = std::min<std::uint32_t>(
      options.prefill_rows, options.batch_rows - static_cast<std::uint32_t>(batch.rows.size()));
  if (left == 0) return;
  const bool both = !prompts[0].empty() && !prompts[1].empty();
  const std::size_t first = both && background_first ? 1 : 0;
  if (both) background_first = !background_first;
  if (add_prompt_rows(batch, prompts[first], left))
    add_prompt_rows(batch, prompts[1 - first], left);
}

// False when the step takes no more openings.
bool Batcher::State::add_prompt_rows(StepBatch& batch, std::deque<SequenceId>& waiting,
                                     std::uint32_t& left) {
  while (!waiting.empty() && left > 0) {
    Sequence& sequence = sequences.at(waiting.front());
    if (!sequence.opened) {
      if (batch.opens.size() >= limits::kBatchOpens) return false;
      batch.opens.push_back(sequence.open);
      sequence.opened = true;
    }
    for (; left > 0 && !sequence.decoding(); --left) {
      add_row(batch, sequence, sequence.tokens[sequence.next], sequence.samples_next());
    }
    if (!sequence.decoding()) return true;
    sequence.tokens = {};
    waiting.pop_front();
  }
  return true;
}

void Batcher::State::add_ends(StepBatch& batch) {
  while (!cancelled.empty() && batch.opens.size() < limits::kBatchOpens &&
         batch.releases.size() < limits::kBatchReleases) {
    batch.releases.push_back(cancelled.front().sequence);
    batch.opens.push_back(std::move(cancelled.front()));
    cancelled.pop_front();
  }
  while (!releases.empty() && batch.releases.size() < limits::kBatchReleases) {
    batch.releases.push_back(releases.front());
    releases.pop_front();
  }
}

std::optional<StepBatch> Batcher::next() {
  State& s = *state_;
  if (s.in_flight.size() >= s.options.batches_in_flight) return std::nullopt;
  StepBatch batch;
  batch.epoch = s.options.epoch;
  batch.step = StepId(s.next_step);
  s.in_flight.push_back({batch.step, {}});
  s.add_decode_rows(batch);
  s.add_prompt_rows(batch);
  s.add_ends(batch);
  if (batch.rows.empty() && batch.releases.empty()) {
    s.in_flight.pop_back();
    return std::nullopt;
  }
  ++s.next_step;
  return batch;
}

std::uint32_t Batcher::sequences() const {
  return static_cast<std::uint32_t>(state_->sequences.size());
}

std::uint32_t Batcher::steps_in_flight() const {
  return static_cast<std::uint32_t>(state_->in_flight.size());
}

}  // namespace hearth::node
