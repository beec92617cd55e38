#include "node/runner/batcher.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {
namespace {

// When further drafts can go into the next step, one step takes kFewDrafts, and more while the
// chance that all of them are right is at least kStepOdds.
constexpr double kStepOdds = 0.7;
constexpr std::uint32_t kFewDrafts = 4;
// Most tokens of a sequence that a draft model reads in the ask for its next drafts.
constexpr std::size_t kUnreadTokens = 2 * limits::kDraftRows;
constexpr std::size_t kIntervals = 2 * limits::kRunningSequences;  // of ids, remembered

// The number of drafts with these odds that one step takes, when the others go into the next step.
std::uint32_t step_of(std::span<const double> odds) {
  double right = 1.0;
  std::uint32_t count = 0;
  while (count < odds.size() && (count < kFewDrafts || right * odds[count] >= kStepOdds)) {
    right *= odds[count++];
  }
  return count;
}

std::uint8_t flag_of(DraftKind kind) {
  switch (kind) {
    case DraftKind::kLookup: return 0;
    case DraftKind::kGrammar: return BatchRow::kForced;
    case DraftKind::kModel: return BatchRow::kModelled;
  }
  return 0;
}

std::uint32_t steps_with_prompts(const BatcherOptions& options) {
  const std::uint32_t most = options.batches_in_flight;
  if (!options.times) return most;
  return std::min(placement::steps_of_rows(*options.times, options.prefill_rows), most);
}

// While no answer waits, steps carry prompts alone.
std::uint32_t steps_wanted(const BatcherOptions& options, std::uint32_t answers) {
  if (!options.times || answers == 0) return steps_with_prompts(options);
  return std::min(placement::steps_of_sequences(*options.times, answers, options.batch_rows),
                  options.batches_in_flight);
}

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

Batcher::Batcher(const BatcherOptions& options)
    : options_(options),
      most_in_flight_(options.batches_in_flight),
      pace_(options.itl_target, options.prefill_rows, steps_with_prompts(options)) {
  INVARIANT(options.batch_rows > 0 && options.prefill_rows > 0 && options.batches_in_flight > 0,
            "a batcher whose bounds are zero never sends anything");
  INVARIANT(options.draft_rows <= limits::kDraftRows, "a step verifies a bounded number of drafts");
}

Status Batcher::submit(SubmitMessage message) {
  REQUIRE(message.epoch == options_.epoch, "submit for epoch ", message.epoch.value,
          ", this is epoch ", options_.epoch.value);
  const SequenceId id = message.open.sequence;
  const std::size_t most =
      std::size_t{message.open.prompt_tokens} + message.open.sampling.max_tokens;
  REQUIRE(!message.prompt.empty(), "the prompt of ", name_of(id), " is empty");
  REQUIRE(message.prompt.size() >= message.open.prompt_tokens && message.prompt.size() < most,
          name_of(id), " is submitted with ", message.prompt.size(), " tokens; its prompt has ",
          message.open.prompt_tokens, ", and prompt and answer together ", most,
          ", so it must be submitted with at least the prompt and fewer than all");
  REQUIRE(!sequences_.contains(id) && seen_.insert(id.value), name_of(id), " was submitted before");
  Sequence sequence;
  sequence.background = std::exchange(message.open.background, false);
  sequence.open = std::move(message.open);
  sequence.may_draft = options_.draft_rows > 0 && sequence.open.drafts;
  sequence.tokens = std::move(message.prompt);
  sequence.submitted = static_cast<std::uint32_t>(sequence.tokens.size());
  prompts_[sequence.background ? 1 : 0].push_back(id);
  sequences_.emplace(id, std::move(sequence));
  return ok_status();
}

void Batcher::end(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found->second.drafting > 0) void_drafts(id);
  if (!found->second.decoding()) std::erase(prompts_[found->second.background ? 1 : 0], id);
  std::erase(returned_, id);
  asks_.forget(id);
  if (found->second.opened) {
    releases_.push_back({id, found->second.truncate});
  } else {
    cancelled_.push_back(std::move(found->second.open));
  }
  sequences_.erase(found);
}

