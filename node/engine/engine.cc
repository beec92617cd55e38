#include "node/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "kernels/self_test.h"
#include "node/engine/batch_check.h"
#include "node/engine/device.h"
#include "node/engine/engine_step.h"
#include "node/engine/forward.h"
#include "node/engine/kv_cache.h"
#include "node/engine/prefix_cache.h"
#include "node/engine/prompt_embedder.h"
#include "node/engine/ranks/exchange.h"
#include "node/engine/sampler.h"
#include "node/engine/stage_memory.h"
#include "node/engine/step_hash.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

class StageEngine final : public Engine {
 public:
  StageEngine(std::shared_ptr<const model::GgufFile> file, const model::ModelSpec& spec,
              const EngineOptions& options, std::unique_ptr<StageForward> forward,
              std::optional<PromptEmbedder> embedder, std::uint64_t replay_bytes);

  bool can_begin(const StepBatch& batch) const override;
  Status begin(StepBatch& batch) override;
  bool ready() const override;
  Status finish(StepBatch& batch, StepResult& result) override;
  void keep() override;
  void reset() override;
  Result<std::vector<Hash256>> kv_hashes(SequenceId sequence) const override;
  Status verify_weights() override {
    INVARIANT(under_way_ == 0, "weights are checked between steps");
    return forward_->verify_weights();
  }

  bool is_first() const override { return options_.layers.begin == 0; }
  bool is_last() const override { return options_.layers.end == spec_.layers; }
  StepShape input_shape() const override {
    return {spec_.hidden, spec_.vocabulary, spec_.context, !is_first(), spec_.keeps_state()};
  }
  std::uint32_t kv_pages() const override { return forward_->pages().pages(); }
  std::uint32_t kv_pages_used() const override {
    INVARIANT(forward_->pages().pages_used() >= cache_.kept_pages(), "kept pages are in use");
    return forward_->pages().pages_used() - cache_.kept_pages();
  }
  std::uint32_t sequences() const override {
    const StatePool* states = forward_->states();
    return states == nullptr ? limits::kRunningSequences : states->states();
  }
  std::size_t weight_bytes() const override { return forward_->weight_bytes(); }

 private:
  bool has_pages(const StepBatch& batch) const;
  void open(const StepBatch& batch);
  void truncate(const StepBatch& batch);
  void enter(Step& step);
  void admit(Step& step);
  void follow_grammar(Step& step, std::uint32_t index);
  void adopt(Step& step, std::uint32_t index);
  bool grow(StageSequence& sequence, Position position);
  bool take_state(StageSequence& sequence) const;
  void give_state(StageSequence& sequence) const;
  bool replay(Step& step, std::uint32_t index);
  bool wanted(const StageSequence& sequence, const BatchRow& row) const;
  const Hash256& input_hash(Step& step, std::size_t index) const;
  void add_row(Step& step, std::uint32_t index);
  Hash256 decision_of(const Step& step) const;
  Status compute(Step& step);
  void settle(Step& step);
  bool observed(const BatchRow& row) const;
  // Whether the last stage scores the prompt's next token at this row.
  bool scores(const StageSequence& sequence, Position position) const {
    return is_last() && std::size_t{position} + 1 < sequence.open.scored.size();
  }
  void score(Step& step, std::uint32_t index, unsigned thread, std::span<const float> logits);
  // Whether the last stage makes the prompt's embedding from this row, the prompt's last.
  bool embeds(const StageSequence& sequence, Position position) const {
    return is_last() && sequence.open.embedding > 0 && position + 1 == sequence.open.prompt_tokens;
  }
  void embed(Step& step);
  void on_logits(Step& step, std::uint32_t computed, unsigned thread,
                 std::span<const float> logits);
  void sample(Step& step, std::uint32_t computed, unsigned thread, std::span<const float> logits);
  void on_token(Step& step, std::uint32_t computed, const Result<TokenId>& token) const;
  void request_draws(Step& step) const;
  static DrawRequest draw_request(const Step& step, std::uint32_t computed);
  void mark_cached(StageSequence& sequence, BatchRow& row, bool replayed) const;
  void hash_inputs(Step& step);
  void hash_outputs(Step& step) const;
  void release(Step& step);
  void leave(Step& step);
  ByteSpan activation(const StepBatch& batch, std::size_t row) const;
  bool leads() const { return options_.group == nullptr || options_.group->rank == 0; }
  std::size_t row_bytes() const { return spec_.hidden * sizeof(std::uint16_t); }

