#include "node/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "kernels/self_test.h"
#include "kernels/thread_pool.h"
#include "node/engine/batch_check.h"
#include "node/engine/device.h"
#include "node/engine/forward.h"
#include "node/engine/kv_cache.h"
#include "node/engine/sampler.h"
#include "node/engine/stage_memory.h"
#include "node/engine/step_hash.h"
#include "node/engine/weights.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

// A row of the batch that is computed.
struct ComputedRow {
  std::uint32_t index = 0;  // in the batch
  StageSequence* sequence = nullptr;
  bool drawn = false;  // its token has come
};

class StageEngine final : public Engine {
 public:
  StageEngine(std::shared_ptr<const model::GgufFile> file, const model::ModelSpec& spec,
              const EngineOptions& options, std::unique_ptr<StageForward> forward);

  Status step(StepBatch& batch, StepResult& result) override;
  void reset() override;
  Result<std::vector<Hash256>> kv_hashes(SequenceId sequence) const override;
  Status verify_weights() override { return forward_->verify_weights(); }

  bool is_first() const override { return options_.layers.begin == 0; }
  bool is_last() const override { return options_.layers.end == spec_.layers; }
  StepShape input_shape() const override {
    return {spec_.hidden, spec_.vocabulary, spec_.context, !is_first()};
  }
  std::uint32_t kv_pages() const override { return forward_->pages().pages(); }
  std::uint32_t kv_pages_used() const override { return forward_->pages().pages_used(); }
  std::size_t weight_bytes() const override { return forward_->weight_bytes(); }

 private:
  void open(const StepBatch& batch);
  void truncate(const StepBatch& batch);
  void admit(StepBatch& batch);
  Status compute(StepBatch& batch);
  void settle(StepBatch& batch);
  bool observed(const BatchRow& row) const;
  void on_logits(const StepBatch& batch, std::uint32_t computed, unsigned thread,
                 std::span<const float> logits);
  void sample(std::uint32_t computed, unsigned thread, std::span<const float> logits);
  void on_token(std::uint32_t computed, const Result<TokenId>& token);
  void request_draws(const StepBatch& batch);
  DrawRequest draw_request(std::uint32_t computed) const;
  void collect_tokens(const StepBatch& batch, StepResult& result);
  void hash_inputs(const StepBatch& batch, StepResult& result);
  void hash_outputs(const StepBatch& batch, StepResult& result);
  void release(const StepBatch& batch, StepResult& result);
  ByteSpan activation(const StepBatch& batch, std::size_t row) const;
  std::size_t row_bytes() const { return spec_.hidden * sizeof(std::uint16_t); }

  const std::shared_ptr<const model::GgufFile> file_;  // keeps the spec's family and names alive
  const model::ModelSpec spec_;
  const EngineOptions options_;
  const std::unique_ptr<StageForward> forward_;
  std::vector<Sampler> samplers_;  // one a thread; last stage only
  StageSequences sequences_;

  // Of the step under way.
  std::vector<ComputedRow> computed_;
  std::vector<ForwardRow> rows_;
  std::vector<DrawRequest> draws_;   // what rows_ points to; last stage only
  std::vector<SampledToken> drawn_;  // one a row of the batch; likewise
};

StageEngine::StageEngine(std::shared_ptr<const model::GgufFile> file, const model::ModelSpec& spec,
                         const EngineOptions& options, std::unique_ptr<StageForward> forward)
    : file_(std::move(file)), spec_(spec), options_(options), forward_(std::move(forward)) {
  if (is_last()) samplers_.assign(forward_->threads(), Sampler(spec_.vocabulary));
  computed_.reserve(options_.batch_rows);
  rows_.reserve(options_.batch_rows);
  draws_.reserve(is_last() ? options_.batch_rows : 0);
}

ByteSpan StageEngine::activation(const StepBatch& batch, std::size_t row) const {
  return ByteSpan(batch.activations).subspan(row * row_bytes(), row_bytes());
}