// Rejected drafts must be dropped first, so that the stages end with exactly the answer's rows.
void Batcher::cancel(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  if (found->second.drafting == 0) return end(id);
  found->second.cancelled = true;
}

Result<std::vector<Batcher::Answered>> Batcher::check(const StepInFlight& step,
                                                      const StepTokens& tokens) const {
  const std::string where = "the answer to step " + std::to_string(step.step.value);
  std::vector<Answered> all;
  std::vector<bool> answered(step.samples.size(), false);
  std::size_t expected = 0;  // answers mostly come in the order of the rows
  const std::span<const SampledToken> given(tokens.tokens);
  for (std::size_t begin = 0, end = 0; begin < given.size(); begin = end) {
    const SampledToken& first = given[begin];
    while (end < given.size() && given[end].sequence == first.sequence) ++end;
    auto found = step.samples.begin() + static_cast<std::ptrdiff_t>(expected);
    if (found == step.samples.end() || found->sequence != first.sequence) {
      found = std::ranges::find(step.samples, first.sequence, &Samples::sequence);
    }
    const bool known = found != step.samples.end() && may_answer(*found);
    for (std::size_t i = 0; i < end - begin; ++i) {
      const SampledToken& token = given[begin + i];
      REQUIRE(known && i < found->most() && token.position == found->first + i, where,
              " has a token for ", name_of(token.sequence), " at position ", token.position,
              ", which is not the next position that the step sampled");
      const std::size_t next = i + 1;
      const bool behind_draft = next < end - begin && next >= found->count && next < found->most();
      const bool goes_on = token.finish == FinishReason::kNone;
      REQUIRE(!behind_draft || (goes_on && token.token == found->drafts[next - found->count]),
              where, " continues after a rejected draft or the end of ", name_of(token.sequence),
              " at position ", token.position);
    }
    const auto index = static_cast<std::size_t>(found - step.samples.begin());
    REQUIRE(!answered[index], where, " has two tokens for ", name_of(first.sequence));
    answered[index] = true;
    expected = index + 1;
    REQUIRE(end - begin >= found->count, where, " lacks the token of ", name_of(first.sequence),
            " at position ", found->first, (end - begin));
    all.push_back({given.subspan(begin, end - begin), &*found});
  }
  for (std::size_t i = 0; i < step.samples.size(); ++i) {
    REQUIRE(answered[i] || !may_answer(step.samples[i]), where, " lacks the token of ",
            name_of(step.samples[i].sequence));
  }
  return all;
}

// Whether the answer may have tokens for these samples. If they are only drafts that continue an
// earlier step's drafts, it has tokens for them only if the first of them is the token drawn there.
bool Batcher::may_answer(const Samples& samples) const {
  if (samples.count > 0) return true;
  const auto found = sequences_.find(samples.sequence);
  if (samples.void_now || found == sequences_.end()) return false;
  const Drafts& drafts = found->second.drafts;
  return samples.first == drafts.first;
}

Status Batcher::on_tokens(const StepTokens& tokens, Duration took) {
  REQUIRE(tokens.epoch == options_.epoch, "tokens of epoch ", tokens.epoch.value,
          ", this is epoch ", options_.epoch.value);
  REQUIRE(!in_flight_.empty() && in_flight_.front().step == tokens.step, "step ", tokens.step.value,
          " is answered and is not the oldest in flight");
  TRY(const std::vector<Answered> answers, check(in_flight_.front(), tokens));
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (step.timed) costs_.take(step.rows, took);
  pace_prompts(step, took);
  for (const Answered& answered : answers) {
    const SequenceId id = answered.tokens.front().sequence;
    const auto drafts = std::ranges::find(tokens.drafts, id, &SequenceDrafts::sequence);
    take(answered, drafts == tokens.drafts.end() ? std::span<const TokenId>() : drafts->forced);
  }
  return ok_status();
}