  const std::shared_ptr<const model::GgufFile> file_;  // keeps the spec's family and names alive
  const model::ModelSpec spec_;
  const EngineOptions options_;
  const std::unique_ptr<StageForward> forward_;
  std::vector<Sampler> samplers_;           // one a thread; last stage only
  GrammarStore grammars_;                   // last stage only
  std::optional<PromptEmbedder> embedder_;  // likewise
  StageSequences sequences_;
  PrefixCache cache_;
  std::array<Step, kStepsUnderWay> steps_;  // from oldest_ on, as many as are under way
  std::uint32_t oldest_ = 0;
  std::uint32_t under_way_ = 0;
};

StageEngine::StageEngine(std::shared_ptr<const model::GgufFile> file, const model::ModelSpec& spec,
                         const EngineOptions& options, std::unique_ptr<StageForward> forward,
                         std::optional<PromptEmbedder> embedder, std::uint64_t replay_bytes)
    : file_(std::move(file)),
      spec_(spec),
      options_(options),
      forward_(std::move(forward)),
      grammars_(*file_, options.vocabulary),
      embedder_(std::move(embedder)),
      cache_(kv_pages(), is_last() ? 0 : row_bytes(), replay_bytes) {
  if (is_last()) samplers_.assign(forward_->threads(), Sampler(spec_.vocabulary));
  if (is_last() && options_.vocabulary != nullptr) options_.vocabulary->begin(file_);
  for (Step& step : steps_) {
    step.sequences.reserve(options_.batch_rows);
    step.computed.reserve(options_.batch_rows);
    step.rows.reserve(options_.batch_rows);
    step.draws.reserve(is_last() ? options_.batch_rows : 0);
    step.outputs.on_logits = [this, &step](std::uint32_t row, unsigned thread,
                                           std::span<const float> logits) {
      on_logits(step, row, thread, logits);
    };
    step.outputs.on_token = [this, &step](std::uint32_t row, const Result<TokenId>& token) {
      on_token(step, row, token);
    };
  }
}

ByteSpan StageEngine::activation(const StepBatch& batch, std::size_t row) const {
  return ByteSpan(batch.activations).subspan(row * row_bytes(), row_bytes());
}

// --- begin and finish ---

bool StageEngine::can_begin(const StepBatch& batch) const {
  if (under_way_ == 0) return true;
  if (under_way_ == kStepsUnderWay || !forward_->may_overlap()) return false;
  const bool truncates = std::any_of(
      batch.truncates.begin(), batch.truncates.end(), [&](const SequenceTruncate& truncate) {
        const auto found = sequences_.find(truncate.sequence);
        return found != sequences_.end() && found->second.under_way > 0;
      });
  return !truncates && has_pages(batch);
}

// Whether the pool has pages for all rows, including rows that may turn out to have failed; pages
// that are only kept count as free. The batch is not checked yet.
bool StageEngine::has_pages(const StepBatch& batch) const {
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if (i + 1 < batch.rows.size() && batch.rows[i + 1].sequence == row.sequence) continue;
    const auto found = sequences_.find(row.sequence);
    const std::size_t held = found == sequences_.end() ? 0 : found->second.pages.size();
    const std::size_t needed = pages_for(row.position + 1, kernels::kPageTokens);
    wanted += needed - std::min(needed, held);
  }
  return wanted <= kv_pages() - kv_pages_used();
}

Status StageEngine::begin(StepBatch& batch) {
  INVARIANT(can_begin(batch), "a step waits until it can begin");
  TRY_VOID(kernels::check_float_environment());  // the caller may be another thread each time
  TRY_VOID(check_batch(batch, sequences_, input_shape(), options_.batch_rows));
  Step& step = steps_[(oldest_ + under_way_) % kStepsUnderWay];
  step.batch = std::move(batch);
  step.result = {};
  open(step.batch);
  truncate(step.batch);
  enter(step);
  admit(step);
  const Status computing = compute(step);
  if (!computing.ok()) {
    batch = std::move(step.batch);
    return computing;
  }
  hash_inputs(step);
  release(step);
  ++under_way_;
  INVARIANT(under_way_ <= kStepsUnderWay, "each step under way has buffers of its own");
  return ok_status();
}