Status StageEngine::step(StepBatch& batch, StepResult& result) {
  TRY_VOID(kernels::check_float_environment());  // the caller may be another thread each time
  TRY_VOID(check_batch(batch, sequences_, input_shape(), options_.batch_rows));
  result = {};
  open(batch);
  truncate(batch);
  hash_inputs(batch, result);
  admit(batch);
  TRY_VOID(compute(batch));
  settle(batch);
  if (is_last()) collect_tokens(batch, result);
  hash_outputs(batch, result);
  if (is_last()) batch.activations.clear();
  release(batch, result);
  return ok_status();
}

void StageEngine::open(const StepBatch& batch) {
  for (const SequenceOpen& open : batch.opens) {
    StageSequence sequence;
    sequence.open = open;
    if (is_last()) sequence.sampler = SamplerParams(open.sampling);
    sequence.pages.reserve(pages_for(spec_.context, kernels::kPageTokens));
    sequences_.emplace(open.sequence, std::move(sequence));
  }
}

// Of the last page that stays the slots behind `length` keep what they hold: nothing reads them
// before they are written again.
void StageEngine::truncate(const StepBatch& batch) {
  for (const auto& [id, length] : batch.truncates) {
    StageSequence& sequence = sequences_.at(id);
    sequence.next = length;
    forward_->pages().shrink(sequence.pages, length);
    sequence.history.keep_generated(length - sequence.open.prompt_tokens);
    if (sequence.failed_at && *sequence.failed_at >= length) sequence.failed_at.reset();
  }
}

// Decides which rows are computed: those of sequences that have not failed and get their pages.
void StageEngine::admit(StepBatch& batch) {
  computed_.clear();
  rows_.clear();
  for (std::uint32_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    StageSequence& sequence = sequences_.at(row.sequence);
    sequence.next = row.position + 1;
    if (row.failed()) sequence.fail(row.position, row.reason());
    if (!sequence.failed(row.position) &&
        !forward_->pages().grow(sequence.pages, row.position + 1)) {
      sequence.fail(row.position, ErrorCode::kNoCapacity);
    }
    if (sequence.sampler.penalties) {
      sequence.history.add(row.token, row.position >= sequence.open.prompt_tokens);
    }
    if (sequence.failed(row.position)) continue;
    computed_.push_back({i, &sequence});
    ForwardRow& computed = rows_.emplace_back();
    computed.token = row.token;
    computed.position = row.position;
    computed.pages = &sequence.pages;
    computed.observed = is_last() && observed(row);
    computed.sample = is_last() && ((row.flags & BatchRow::kSample) != 0 || computed.observed);
  }
}

// The history holds every row of the step, those behind this one too.
DrawRequest StageEngine::draw_request(std::uint32_t computed) const {
  const StageSequence& sequence = *computed_[computed].sequence;
  const Position position = rows_[computed].position + 1;
  return {&sequence.sampler, &sequence.history, position,
          sequence.history.generated_behind(position - sequence.open.prompt_tokens)};
}

// Of every token that is wanted without log probabilities, which need the logits.
void StageEngine::request_draws(const StepBatch& batch) {
  draws_.clear();
  for (std::uint32_t i = 0; i < computed_.size(); ++i) {
    const ComputedRow& row = computed_[i];
    if ((batch.rows[row.index].flags & BatchRow::kSample) == 0) continue;
    if (row.sequence->sampler.logprobs) continue;
    rows_[i].draw = &draws_.emplace_back(draw_request(i));
  }
}

Status StageEngine::compute(StepBatch& batch) {
  if (is_last()) {
    drawn_.assign(batch.rows.size(), SampledToken{});
    request_draws(batch);
  }
  if (rows_.empty()) return ok_status();
  auto* bits = reinterpret_cast<std::byte*>(forward_->residual());
  if (!is_first()) {
    for (std::size_t i = 0; i < computed_.size(); ++i) {
      std::memcpy(bits + i * row_bytes(), activation(batch, computed_[i].index).data(),
                  row_bytes());
    }
  }
  return forward_->run(
      rows_,
      [&](std::uint32_t row, unsigned thread, std::span<const float> logits) {
        on_logits(batch, row, thread, logits);
      },
      [&](std::uint32_t row, const Result<TokenId>& token) { on_token(row, token); });
}