// The longest time since their last tokens that sequences of this step have waited says whether
// prompts may go on as they do. Only times count in which all steps left at the present pace.
void Batcher::pace_prompts(const StepInFlight& step, Duration took) {
  elapsed_ += took;
  const std::uint64_t id = step.step.value;
  if (step.prompt_rows > 0) last_with_prompt_ = id;
  if (!step.paced) last_not_paced_ = id;
  if (step.pace != pace_.round()) last_other_pace_ = id;
  Duration longest{};
  std::uint64_t since = id;
  for (const Samples& samples : step.samples) {
    const auto found = sequences_.find(samples.sequence);
    if (found == sequences_.end()) continue;
    const auto before = std::exchange(found->second.told, std::pair(elapsed_, id));
    if (!before || elapsed_ - before->first <= longest) continue;
    longest = elapsed_ - before->first;
    since = before->second;
  }
  INVARIANT(since <= id, "tokens come in the order of their steps");
  if (longest == Duration::zero()) return;
  if (last_with_prompt_ <= since) return pace_.take_idle(longest);
  if (last_other_pace_ <= since) pace_.take_busy(longest, last_not_paced_ <= since);
}

void Batcher::take(const Answered& answered, std::span<const TokenId> forced) {
  const SequenceId id = answered.tokens.front().sequence;
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;  // cancelled while its row was under way
  Sequence& sequence = found->second;
  const SampledToken& last = answered.tokens.back();
  if (!answered.samples->drafts.empty()) {
    INVARIANT(sequence.drafting > 0 && last.position <= sequence.next,
              "drafts that are answered were sent");
    --sequence.drafting;
  }
  const bool more = sequence.goes_on(answered);
  if (!more && sequence.drafts.sent > 0 && last.position < sequence.next) {
    sequence.truncate = last.position;
    sequence.next = last.position;
  }
  if (!more && sequence.drafting > 0) void_drafts(id);
  if (last.finish != FinishReason::kNone || (sequence.cancelled && !more)) return end(id);
  if (last.position < sequence.submitted) return;
  if (!more) sequence.token = last.token;
  bool waits = more;
  if (sequence.may_draft) {
    rate_drafts(sequence, answered.tokens);
    time_answer(sequence, answered.tokens.size());
    for (const SampledToken& token : answered.tokens) {
      if (token.position >= sequence.submitted) add_token(sequence, token.token);
    }
    if (more) {
      draft_further(sequence, last.position + 1);
    } else {
      asks_.drop_drafts(id);
      draft(sequence, forced);
      waits = ask_model(sequence);
    }
  }
  if (!waits) returned_.push_back(id);
}

// Whether the answer's last token was drafted, and is under way in a later step already.
bool Batcher::Sequence::goes_on(const Answered& answered) const {
  const SampledToken& last = answered.tokens.back();
  const bool all = last.position + 1 == answered.samples->end();
  if (!all || drafting == 0 || last.finish != FinishReason::kNone) return false;
  INVARIANT(last.position >= drafts.first && last.position - drafts.first < drafts.sent,
            "drafts under way follow each other");
  return drafts.tokens[last.position - drafts.first] == last.token;
}

void Batcher::void_drafts(SequenceId id) {
  for (StepInFlight& step : in_flight_) {
    for (Samples& samples : step.samples) {
      if (samples.sequence == id && samples.count == 0) samples.void_now = true;
    }
  }
  sequences_.at(id).drafting = 0;
}

// --- drafts ---

// Also compares the token with the draft that a lookup would have made, sent or not: this measures
// how good drafts are.
void Batcher::add_token(Sequence& sequence, TokenId token) {
  const TokenLookup::Match match = sequence.lookup.find(1);
  if (!match.next.empty()) sequence.odds.take(match.length, match.next.front() == token);
  sequence.lookup.append(token);
}