bool StageEngine::ready() const {
  INVARIANT(under_way_ > 0, "a step is under way");
  return steps_[oldest_].rows.empty() || forward_->ready();
}

Status StageEngine::finish(StepBatch& batch, StepResult& result) {
  INVARIANT(under_way_ > 0, "a step is under way");
  Step& step = steps_[oldest_];
  const Status computed = step.rows.empty() ? ok_status() : forward_->finish();
  if (computed.ok()) {
    settle(step);
    if (is_last()) embed(step);
    if (is_last() && leads()) collect_tokens(step);
    hash_outputs(step);
    settle_hashes(step);
    if (is_last()) step.batch.activations.clear();
  }
  leave(step);
  if (!leads()) forget_tokens(step.result);
  step.result.kv_pages_kept = cache_.kept_pages();
  batch = std::move(step.batch);
  result = std::move(step.result);
  oldest_ = (oldest_ + 1) % kStepsUnderWay;
  --under_way_;
  return computed;
}

void StageEngine::open(const StepBatch& batch) {
  for (const SequenceOpen& open : batch.opens) {
    StageSequence sequence;
    sequence.open = open;
    if (!is_last()) sequence.open.scored = {};
    if (is_last()) {
      sequence.sampler = SamplerParams(open.sampling);
      if (!open.sampling.grammar.empty()) {
        auto masks = grammars_.masks_of(open.sampling.grammar);
        if (masks.ok()) {
          sequence.grammar.emplace(*std::move(masks));
        } else {
          sequence.fail(0, masks.error().code);
        }
      }
    }
    sequence.chain = open.scope.value_or(own_scope(open.sequence));
    sequence.pages.reserve(pages_for(spec_.context, kernels::kPageTokens));
    sequences_.emplace(open.sequence, std::move(sequence));
  }
}

// In the last remaining page, the slots after `length` keep their old values: they are written
// again before they are read.
void StageEngine::truncate(const StepBatch& batch) {
  for (const auto& [id, length] : batch.truncates) {
    StageSequence& sequence = sequences_.at(id);
    INVARIANT(sequence.open.prompt_tokens <= length && length <= sequence.next,
              "a checked truncation keeps the prompt and adds nothing");
    sequence.next = length;
    sequence.settled = std::min(sequence.settled, length);
    if (length < sequence.known) sequence.lose_chain(length);
    cache_.shrink(sequence.pages, length, forward_->pages());
    sequence.history.keep_generated(length - sequence.open.prompt_tokens);
    if (sequence.grammar) sequence.grammar->keep(length - sequence.open.prompt_tokens);
    std::erase_if(sequence.unsettled, [&](const RowHash& hash) { return hash.position >= length; });
    if (sequence.drawn && sequence.drawn->position > length) sequence.drawn.reset();
    if (sequence.failed_at && *sequence.failed_at >= length) sequence.failed_at.reset();
  }
}

// Finds the sequences of the rows. The step refers to them from here on: a sequence that it
// releases may be opened again under the same id before the step is finished.
void StageEngine::enter(Step& step) {
  step.sequences.clear();
  const std::vector<BatchRow>& rows = step.batch.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool same = i > 0 && rows[i].sequence == rows[i - 1].sequence;
    StageSequence* sequence = same ? step.sequences.back() : &sequences_.at(rows[i].sequence);
    if (!same) ++sequence->under_way;
    step.sequences.push_back(sequence);
  }
}

void StageEngine::leave(Step& step) {
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    if (i > 0 && step.sequences[i] == step.sequences[i - 1]) continue;
    INVARIANT(step.sequences[i]->under_way > 0, "a step leaves the sequences that it entered");
    --step.sequences[i]->under_way;
  }
  step.released.clear();
}

// Decides which rows are computed: those of sequences that have not failed and get their pages, and
// that are not replayed.
void StageEngine::admit(Step& step) {
  step.computed.clear();
  step.rows.clear();
  step.replayed.clear();
  step.inputs.assign(step.batch.rows.size(), std::nullopt);
  step.said = {};
  step.masks.clear();
  step.states.clear();
  step.scores.clear();
  for (std::uint32_t i = 0; i < step.batch.rows.size(); ++i) {
    const BatchRow& row = step.batch.rows[i];
    StageSequence& sequence = *step.sequences[i];
    INVARIANT(row.position == sequence.next, "a checked row stands at its sequence's end");
    sequence.next = row.position + 1;
    if (row.failed()) sequence.fail(row.position, row.reason());
    if (!sequence.failed(row.position)) adopt(step, i);
    if (!sequence.failed(row.position) && !grow(sequence, row.position)) {
      sequence.fail(row.position, ErrorCode::kNoCapacity);
    }
    if (sequence.sampler.penalties) {
      sequence.history.add(row.token, row.position >= sequence.open.prompt_tokens);
    }
    if (sequence.grammar) follow_grammar(step, i);
    if (!sequence.failed(row.position) && !replay(step, i)) add_row(step, i);
  }
}