// Writes back what was computed; failed rows, and all later ones of their sequences, are zeros.
void StageEngine::settle(StepBatch& batch) {
  batch.activations.resize(batch.rows.size() * row_bytes());
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < batch.rows.size(); ++i) {
    BatchRow& row = batch.rows[i];
    StageSequence& sequence = sequences_.at(row.sequence);
    const bool computed = next < computed_.size() && computed_[next].index == i;
    if (computed && forward_->failed(static_cast<std::uint32_t>(next))) {
      sequence.fail(row.position, ErrorCode::kNumeric);
    }
    std::byte* out = batch.activations.data() + i * row_bytes();
    if (!sequence.failed(row.position)) {
      std::memcpy(out, forward_->residual() + next * spec_.hidden, row_bytes());
    } else {
      row.fail(sequence.why);
      std::memset(out, 0, row_bytes());
    }
    if (computed) ++next;
  }
}

// On a thread of the pool.
void StageEngine::sample(std::uint32_t computed, unsigned thread, std::span<const float> logits) {
  const DrawRequest request = draw_request(computed);
  auto draw = samplers_[thread].sample(logits, *request.params, *request.history, request.position,
                                       request.later);
  if (!draw.ok()) return on_token(computed, draw.error());
  SampledToken& out = drawn_[computed_[computed].index];
  out.logprob = draw->logprob;
  out.top = std::move(draw->top);
  on_token(computed, draw->token);
}

void StageEngine::on_token(std::uint32_t computed, const Result<TokenId>& token) {
  ComputedRow& row = computed_[computed];
  row.drawn = true;
  SampledToken& out = drawn_[row.index];
  if (!token.ok()) {
    out.finish = FinishReason::kError;
    out.error = token.error().code;
    return;
  }
  out.token = *token;
  const StageSequence& sequence = *row.sequence;
  const SamplingParams& params = sequence.open.sampling;
  const Position position = rows_[computed].position + 1;
  const std::uint32_t generated = position - sequence.open.prompt_tokens + 1;
  if (std::find(params.stop_tokens.begin(), params.stop_tokens.end(), out.token) !=
      params.stop_tokens.end()) {
    out.finish = FinishReason::kStop;
  } else if (generated >= params.max_tokens || position + 1 >= spec_.context) {
    out.finish = FinishReason::kLength;
  }
}

void StageEngine::collect_tokens(const StepBatch& batch, StepResult& result) {
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if ((row.flags & BatchRow::kSample) == 0) continue;
    SampledToken& token = drawn_[i];
    if (row.failed()) {
      token = {};
      token.finish = FinishReason::kError;
      token.error = row.reason();
    }
    token.sequence = row.sequence;
    token.position = row.position + 1;
    result.tokens.push_back(token);
  }
}

void StageEngine::hash_inputs(const StepBatch& batch, StepResult& result) {
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if (!sequences_.at(row.sequence).open.report_hashes) continue;
    RowHash hash;
    hash.sequence = row.sequence;
    hash.position = row.position;
    hash.stage = options_.stage;
    hash.layers = options_.layers;
    hash.in = is_first()
                  ? hash_token(row.position, row.token)
                  : hash_activation(options_.layers.begin, row.position, activation(batch, i));
    result.hashes.push_back(hash);
  }
}

void StageEngine::hash_outputs(const StepBatch& batch, StepResult& result) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if (!sequences_.at(row.sequence).open.report_hashes) continue;
    RowHash& hash = result.hashes[next++];
    if (!is_last()) {
      hash.out = hash_activation(options_.layers.end, row.position, activation(batch, i));
      continue;
    }
    const bool sampled = (row.flags & BatchRow::kSample) != 0 && !row.failed() &&
                         drawn_[i].finish != FinishReason::kError;
    hash.out =
        hash_output(row.position, sampled ? static_cast<std::uint32_t>(drawn_[i].token) : kNoToken);
  }
}

bool StageEngine::observed(const BatchRow& row) const {
  return options_.logits != nullptr && options_.logits->wants(row.sequence, row.position);
}

// On a thread of the pool.
void StageEngine::on_logits(const StepBatch& batch, std::uint32_t computed, unsigned thread,
                            std::span<const float> logits) {
  const BatchRow& row = batch.rows[computed_[computed].index];
  if (rows_[computed].observed) options_.logits->on_logits(row.sequence, row.position, logits);
  if ((row.flags & BatchRow::kSample) != 0 && !computed_[computed].drawn) {
    sample(computed, thread, logits);
  }
}