void Batcher::rate_drafts(Sequence& sequence, std::span<const SampledToken> tokens) {
  const Drafts& drafts = sequence.drafts;
  if (drafts.kind == DraftKind::kLookup) return;
  for (const SampledToken& token : tokens) {
    if (token.position < drafts.first) continue;
    if (token.position - drafts.first >= drafts.tokens.size()) return;
    const bool right = token.token == drafts.tokens[token.position - drafts.first];
    if (drafts.kind == DraftKind::kModel) {
      model_drafts_.take_draft(right);
    } else {
      sequence.odds.take(DraftOdds::kForced, right);
    }
    if (!right) return;
  }
}

// Rows beyond these give no token that is wanted. The last row of a receipt's window is not
// drafted: a stage claims it at once and cannot take it back.
std::size_t Batcher::draft_room(const Sequence& sequence, Position first) const {
  const std::uint64_t end =
      std::uint64_t{sequence.open.prompt_tokens} + sequence.open.sampling.max_tokens - 1;
  const std::uint64_t left = end > first ? end - first : 0;
  const std::uint64_t in_window = limits::kWindowPositions - 1 - first % limits::kWindowPositions;
  const std::uint64_t steps = most_in_flight_;
  return std::min({left, in_window, steps * options_.draft_rows});
}

void Batcher::draft(Sequence& sequence, std::span<const TokenId> forced) {
  Drafts& drafts = sequence.drafts;
  const Position first = sequence.next + 1;
  const std::size_t most = draft_room(sequence, first);
  if (options_.draft) {
    drafts = {};
    drafts.first = first;
    drafts.tokens = options_.draft(sequence.open, first);
    drafts.tokens.resize(std::min(drafts.tokens.size(), most));
    return;
  }
  const TokenLookup::Match match = sequence.lookup.find(most);
  drafts = drafts_of(sequence, match.next, DraftKind::kLookup, match.length, first);
  const std::span<const TokenId> begin = forced.first(std::min(forced.size(), most));
  Drafts other = drafts_of(sequence, begin, DraftKind::kGrammar, DraftOdds::kForced, first);
  if (tokens_expected(other.odds) > tokens_expected(drafts.odds)) drafts = std::move(other);
}

// The drafts under way are right so far: what is expected from `first` on, where it begins as they
// go on.
void Batcher::draft_further(Sequence& sequence, Position first) {
  Drafts& drafts = sequence.drafts;
  const std::size_t done = first - drafts.first;
  const std::size_t flying = drafts.sent - done;
  INVARIANT(first > drafts.first && sequence.next == first + flying,
            "what is under way begins behind what was answered");
  const std::span<const TokenId> under_way(drafts.tokens.data() + done, flying);
  if (!options_.draft) {
    const TokenLookup::Match match = sequence.lookup.find(draft_room(sequence, first));
    Drafts more = drafts_of(sequence, match.next, DraftKind::kLookup, match.length, first);
    const bool same = more.tokens.size() > flying &&
                      std::equal(under_way.begin(), under_way.end(), more.tokens.begin());
    // A model makes more of its own, unless these are likelier.
    const bool model = drafts.ahead && drafts.more > 0;
    if (same && (!model || more.odds[flying] > model_drafts_.odds())) {
      asks_.drop_drafts(sequence.open.sequence);
      more.sent = flying;
      drafts = std::move(more);
      return;
    }
  }
  const auto drop = static_cast<std::ptrdiff_t>(done);
  drafts.tokens.erase(drafts.tokens.begin(), drafts.tokens.begin() + drop);
  if (!drafts.odds.empty()) drafts.odds.erase(drafts.odds.begin(), drafts.odds.begin() + drop);
  drafts.first = first;
  drafts.sent = flying;
}

Batcher::Drafts Batcher::drafts_of(const Sequence& sequence, std::span<const TokenId> tokens,
                                   DraftKind kind, std::uint32_t matched, Position first) const {
  Drafts drafts;
  drafts.kind = kind;
  drafts.first = first;
  const std::vector<TokenId>& ends = sequence.open.sampling.stop_tokens;
  for (const TokenId token : tokens) {
    if (std::ranges::find(ends, token) != ends.end()) break;  // nothing comes behind it
    drafts.tokens.push_back(token);
    drafts.odds.push_back(kind == DraftKind::kModel ? model_drafts_.odds()
                                                    : sequence.odds.of(matched));
    if (kind == DraftKind::kLookup) ++matched;
  }
  return drafts;
}