// The mask is made now: later rows of the step, which may be drafts, move the state on.
void StageEngine::follow_grammar(Step& step, std::uint32_t index) {
  const BatchRow& row = step.batch.rows[index];
  StageSequence& sequence = *step.sequences[index];
  if (row.position >= sequence.open.prompt_tokens) sequence.grammar->add(row.token);
  if ((row.flags & BatchRow::kSample) == 0 || sequence.failed(row.position)) return;
  step.masks.resize(step.batch.rows.size());
  step.masks[index] = sequence.grammar->mask();
  if (!sequence.open.drafts || spec_.keeps_state()) return;  // forced tokens would be drafts
  step.states.resize(step.batch.rows.size());
  step.states[index] = sequence.grammar->state();
}

// At the first row of a page, as long as all rows before were found: looks for a page of the same
// rows that another sequence left. Pages of the prompt never change, so they may be shared: but for
// those in which a row is computed again, which two sequences would write at once.
void StageEngine::adopt(Step& step, std::uint32_t index) {
  const Position position = step.batch.rows[index].position;
  StageSequence& sequence = *step.sequences[index];
  const bool begins = position % kernels::kPageTokens == 0 && position == sequence.known;
  if (!begins || !sequence.chain || cache_.empty()) return;
  INVARIANT(sequence.pages.size() * kernels::kPageTokens == position,
            "a page is looked for where the table ends");
  bool may_share = position + kernels::kPageTokens <= sequence.open.prompt_tokens;
  std::vector<Hash256> inputs;
  for (std::size_t i = index; i < step.batch.rows.size() && inputs.size() < kernels::kPageTokens;
       ++i) {
    if (step.sequences[i] != &sequence || step.batch.rows[i].failed()) break;
    inputs.push_back(input_hash(step, i));
    if (wanted(sequence, step.batch.rows[i])) may_share = false;
  }
  const auto found = cache_.take(*std::exchange(sequence.chain, std::nullopt),
                                 sequence.open.sequence, inputs, may_share);
  if (!found) return;
  sequence.pages.push_back(found->page);
  sequence.known = position + found->rows;
  if (found->rows == kernels::kPageTokens) sequence.chain = found->chain;
}

bool StageEngine::take_state(StageSequence& sequence) const {
  StatePool* states = forward_->states();
  if (states == nullptr || sequence.state) return true;
  sequence.state = states->take();
  return sequence.state.has_value();
}

void StageEngine::give_state(StageSequence& sequence) const {
  if (sequence.state) forward_->states()->give(*std::exchange(sequence.state, std::nullopt));
}

bool StageEngine::grow(StageSequence& sequence, Position position) {
  if (!take_state(sequence)) return false;
  const bool begins = position == sequence.pages.size() * std::size_t{kernels::kPageTokens};
  if (begins && sequence.open.scope) cache_.make_room(forward_->pages());
  while (!forward_->pages().grow(sequence.pages, position + 1)) {
    if (!cache_.evict(forward_->pages())) return false;
  }
  return true;
}

// The last stage needs more of the row than its keys and values.
bool StageEngine::wanted(const StageSequence& sequence, const BatchRow& row) const {
  return is_last() && ((row.flags & BatchRow::kSample) != 0 || observed(row) ||
                       scores(sequence, row.position) || embeds(sequence, row.position));
}

// Copies the kept output now: the pages may belong to another sequence before the step is finished.
// A row that is wanted is computed again, and writes the same bytes.
bool StageEngine::replay(Step& step, std::uint32_t index) {
  const BatchRow& row = step.batch.rows[index];
  StageSequence& sequence = *step.sequences[index];
  if (row.position >= sequence.known) return false;
  if (!cache_.came_in(sequence.pages, row.position, input_hash(step, index))) {
    sequence.lose_chain(row.position);
    return false;
  }
  if (wanted(sequence, row)) return false;
  if (!is_last()) {
    const ByteSpan out = cache_.output(sequence.pages, row.position);
    step.said.insert(step.said.end(), out.begin(), out.end());
  }
  step.replayed.push_back(index);
  ++step.result.replayed;
  return true;
}

