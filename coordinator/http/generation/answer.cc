#include "coordinator/http/generation/answer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::int64_t kAgreeSeconds = 30;  // less than what a look-up by name allows for

}  // namespace

AnswerIdentity::AnswerIdentity(const HttpOptions& options, Random& random,
                               const GenerationRequest& request, const std::optional<Keep>& keep,
                               std::int64_t created,
                               const std::optional<ledger::AnswerName>& receipt)
    : ledger_(options.ledger), secret_(options.secret), created_(created) {
  // A seed of 53 bits comes back unchanged through every JSON reader.
  constexpr int kJsonExactShift = 64 - 53;
  seed_ = keep ? keep->seed : random.next() >> kJsonExactShift;
  if (request.seed) seed_ = *request.seed;
  id_ = fmt::format("{}cmpl-{:016x}", request.chat ? "chat" : "",
                    keep ? keep->answer : random.next());
  if (ledger_ != nullptr && ledger_->fault().empty()) {
    receipt_ = receipt ? receipt : new_receipt(random, keep.has_value());
  }
}

ledger::AnswerName AnswerIdentity::new_receipt(Random& random, bool is_kept) const {
  // The id of a kept request follows from owner, Idempotency-Key and body, and may come again.
  const std::string drawn = is_kept ? fmt::format(" {:016x}", random.next()) : "";
  const Hash256 own = keyed_blake2b(secret_, as_bytes("receipt of " + id_ + drawn));
  // The log's time runs evenly even when the server's clock is set. The answer states it only if
  // the two differ: a saved answer is compared with its name to the second.
  const std::int64_t logged = ledger_->time().value_or(created_);
  const bool agrees = std::abs(logged - created_) <= kAgreeSeconds;
  return ledger::answer_name(agrees ? created_ : logged, own.bytes);
}

Hash256 AnswerIdentity::salt() const {
  return keyed_blake2b(secret_, as_bytes("salt of receipt " + receipt_text()));
}

std::optional<ReceiptOrder> AnswerIdentity::receipt_order(std::uint32_t choice) const {
  if (!receipt_) return std::nullopt;
  static_assert(limits::kHttpSequences <= 256, "the number of a choice is one byte of its name");
  INVARIANT(choice < limits::kHttpSequences, "a request has at most kHttpSequences choices");
  const ledger::RequestId request =
      ledger::request_of(*receipt_, static_cast<std::uint16_t>(choice));
  return ReceiptOrder{request, ledger::choice_salt(salt(), request)};
}

std::optional<AnswerProof> AnswerIdentity::proof(std::uint32_t max_tokens) const {
  if (!receipt_ || !ledger_->fault().empty()) return std::nullopt;
  return AnswerProof{receipt_text(), salt().hex(), max_tokens};
}

HeaderFields AnswerIdentity::headers() const {
  if (!receipt_) return {};
  return {{"x-hearth-receipt", receipt_text()}};
}

Answer::Answer(const ServedModel& model, GenerationInput input, AnswerIdentity identity)
    : model_(model), input_(std::move(input)), identity_(std::move(identity)) {
  const GenerationRequest& request = input_.request;
  INVARIANT(!input_.prompts.empty() && request.n > 0, "a request has a prompt and a choice of it");
  for (const auto& prompt : input_.prompts) {
    prompt_tokens_ += prompt.size();
    for (std::uint32_t i = 0; i < request.n; ++i) {
      const auto index = static_cast<std::uint32_t>(parts_.size());
      parts_.push_back({Choice(index, request, prompt, echo(index), model_.tokenizer, form())});
      parts_.back().prompt_tokens = prompt.size();
    }
  }
}

const std::vector<TokenId>& Answer::prompt(std::uint32_t choice) const {
  INVARIANT(prompt_index(choice) < input_.prompts.size(), "the prompt of a choice is still there");
  return input_.prompts[prompt_index(choice)];
}

std::string Answer::echo(std::uint32_t choice) const {
  return input_.request.echo ? input_.echoes[prompt_index(choice)] : std::string();
}

SamplingParams Answer::sampling(std::uint32_t choice) const {
  return sampling_params(input_.request, identity_.seed(), choice, parts_[choice].max_tokens,
                         *model_.tokenizer);
}

void Answer::set_default_lengths() {
  const GenerationRequest& request = input_.request;
  const std::uint32_t context = model_.spec.context;
  for (Part& part : parts_) {
    const auto used = static_cast<std::uint32_t>(part.prompt_tokens);
    const std::uint32_t left = context > used ? context - used : 1;
    const std::uint32_t usual = request.fills_context ? left
                                : request.chat        ? limits::kDefaultMaxTokens
                                                      : kCompletionMaxTokens;
    part.max_tokens = request.max_tokens.value_or(std::min(left, usual));
  }
}

void Answer::set_length(std::uint32_t choice, std::uint32_t max_tokens) {
  INVARIANT(max_tokens > 0 && max_tokens <= parts_[choice].max_tokens,
            "a length is lowered and never raised");
  parts_[choice].max_tokens = max_tokens;
}

void Answer::set_lengths(const std::vector<std::uint32_t>& by_prompt) {
  INVARIANT(by_prompt.size() == input_.prompts.size(), "each prompt has a length");
  for (std::uint32_t i = 0; i < size(); ++i) parts_[i].max_tokens = by_prompt[prompt_index(i)];
}

void Answer::restore(std::uint32_t choice, std::vector<SampledToken> tokens, TimePoint now) {
  Part& part = parts_[choice];
  INVARIANT(part.choice.tokens() == 0, "a choice is restored before its first token");
  part.admitted = part.first_token = part.last_token = now;
  // Hashes are not stored: all of them come with the last token, again.
  if (input_.request.return_hashes && !tokens.empty()) tokens.pop_back();
  for (const SampledToken& token : tokens) part.choice.push(token);
  if (part.choice.done()) settle(choice);
}