void Batcher::Drafts::append(const Drafts& further) {
  INVARIANT(kind == DraftKind::kModel && end() == further.first,
            "drafts that are wanted follow those before them");
  tokens.insert(tokens.end(), further.tokens.begin(), further.tokens.end());
  odds.insert(odds.end(), further.odds.begin(), further.odds.end());
}

// --- the draft model ---

// Only the tokens of a lone sequence are timed: other sequences change a token's time too.
void Batcher::time_answer(Sequence& sequence, std::size_t tokens) {
  if (!options_.draft_model) return;
  const bool alone = sequences_.size() == 1;
  const auto before = std::exchange(sequence.alone, std::nullopt);
  const Duration now = elapsed_ + waited_;
  if (alone) sequence.alone = now;
  if (!alone || !before) return;
  model_drafts_.take_answer(now - *before, static_cast<std::uint32_t>(tokens));
}

// True if the sequence now waits for drafts. The model is loaded, and reads a long text piece by
// piece, beside the steps: no step waits for that.
bool Batcher::ask_model(Sequence& sequence) {
  const bool may =
      options_.draft_model && sequences_.size() == 1 && !sequence.cancelled && !sequence.no_model;
  if (!may || (!options_.draft_model_plan && !model_drafts_.asks())) return false;
  const std::size_t known = sequence.lookup.tokens().size();
  INVARIANT(known == std::size_t{sequence.next} + 1, "drafts follow the newest token");
  const std::size_t unread = known - std::min<std::size_t>(known, sequence.model_read);
  ModelDrafts::Plan plan;
  if (model_loaded_ && unread <= kUnreadTokens) {
    const std::size_t room = draft_room(sequence, sequence.next + 1);
    const std::size_t most = std::min<std::size_t>(room, limits::kDraftRows);
    plan = options_.draft_model_plan
               ? *options_.draft_model_plan
               : model_drafts_.plan(costs_, most_in_flight_ - 1, sequence.drafts.odds, most);
    plan.count = static_cast<std::uint32_t>(std::min<std::size_t>(plan.count, most));
    if (plan.count == 0) return false;
  }
  if (plan.ahead) {  // next_ask() asks, perhaps after the answer to an earlier ask
    sequence.drafts = {};
    sequence.drafts.kind = DraftKind::kModel;
    sequence.drafts.first = sequence.next + 1;
    sequence.drafts.ahead = true;
    sequence.drafts.more = plan.count;
    return false;
  }
  if (asks_.under_way()) return false;
  ask(sequence, plan.count, plan.count > 0);
  return asks_.waits();
}

void Batcher::ask(const Sequence& sequence, std::uint32_t count, bool waits) {
  DraftAsk ask;
  ask.open = sequence.open;
  ask.open.scored = {};
  ask.tokens = sequence.lookup.tokens();
  const Drafts& drafts = sequence.drafts;
  if (drafts.kind == DraftKind::kModel) {
    ask.tokens.insert(ask.tokens.end(), drafts.tokens.begin(), drafts.tokens.end());
  }
  ask.count = count;
  ask.waited_for = waits;
  asks_.begin(std::move(ask));
}

std::optional<DraftAsk> Batcher::next_ask() {
  if (asks_.under_way() || sequences_.size() != 1) return asks_.give_out();
  const Sequence& sequence = sequences_.begin()->second;
  const Drafts& drafts = sequence.drafts;
  const bool wanted = drafts.more > 0 && drafts.left() == 0 && !sequence.cancelled &&
                      (sends_all_drafts() || chance_of(drafts.odds) >= kLeastOdds);
  const std::size_t room = wanted ? draft_room(sequence, drafts.end()) : 0;
  if (room > 0) {
    ask(sequence, static_cast<std::uint32_t>(std::min<std::size_t>(drafts.more, room)), false);
  }
  return asks_.give_out();
}