void StageEngine::add_row(Step& step, std::uint32_t index) {
  const BatchRow& row = step.batch.rows[index];
  step.computed.push_back({index, step.sequences[index]});
  ForwardRow& computed = step.rows.emplace_back();
  computed.token = row.token;
  computed.position = row.position;
  computed.pages = &step.sequences[index]->pages;
  computed.state = step.sequences[index]->state.value_or(0);
  computed.observed = is_last() && observed(row);
  const bool scored = scores(*step.sequences[index], row.position);
  computed.sample =
      is_last() && ((row.flags & BatchRow::kSample) != 0 || computed.observed || scored);
  computed.embedded = embeds(*step.sequences[index], row.position);
  if (scored) step.scores.resize(step.batch.rows.size());
}

// The history holds every row of the step, those behind this one too.
DrawRequest StageEngine::draw_request(const Step& step, std::uint32_t computed) {
  const StageSequence& sequence = *step.computed[computed].sequence;
  const Position position = step.rows[computed].position + 1;
  DrawRequest request{&sequence.sampler, &sequence.history, position,
                      sequence.history.generated_behind(position - sequence.open.prompt_tokens)};
  const std::uint32_t index = step.computed[computed].index;
  if (index < step.masks.size() && step.masks[index]) request.mask = *step.masks[index];
  return request;
}

// Requests a draw for every token without log probabilities and without a grammar; those need the
// logits here.
void StageEngine::request_draws(Step& step) const {
  step.drawn.assign(step.batch.rows.size(), SampledToken{});
  step.draws.clear();
  for (std::uint32_t i = 0; i < step.computed.size(); ++i) {
    const ComputedRow& row = step.computed[i];
    if ((step.batch.rows[row.index].flags & BatchRow::kSample) == 0) continue;
    if (row.sequence->sampler.logprobs || row.sequence->grammar) continue;
    step.rows[i].draw = &step.draws.emplace_back(draw_request(step, i));
  }
}

// What every rank of a group decides alike from the same batches.
Hash256 StageEngine::decision_of(const Step& step) const {
  std::vector<std::uint64_t> words{step.batch.epoch.value, step.batch.step.value,
                                   options_.layers.begin,  options_.layers.end,
                                   kv_pages_used(),        cache_.kept_pages()};
  for (const ComputedRow& row : step.computed) words.push_back(row.index);
  return blake2b(std::as_bytes(std::span(words)));
}

Status StageEngine::compute(Step& step) {
  if (options_.group != nullptr) TRY_VOID(agree(*options_.group, decision_of(step)));
  if (is_last()) request_draws(step);
  if (step.rows.empty()) return ok_status();
  if (!is_first()) {
    auto* bits = reinterpret_cast<std::byte*>(forward_->input());
    for (std::size_t i = 0; i < step.computed.size(); ++i) {
      std::memcpy(bits + i * row_bytes(), activation(step.batch, step.computed[i].index).data(),
                  row_bytes());
    }
  }
  return forward_->begin(step.rows, step.outputs);
}