void StageEngine::release(const StepBatch& batch, StepResult& result) {
  for (const SequenceId id : batch.releases) {
    const auto found = sequences_.find(id);
    forward_->pages().release(found->second.pages);
    sequences_.erase(found);
    result.released.push_back(id);
  }
}

void StageEngine::reset() {
  for (auto& [id, sequence] : sequences_) forward_->pages().release(sequence.pages);
  sequences_.clear();
}

Result<std::vector<Hash256>> StageEngine::kv_hashes(SequenceId id) const {
  const auto found = sequences_.find(id);
  REQUIRE(found != sequences_.end(), "sequence " + std::to_string(id.value) + " is not open");
  const StageSequence& sequence = found->second;
  const Position length = std::min(sequence.next, sequence.failed_at.value_or(sequence.next));
  const kernels::KvLayout layout = spec_.kv_layout();
  Bytes slot(layout.slot_bytes());
  std::vector<Hash256> hashes;
  for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
    Blake2b hash = begin_kv_hash(options_.layers.begin + layer, length);
    const std::byte* page = nullptr;
    for (Position i = 0; i < length; ++i) {
      if (i % kernels::kPageTokens == 0) {
        TRY(page, forward_->page(sequence.pages[i / kernels::kPageTokens], layer));
      }
      kernels::kv_read(layout, page, i % kernels::kPageTokens, slot.data());
      hash.update(slot);
    }
    hashes.push_back(hash.finish());
  }
  return hashes;
}

Status check_options(const model::ModelSpec& spec, const EngineOptions& options) {
  REQUIRE(options.layers.begin < options.layers.end && options.layers.end <= spec.layers,
          "layers " + std::to_string(options.layers.begin) + " to " +
              std::to_string(options.layers.end) + " of a model of " + std::to_string(spec.layers));
  REQUIRE(options.batch_rows >= 1 && options.batch_rows <= limits::kBatchRows,
          "batch rows are " + std::to_string(options.batch_rows) + ", allowed are 1 to " +
              std::to_string(limits::kBatchRows));
  REQUIRE(options.threads >= 1 && options.threads <= limits::kComputeThreads,
          "threads are " + std::to_string(options.threads) + ", allowed are 1 to " +
              std::to_string(limits::kComputeThreads));
  return ok_status();
}

Result<std::unique_ptr<StageForward>> load_forward(const model::GgufFile& file,
                                                   const model::ModelSpec& spec,
                                                   const EngineOptions& options) {
  if (options.device != nullptr) return options.device->load(file, spec, options);
  TRY(const StageMemory memory, stage_memory(file, spec, options));
  const std::uint64_t budget = memory_budget(options.memory_bytes);
  TRY_VOID(check_memory({memory}, budget));
  TRY(KvCache cache, KvCache::create(options.layers.size(), spec.kv_layout(),
                                     kv_within(memory, budget - kProcessBytes), memory.pages));
  TRY(auto pool, kernels::ThreadPool::create(options.threads, options.pin));
  TRY(StageWeights weights, StageWeights::load(file, spec, options.layers, pool.get()));
  return std::unique_ptr<StageForward>(std::make_unique<Forward>(
      Forward::Setup{spec, std::move(weights), options.kernels, std::move(cache), std::move(pool),
                     options.layers, options.batch_rows}));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(std::shared_ptr<const model::GgufFile> file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& given) {
  EngineOptions options = given;
  if (options.kernels == nullptr) {
    TRY(options.kernels, kernels::select_kernels());
  }
  TRY_VOID(kernels::require_known_answers(*options.kernels));
  TRY_VOID(check_options(spec, options));
  try {
    TRY(auto forward, load_forward(*file, spec, options));
    return std::unique_ptr<Engine>(
        std::make_unique<StageEngine>(std::move(file), spec, options, std::move(forward)));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kNoCapacity, "no memory for the working buffers of " +
                                             std::to_string(options.batch_rows) + " rows"};
  }
}

}  // namespace hearth::node