void Batcher::on_drafts(DraftAnswer answer, Duration took, Duration waited) {
  const DraftAsks::Asked asked = asks_.answered(answer.sequence);
  waited_ += waited;
  if (!answer.failed) model_loaded_ = true;
  const auto found = sequences_.find(asked.sequence);
  if (found == sequences_.end()) return;
  Sequence& sequence = found->second;
  sequence.model_read = answer.read;
  sequence.no_model = answer.failed;
  if (asked.count == 0) return;
  model_drafts_.take_drafts(took, static_cast<std::uint32_t>(answer.drafts.size()));
  answer.drafts.resize(std::min<std::size_t>(answer.drafts.size(), asked.count));
  Drafts drafts = drafts_of(sequence, answer.drafts, DraftKind::kModel, 0, asked.first);
  if (!asked.waits) {
    sequence.drafts.append(drafts);
    if (drafts.tokens.size() < asked.count) sequence.drafts.more = 0;  // the answer ends there
    return;
  }
  INVARIANT(asked.first == sequence.next + 1, "a sequence that waits has made no step");
  if (options_.draft_model_plan ||
      tokens_expected(drafts.odds) > tokens_expected(sequence.drafts.odds)) {
    sequence.drafts = std::move(drafts);
  }
  returned_.push_back(asked.sequence);
}

void Batcher::stop_waiting(Duration took) {
  const std::optional<SequenceId> sequence = asks_.stop_waiting();
  if (!sequence) return;
  waited_ += took;
  if (sequences_.contains(*sequence)) returned_.push_back(*sequence);
}

std::optional<Duration> Batcher::patience() const {
  if (!asks_.waits()) return std::nullopt;
  return model_drafts_.patience();
}

// Each of the sequences in turn takes the drafts that make the step give the most a second.
std::vector<std::uint32_t> Batcher::share_drafts(const std::vector<SequenceId>& decoded) const {
  auto rows = static_cast<std::uint32_t>(decoded.size());
  double tokens = rows;
  std::vector<std::uint32_t> counts;
  for (const SequenceId id : decoded) {
    const Drafts& drafts = sequences_.at(id).drafts;
    const std::size_t room = std::min<std::size_t>(
        {drafts.tokens.size(), options_.batch_rows - rows, options_.draft_rows});
    std::uint32_t count = static_cast<std::uint32_t>(room);
    if (!sends_all_drafts()) {
      const std::span<const double> odds(drafts.odds);
      count = drafts_worth(costs_, rows, tokens, odds.first(room));
      // A model's drafts are verified in one step: the model drafts no more before the answer.
      const bool more = may_go_further() && drafts.kind != DraftKind::kModel;
      if (more) count = std::min(count, step_of(odds));
      tokens += tokens_expected(odds.first(count));
    }
    rows += count;
    counts.push_back(count);
  }
  INVARIANT(rows <= options_.batch_rows, "drafts share what a step has left");
  return counts;
}

void Batcher::add_drafts(StepBatch& batch, Sequence& sequence, std::uint32_t count) {
  Drafts& drafts = sequence.drafts;
  INVARIANT(count <= drafts.left(), "only what was drafted is sent");
  if (count == 0) return;
  const auto flags =
      static_cast<std::uint8_t>(BatchRow::kSample | BatchRow::kDraft | flag_of(drafts.kind));
  Samples& samples = in_flight_.back().samples.back();
  for (std::uint32_t i = 0; i < count; ++i) {
    const TokenId token = drafts.tokens[drafts.sent++];
    batch.rows.push_back({sequence.open.sequence, sequence.next, token, flags});
    ++sequence.next;
    samples.drafts.push_back(token);
  }
  INVARIANT(sequence.next == drafts.first + drafts.sent, "drafts stand where they are expected");
  ++sequence.drafting;
}