// Replaces the incoming activations, which go into the result, by the computed ones. Failed rows,
// and all later rows of their sequences, are zeros. A sequence that fails here keeps the pages of
// this step's rows. Pages that its rows of the next step took before the failure was known are
// returned.
void StageEngine::settle(Step& step) {
  StepBatch& batch = step.batch;
  step.result.input = std::exchange(batch.activations, {});
  Bytes& out = batch.activations;
  const Bytes zeros(row_bytes());
  const auto append = [&](const void* row) {
    const auto* bytes = static_cast<const std::byte*>(row);
    out.insert(out.end(), bytes, bytes + row_bytes());
  };
  out.reserve(batch.rows.size() * row_bytes());
  std::uint32_t next = 0;   // of step.computed
  std::uint32_t again = 0;  // of step.replayed
  for (std::uint32_t i = 0; i < batch.rows.size(); ++i) {
    BatchRow& row = batch.rows[i];
    StageSequence& sequence = *step.sequences[i];
    const bool computed = next < step.computed.size() && step.computed[next].index == i;
    if (computed && forward_->failed(next)) sequence.fail(row.position, ErrorCode::kNumeric);
    const bool replayed = again < step.replayed.size() && step.replayed[again] == i;
    if (sequence.failed(row.position)) {
      row.fail(sequence.why);
      append(zeros.data());
    } else if (computed) {
      append(forward_->output() + std::size_t{next} * spec_.hidden);
      if (!is_last()) {
        cache_.put_output(sequence.pages, row.position, ByteSpan(out).last(row_bytes()));
      }
    } else {
      append(is_last() ? zeros.data() : step.said.data() + again * row_bytes());
    }
    if (replayed) ++again;
    sequence.settled = row.position + 1;
    mark_cached(sequence, row, replayed && !row.failed());
    if (!computed) continue;
    ++next;
    const bool last = next == step.computed.size() || step.computed[next].sequence != &sequence;
    if (last && sequence.failed(row.position)) {
      cache_.shrink(sequence.pages, row.position + 1, forward_->pages());
    }
  }
  INVARIANT(next == step.computed.size() && again == step.replayed.size(),
            "every computed and every replayed row is written back");
}

// The last stage counts the rows from the first on that no stage computed.
void StageEngine::mark_cached(StageSequence& sequence, BatchRow& row, bool replayed) const {
  if (row.draft()) return;  // the bit means another thing there
  const bool cached = replayed && sequence.open.scope && (is_first() || row.cached());
  row.flags = static_cast<std::uint8_t>(cached ? row.flags | BatchRow::kCached
                                               : row.flags & ~BatchRow::kCached);
  if (cached && is_last() && row.position == sequence.cached) ++sequence.cached;
}

// Reads the residuals that settle() has put into the batch.
void StageEngine::embed(Step& step) {
  for (std::size_t i = 0; i < step.batch.rows.size(); ++i) {
    BatchRow& row = step.batch.rows[i];
    StageSequence& sequence = *step.sequences[i];
    if (row.failed() || !embeds(sequence, row.position)) continue;
    auto values =
        embedder_->embed(*options_.kernels, activation(step.batch, i), sequence.open.embedding);
    if (values) {
      step.result.embeddings.push_back({row.sequence, *std::move(values)});
    } else {
      sequence.fail(row.position, ErrorCode::kNumeric);
      row.fail(sequence.why);
    }
  }
}

// On a thread of the pool.
void StageEngine::sample(Step& step, std::uint32_t computed, unsigned thread,
                         std::span<const float> logits) {
  const DrawRequest request = draw_request(step, computed);
  auto draw = samplers_[thread].sample(logits, *request.params, *request.history, request.position,
                                       request.later, request.mask);
  if (!draw.ok()) return on_token(step, computed, draw.error());
  SampledToken& out = step.drawn[step.computed[computed].index];
  out.logprob = draw->logprob;
  out.top = std::move(draw->top);
  on_token(step, computed, draw->token);
}

// On a thread of the pool. A token has no score where the logits before it are not finite: the
// answer is the same whether it is scored or not.
void StageEngine::score(Step& step, std::uint32_t index, unsigned thread,
                        std::span<const float> logits) {
  INVARIANT(index < step.scores.size(), "a scored row has a place for its score");
  const BatchRow& row = step.batch.rows[index];
  const SequenceOpen& open = step.sequences[index]->open;
  const TokenId token = open.scored[std::size_t{row.position} + 1];
  auto draw = samplers_[thread].score(logits, token, open.sampling.top_logprobs);
  if (!draw.ok()) return;
  step.scores[index] = SampledToken{row.sequence,        row.position + 1,    token,
                                    FinishReason::kNone, ErrorCode::kNumeric, draw->logprob,
                                    std::move(draw->top)};
}

void StageEngine::on_token(Step& step, std::uint32_t computed, const Result<TokenId>& token) const {
  INVARIANT(computed < step.computed.size() && step.rows[computed].sample,
            "a token belongs to a sampled row");
  ComputedRow& row = step.computed[computed];
  row.drawn = true;
  SampledToken& out = step.drawn[row.index];
  if (!token.ok()) {
    out.finish = FinishReason::kError;
    out.error = token.error().code;
    return;
  }
  out.token = *token;
  const StageSequence& sequence = *row.sequence;
  const SamplingParams& params = sequence.open.sampling;
  const Position position = step.rows[computed].position + 1;
  const std::uint32_t generated = position - sequence.open.prompt_tokens + 1;
  if (std::find(params.stop_tokens.begin(), params.stop_tokens.end(), out.token) !=
      params.stop_tokens.end()) {
    out.finish = FinishReason::kStop;
  } else if (generated >= params.max_tokens || position + 1 >= spec_.context) {
    out.finish = FinishReason::kLength;
  }
}