void Answer::set_cached(std::uint32_t choice, std::uint32_t positions) {
  INVARIANT(positions <= parts_[choice].prompt_tokens, "only the prompt's tokens are cached");
  parts_[choice].cached_tokens = positions;
}

void Answer::score(std::uint32_t choice, std::vector<SampledToken> scores) {
  for (SampledToken& score : scores) parts_[choice].choice.score(std::move(score));
}

void Answer::add_drafts(std::uint32_t choice, const DraftCounts& counts) {
  INVARIANT(choice < parts_.size(), "drafts are of a choice");
  for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
    drafts_[kind].drafted += counts[kind].drafted;
    drafts_[kind].accepted += counts[kind].accepted;
  }
}

void Answer::embed(std::uint32_t choice, std::vector<float> values) {
  parts_[choice].choice.embed(std::move(values));
}

bool Answer::push(std::uint32_t choice, const SampledToken& token, TimePoint now) {
  Part& part = parts_[choice];
  INVARIANT(!part.settled && !part.choice.done(), "a token comes before the end of its choice");
  const bool ready = part.choice.push(token);
  if (part.choice.tokens() == 1) part.first_token = now;
  part.last_token = now;
  if (part.choice.stopped_by_text()) part.stopped = token.position;
  return ready;
}

bool Answer::add_hashes(std::uint32_t choice, std::vector<RowHash> hashes) {
  Part& part = parts_[choice];
  INVARIANT(!part.hashed, "the hashes of a choice come once");
  const bool waited = waits_for_hashes(part);
  part.hashed = true;
  part.hashes = std::move(hashes);
  if (!waited) return false;
  // A sequence that ended by itself before it could be stopped has more hashes.
  std::erase_if(part.hashes, [&](const RowHash& hash) { return hash.position >= *part.stopped; });
  return true;
}

void Answer::settle(std::uint32_t choice) {
  Part& part = parts_[choice];
  INVARIANT(part.choice.done() && !part.settled, "a choice settles once, after its last token");
  part.settled = true;
  ++settled_;
}

bool Answer::has_tokens() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.choice.tokens() > 0; });
}

std::uint64_t Answer::tokens_left(std::uint32_t choice) const {
  const Part& part = parts_[choice];
  return part.max_tokens - std::min(part.max_tokens, part.choice.tokens());
}

AnswerHead Answer::head() const {
  return {input_.request.chat, identity_.id(),     identity_.created(),
          model_.id,           model_.fingerprint, input_.request.include_usage};
}

AnswerStart Answer::start() const {
  return {head(),       prompt_tokens_,  input_.frame, input_.request.embedding,
          input_.fixed, model_.tokenizer};
}

// A prompt counts once, as computed for the first of its choices.
std::uint64_t Answer::cached_tokens() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < size(); i += input_.request.n) sum += parts_[i].cached_tokens;
  return sum;
}

Usage Answer::usage() const {
  Usage out{prompt_tokens_};
  out.cached_tokens = cached_tokens();
  for (const Part& part : parts_) {
    if (input_.request.only_prompt) continue;
    out.completion_tokens += part.choice.tokens();
    out.reasoning_tokens += part.choice.reasoning_tokens();
  }
  return out;
}

Timings Answer::timings() const {
  TimePoint admitted = TimePoint::max();
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const Part& part : parts_) {
    admitted = std::min(admitted, part.admitted);
    first = std::min(first, part.first_token);
    last = std::max(last, part.last_token);
  }
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return {prompt_tokens_,
          Milliseconds(first - admitted).count(),
          usage().completion_tokens,
          Milliseconds(last - first).count(),
          cached_tokens(),
          drafts_};
}

OrderedJson Answer::hearth() const {
  std::vector<ChoiceHashes> hashes;
  for (std::uint32_t i = 0; i < size(); ++i) hashes.push_back({i, parts_[i].hashes});
  return hearth_object(identity_.seed(), identity_.proof(parts_.front().max_tokens), hashes,
                       input_.request.return_hashes);
}

KeptRequest Answer::kept_request() const {
  const GenerationRequest& request = input_.request;
  KeptRequest out;
  out.fingerprint = model_.fingerprint;
  out.chat = request.chat;
  out.stream = request.stream;
  out.include_usage = request.include_usage;
  out.return_token_ids = request.return_token_ids;
  out.n = request.n;
  out.created = identity_.created();
  out.receipt = identity_.receipt();
  out.stop = request.stop;
  out.policy = request.policy;
  if (request.chat) {
    out.answer = {input_.prompt_tail, request.tools, request.parallel_tool_calls,
                  request.separate_reasoning};
    if (request.tool_choice == ToolChoice::kNone) out.answer.tools.clear();
  }
  if (request.echo) out.echoes = input_.echoes;
  for (std::uint32_t i = 0; i < size(); i += request.n) {
    SequenceOpen open{
        {}, static_cast<std::uint32_t>(prompt(i).size()), request.return_hashes, sampling(i)};
    open.drafts = request.asked.drafts;
    out.prompts.push_back({{}, std::move(open), prompt(i)});
  }
  return out;
}

std::size_t Answer::bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += part.choice.bytes() + part.hashes.size() * sizeof(RowHash);
  }
  return bytes;
}

void Answer::drop_prompts() {
  input_.prompts.clear();
  input_.echoes.clear();
}

}  // namespace hearth::coordinator::http