// Stages are idle: fewer sequences decode than steps may be in flight, and no prompt waits.
bool Batcher::may_go_further() const {
  return decoding() < most_in_flight_ && prompts_[0].empty() && prompts_[1].empty();
}

void Batcher::add_further_drafts(StepBatch& batch) {
  if (!batch.rows.empty() || !may_go_further()) return;
  std::vector<SequenceId> drafting;
  for (const auto& [id, sequence] : sequences_) {
    const bool further = sequence.drafting > 0 || sequence.drafts.ahead;
    if (further && !sequence.cancelled) drafting.push_back(id);
  }
  std::ranges::sort(drafting);
  for (const SequenceId id : drafting) {
    Sequence& sequence = sequences_.at(id);
    const std::size_t room = std::min<std::size_t>(
        {sequence.drafts.left(), options_.batch_rows - batch.rows.size(), options_.draft_rows});
    const std::size_t count = further(sequence, room);
    if (count == 0) continue;
    in_flight_.back().samples.push_back({id, sequence.next + 1, 0, {}});
    add_drafts(batch, sequence, static_cast<std::uint32_t>(count));
  }
}

// None where the drafts under way are rather wrong: what is sent behind them delays the step that
// corrects them.
std::size_t Batcher::further(const Sequence& sequence, std::size_t room) const {
  if (sends_all_drafts() || room == 0) return room;
  const Drafts& drafts = sequence.drafts;
  const std::span<const double> all(drafts.odds);
  if (chance_of(all.first(drafts.sent)) < kLeastOdds) return 0;
  const std::span<const double> odds = all.subspan(drafts.sent, room);
  const std::uint32_t count = 1 + drafts_worth(costs_, 1, odds.front(), odds.subspan(1));
  return std::min(count, step_of(odds));
}

// --- steps ---

std::uint32_t Batcher::decoding() const {
  return static_cast<std::uint32_t>(sequences_.size() - prompts_[0].size() - prompts_[1].size());
}

void Batcher::add_row(StepBatch& batch, Sequence& sequence, TokenId token, bool sample) {
  const SequenceId id = sequence.open.sequence;
  const std::uint8_t flags = sample ? BatchRow::kSample : 0;
  batch.rows.push_back({id, sequence.next, token, flags});
  ++sequence.next;
  if (!sample) return;
  std::vector<Samples>& samples = in_flight_.back().samples;
  if (samples.empty() || samples.back().sequence != id) {
    samples.push_back({id, sequence.next, 0, {}});
  }
  ++samples.back().count;
}

// An equal share of the decoding sequences, so that as many are left for every other step that
// travels. All of them wait for a token: none waits longer than one round of the ring.
void Batcher::add_decode_rows(StepBatch& batch) {
  const std::uint32_t steps = most_in_flight_;
  const std::uint32_t share = decoding() / steps + (decoding() % steps != 0 ? 1 : 0);
  const std::uint32_t most = std::min(share, options_.batch_rows);
  std::vector<SequenceId> decoded;
  while (!returned_.empty() && decoded.size() < most) {
    decoded.push_back(returned_.front());
    returned_.pop_front();
  }
  const bool prompts = !prompts_[0].empty() || !prompts_[1].empty();
  const std::vector<std::uint32_t> drafts =
      prompts ? std::vector<std::uint32_t>(decoded.size()) : share_drafts(decoded);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    Sequence& sequence = sequences_.at(decoded[i]);
    if (const auto length = std::exchange(sequence.truncate, std::nullopt)) {
      batch.truncates.push_back({decoded[i], *length});
    }
    add_row(batch, sequence, sequence.token, true);
    add_drafts(batch, sequence, drafts[i]);
  }
}

// Prompt rows of the next step. While no answer waits, prompts take all of a step's prompt rows.
std::uint32_t Batcher::prompt_room() const {
  if (decoding() == 0) return options_.prefill_rows;
  const auto with_prompts = std::ranges::count_if(
      in_flight_, [](const StepInFlight& step) { return step.prompt_rows > 0; });
  return with_prompts < pace_.steps() ? pace_.rows() : 0;
}