const Hash256& StageEngine::input_hash(Step& step, std::size_t index) const {
  const BatchRow& row = step.batch.rows[index];
  std::optional<Hash256>& hash = step.inputs[index];
  if (!hash) {
    hash = is_first() ? hash_token(row.position, row.token)
                      : hash_activation(options_.layers.begin, row.position,
                                        activation(step.batch, index));
  }
  return *hash;
}

// While the device computes.
void StageEngine::hash_inputs(Step& step) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < step.batch.rows.size(); ++i) {
    const BatchRow& row = step.batch.rows[i];
    const StageSequence& sequence = *step.sequences[i];
    const bool computed = next < step.computed.size() && step.computed[next].index == i;
    if (computed) ++next;
    const bool kept = computed && !cache_.empty();
    if (!kept && !sequence.open.report_hashes) continue;
    const Hash256& in = input_hash(step, i);
    if (kept) cache_.put_input(sequence.pages, row.position, in);
    if (!sequence.open.report_hashes) continue;
    RowHash hash;
    hash.sequence = row.sequence;
    hash.position = row.position;
    hash.stage = options_.stage;
    hash.layers = options_.layers;
    hash.in = in;
    step.result.hashes.push_back(hash);
  }
}

void StageEngine::hash_outputs(Step& step) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < step.batch.rows.size(); ++i) {
    if (!step.sequences[i]->open.report_hashes) continue;
    const BatchRow& row = step.batch.rows[i];
    INVARIANT(next < step.result.hashes.size(), "every reported row has its input's hash");
    RowHash& hash = step.result.hashes[next++];
    if (!is_last()) {
      hash.out = hash_activation(options_.layers.end, row.position, activation(step.batch, i));
      continue;
    }
    const SampledToken& drawn = step.drawn[i];
    const bool sampled = (row.flags & BatchRow::kSample) != 0 && !row.failed() &&
                         drawn.finish != FinishReason::kError;
    hash.out =
        hash_output(row.position, sampled ? static_cast<std::uint32_t>(drawn.token) : kNoToken);
  }
}

bool StageEngine::observed(const BatchRow& row) const {
  return options_.logits != nullptr && options_.logits->wants(row.sequence, row.position);
}

// On a thread of the pool.
void StageEngine::on_logits(Step& step, std::uint32_t computed, unsigned thread,
                            std::span<const float> logits) {
  const std::uint32_t index = step.computed[computed].index;
  const BatchRow& row = step.batch.rows[index];
  if (scores(*step.sequences[index], row.position)) score(step, index, thread, logits);
  if (step.rows[computed].observed) options_.logits->on_logits(row.sequence, row.position, logits);
  if ((row.flags & BatchRow::kSample) != 0 && !step.computed[computed].drawn) {
    sample(step, computed, thread, logits);
  }
}

// The pages are free from here on, because the device runs a later step after this one. The
// sequences stay until this step is finished. Rows under way are not kept, because their result is
// unknown.
void StageEngine::release(Step& step) {
  for (const SequenceId id : step.batch.releases) {
    step.released.push_back(sequences_.extract(id));
    StageSequence& sequence = step.released.back().mapped();
    give_state(sequence);
    if (sequence.open.scope) {
      cache_.keep(id, *sequence.open.scope, sequence.pages, sequence.kept(), forward_->pages());
    } else {
      cache_.shrink(sequence.pages, 0, forward_->pages());
    }
    step.result.released.push_back(id);
  }
}

void StageEngine::keep() {
  INVARIANT(under_way_ == 0, "sequences are ended between steps");
  // In an order independent of the hash table, because it decides which page is evicted first.
  std::map<SequenceId, StageSequence*> ordered;
  for (auto& [id, sequence] : sequences_) ordered.emplace(id, &sequence);
  for (const auto& [id, sequence] : ordered) {
    give_state(*sequence);
    cache_.keep(id, sequence->open.scope.value_or(own_scope(id)), sequence->pages, sequence->kept(),
                forward_->pages());
  }
  sequences_.clear();
}

void StageEngine::reset() {
  keep();
  while (cache_.evict(forward_->pages())) {
  }
}

Result<std::vector<Hash256>> StageEngine::kv_hashes(SequenceId id) const {
  INVARIANT(under_way_ == 0, "keys and values are read between steps");
  const auto found = sequences_.find(id);
  REQUIRE(found != sequences_.end(), "sequence ", id.value, " is not open");
  const StageSequence& sequence = found->second;
  const Position length = std::min(sequence.next, sequence.failed_at.value_or(sequence.next));
  INVARIANT(pages_for(length, kernels::kPageTokens) <= sequence.pages.size(),
            "a sequence has the pages of its positions");
  std::vector<Hash256> hashes;
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    Blake2b hash = begin_kv_hash(options_.layers.begin + layer, length);
    if (spec_.is_delta(options_.layers.begin + layer)) {
      if (sequence.state) hash.update(forward_->state(*sequence.state, layer));
      hashes.push_back(hash.finish());
      continue;
    }
    const std::uint32_t source = spec_.kv_source(options_.layers.begin + layer);
    const kernels::KvLayout layout = spec_.kv_layout(source);
    if (layout.kv_heads == 0) {  // a rank without heads
      hashes.push_back(hash.finish());
      continue;
    }
    Bytes slot(layout.slot_bytes());
    const std::byte* page = nullptr;
    for (Position i = 0; i < length; ++i) {
      if (i % kernels::kPageTokens == 0) {
        TRY(page, forward_->page(sequence.pages[i / kernels::kPageTokens],
                                 source - options_.layers.begin));
      }
      kernels::kv_read(layout, page, i % kernels::kPageTokens, slot.data());
      hash.update(slot);
    }
    hashes.push_back(hash.finish());
  }
  return hashes;
}

Status check_options(const model::ModelSpec& spec, const EngineOptions& options) {
  REQUIRE(options.layers.begin < options.layers.end && options.layers.end <= spec.layers, "layers ",
          options.layers.begin, " to ", options.layers.end,
          " are not in the model, which has layers 0 to ", spec.layers);
  REQUIRE(options.batch_rows >= 1 && options.batch_rows <= limits::kBatchRows, "batch rows are ",
          options.batch_rows, "; they must be 1 to ", limits::kBatchRows);
  REQUIRE(options.threads >= 1 && options.threads <= limits::kComputeThreads, "threads are ",
          options.threads, "; they must be 1 to ", limits::kComputeThreads);
  if (options.group == nullptr) return ok_status();
  if (options.device == nullptr || options.device->emulates()) {
    return check_group(spec, *options.group);
  }
  return Error{ErrorCode::kUnsupported, "a rank of a group computes on the CPU; use --device cpu"};
}

}  // namespace

Status Engine::step(StepBatch& batch, StepResult& result) {
  TRY_VOID(begin(batch));
  return finish(batch, result);
}

Result<std::unique_ptr<Engine>> Engine::load(std::shared_ptr<const model::GgufFile> file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& given) {
  EngineOptions options = given;
  if (spec.keeps_state()) options.replay_bytes = 0;
  if (options.kernels == nullptr) {
    TRY(options.kernels, kernels::select_kernels());
  }
  TRY_VOID(kernels::require_known_answers(*options.kernels));
  TRY_VOID(check_options(spec, options));
  TRY_VOID(check_emulation(spec, options.device));
  try {
    const model::ModelSpec own = options.group ? narrowed(spec, options.group->own()) : spec;
    TRY(auto forward, load_forward(*file, spec, own, options));
    TRY(const std::uint64_t replay_bytes, replay_within(*file, spec, options));
    std::optional<PromptEmbedder> embedder;
    if (options.layers.end == spec.layers) {
      TRY(embedder, PromptEmbedder::load(*file, spec));
    }
    return std::unique_ptr<Engine>(std::make_unique<StageEngine>(
        std::move(file), own, options, std::move(forward), std::move(embedder), replay_bytes));
  } catch (const std::bad_alloc&) {
    return Error::of(ErrorCode::kNoCapacity, "no memory for the working buffers of ",
                     options.batch_rows, " rows; choose a smaller --batch-rows");
  }
}

}  // namespace hearth::node