void Batcher::add_prompt_rows(StepBatch& batch, std::uint32_t room) {
  std::uint32_t left =
      std::min(room, options_.batch_rows - static_cast<std::uint32_t>(batch.rows.size()));
  if (left == 0) return;
  const bool both = !prompts_[0].empty() && !prompts_[1].empty();
  const std::size_t first = both && background_first_ ? 1 : 0;
  if (both) background_first_ = !background_first_;
  const std::uint32_t most = left;
  if (add_prompt_rows(batch, first, left, most)) add_prompt_rows(batch, 1 - first, left, most);
}

std::deque<SequenceId>::iterator Batcher::next_prompt(std::deque<SequenceId>& waiting,
                                                      bool shortest) {
  if (!shortest) return waiting.begin();
  return std::ranges::min_element(waiting, {}, [&](SequenceId id) {
    const Sequence& sequence = sequences_.at(id);
    return sequence.submitted - sequence.next;
  });
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
bool Batcher::add_prompt_rows(StepBatch& batch, std::size_t kind, std::uint32_t& left,
                              std::uint32_t most) {
  std::deque<SequenceId>& waiting = prompts_[kind];
  const bool shortest = shortest_first_[kind];
  if (!waiting.empty() && left > 0) shortest_first_[kind] = !shortest;
  while (!waiting.empty() && left > 0) {
    const auto prompt = next_prompt(waiting, shortest);
    Sequence& sequence = sequences_.at(*prompt);
    const std::uint32_t rows = chunk(sequence, left, left == most);
    if (rows == 0) return false;
    if (!sequence.opened) {
      if (batch.opens.size() >= limits::kBatchOpens) return false;
      batch.opens.push_back(sequence.open);
      sequence.opened = true;
    }
    for (std::uint32_t i = 0; i < rows; ++i) {
      const TokenId token = sequence.tokens[sequence.next];
      add_row(batch, sequence, token, sequence.samples_next());
      if (sequence.may_draft) sequence.lookup.append(token);
    }
    left -= rows;
    if (!sequence.decoding()) return true;
    sequence.tokens = {};
    waiting.erase(prompt);
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
    const Release& release = releases_.front();
    if (release.truncate) {
      if (batch.truncates.size() >= limits::kBatchTruncates) break;
      batch.truncates.push_back({release.sequence, *release.truncate});
    }
    batch.releases.push_back(release.sequence);
    releases_.pop_front();
  }
}

std::optional<StepBatch> Batcher::next() {
  most_in_flight_ = steps_wanted(options_, decoding());
  INVARIANT(most_in_flight_ > 0 && most_in_flight_ <= options_.batches_in_flight,
            "no more steps are in flight than every stage takes");
  if (in_flight_.size() >= most_in_flight_) return std::nullopt;
  StepBatch batch;
  batch.epoch = options_.epoch;
  batch.step = StepId(next_step_);
  in_flight_.push_back({.step = batch.step, .samples = {}});
  add_decode_rows(batch);
  const std::size_t decoded = batch.rows.size();
  const std::uint32_t room = prompt_room();
  add_prompt_rows(batch, room);
  const std::size_t prompts = batch.rows.size() - decoded;
  add_further_drafts(batch);
  add_ends(batch);
  if (batch.rows.empty() && batch.releases.empty()) {
    in_flight_.pop_back();
    return std::nullopt;
  }
  StepInFlight& step = in_flight_.back();
  step.rows = static_cast<std::uint32_t>(batch.rows.size());
  step.prompt_rows = static_cast<std::uint32_t>(prompts);
  step.pace = pace_.round();
  step.paced = step.prompt_rows + kernels::kPageTokens > room;
  // Steps wait for those before them.
  step.timed = step.rows == decoded && std::ranges::all_of(in_flight_, &StepInFlight::timed);
  ++next_step_;
  return batch;
}

}  // namespace hearth::node
