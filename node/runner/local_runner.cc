#include "node/runner/local_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "node/engine/stage_memory.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

// Sequences that keep a state take no drafts, because a state cannot go back behind a wrong one.
BatcherOptions batcher_options(const model::ModelSpec& spec, const LocalOptions& options) {
  BatcherOptions out{Epoch(1),
                     options.batch_rows,
                     options.prefill_rows,
                     options.batches_in_flight,
                     spec.keeps_state() ? 0 : options.draft_rows,
                     options.draft};
  out.draft_model = options.draft_model != nullptr && !spec.keeps_state();
  out.draft_model_plan = options.draft_model_plan;
  return out;
}

// The memory of a stage on the processor; zeros when a device holds the stage.
Result<StageMemory> host_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                const EngineOptions& options) {
  if (options.device != nullptr) return StageMemory{};
  return stage_memory(file, spec, options);
}

Result<std::vector<LayerRange>> layers_of(const model::ModelSpec& spec,
                                          const LocalOptions& options) {
  if (options.layers.empty()) return split_layers(spec.layers, options.stages);
  std::uint32_t next = 0;
  for (const LayerRange& range : options.layers) {
    REQUIRE(range.begin == next && range.end > next, "layers ", range.begin, " to ", range.end,
            " do not follow ", next);
    next = range.end;
  }
  REQUIRE(options.layers.size() == options.stages && next == spec.layers, options.layers.size(),
          " stages hold ", next, " layers; the model has ", spec.layers);
  return options.layers;
}

// With KV for one sequence of the whole context.
LocalOptions with_whole_context(const model::ModelSpec& spec, LocalOptions options) {
  const std::uint64_t pages = pages_for(spec.context, kernels::kPageTokens);
  options.kv_budget_bytes = std::max<std::size_t>(options.kv_budget_bytes,
                                                  kv_budget_of(spec, {0, spec.layers}, pages, 1));
  if (options.sequences == 0) options.sequences = 1;
  options.whole_context = false;
  return options;
}

}  // namespace

LocalRunner::LocalRunner(const model::ModelSpec& spec, const LocalOptions& options,
                         std::vector<std::unique_ptr<Engine>> engines)
    : spec_(spec),
      batcher_(batcher_options(spec, options)),
      draft_model_(options.draft_model),
      engines_(std::move(engines)) {
  pages_ = engines_.front()->kv_pages();
  sequences_ = engines_.front()->sequences();
  for (const auto& engine : engines_) {
    pages_ = std::min(pages_, engine->kv_pages());
    sequences_ = std::min(sequences_, engine->sequences());
  }
}

Status LocalRunner::submit(const SequenceOpen& open, std::vector<TokenId> prompt, Events events) {
  TRY_VOID(validate(open.sampling, spec_.vocabulary));
  for (const TokenId token : prompt) {
    REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < spec_.vocabulary, "token ", token,
            " is not in the vocabulary of ", spec_.vocabulary);
  }
  const std::uint64_t positions = std::uint64_t{open.prompt_tokens} + open.sampling.max_tokens;
  if (positions > spec_.context) {
    return Error::of(ErrorCode::kNoCapacity, "prompt and answer take ", positions,
                     " positions, the context has ", spec_.context,
                     "; shorten the prompt, or ask for fewer tokens");
  }
  const std::uint32_t pages =
      pages_for(static_cast<std::uint32_t>(positions), kernels::kPageTokens);
  if (pages > pages_ - reserved_) {
    return Error::of(ErrorCode::kNoCapacity, "prompt and answer take ", pages, " KV pages, ",
                     pages_ - reserved_, " of ", pages_, " are free");
  }
  if (running_.size() >= sequences_) {
    return Error::of(ErrorCode::kNoCapacity, "the ", sequences_,
                     " sequences whose state has room are running: wait until one ends, or give a "
                     "larger KV budget");
  }
  TRY_VOID(batcher_.submit({Epoch(1), open, std::move(prompt)}));
  reserved_ += pages;
  running_.emplace(open.sequence, Running{std::move(events), pages});
  return ok_status();
}

void LocalRunner::cancel(SequenceId sequence) {
  batcher_.cancel(sequence);
  const auto found = running_.find(sequence);
  if (found != running_.end()) found->second.events = {};
}

void LocalRunner::deliver(const std::vector<RowHash>& hashes) {
  for (const RowHash& hash : hashes) {
    const auto found = running_.find(hash.sequence);
    if (found != running_.end() && found->second.events.on_hash) found->second.events.on_hash(hash);
  }
}

// Listeners may submit and cancel.
void LocalRunner::deliver(const StepTokens& tokens) {
  for (const SequenceId id : tokens.released) {
    const auto found = running_.find(id);
    if (found == running_.end()) continue;
    reserved_ -= found->second.pages;
    running_.erase(found);
  }
  const auto tell = [this](const auto& items, auto event, auto told) {
    for (const auto& item : items) {
      const auto found = running_.find(item.sequence);
      if (found == running_.end() || !(found->second.events.*event)) continue;
      const auto listener = found->second.events.*event;  // which may cancel the sequence
      listener(told(item));
    }
  };
  const auto whole = [](const auto& item) -> const auto& { return item; };
  tell(tokens.cached, &Events::on_cached, [](const auto& cached) { return cached.positions; });
  tell(tokens.scores, &Events::on_score, whole);
  tell(tokens.drafts, &Events::on_drafts, [](const auto& drafts) { return drafts.counts; });
  tell(tokens.embeddings, &Events::on_embedding, whole);
  tell(tokens.tokens, &Events::on_token, whole);
}

void LocalRunner::ask_drafts() {
  while (const std::optional<DraftAsk> ask = batcher_.next_ask()) {
    INVARIANT(draft_model_ != nullptr, "a batcher asks only if there is a draft model");
    const TimePoint begun = clock_.now();
    DraftAnswer answer = draft_model_->draft(*ask);
    const Duration took = clock_.now() - begun;
    batcher_.on_drafts(std::move(answer), took, took);
  }
}

Result<bool> LocalRunner::step() {
  ask_drafts();
  while (auto next = batcher_.next()) waiting_.push_back(*std::move(next));
  if (waiting_.empty()) return false;
  StepBatch batch = std::move(waiting_.front());
  waiting_.pop_front();
  const TimePoint begun = clock_.now();
  StepTokens tokens{batch.epoch, batch.step, {}, {}};
  std::vector<RowHash> hashes;
  for (const auto& engine : engines_) {
    StepResult result;
    TRY_VOID(engine->step(batch, result));
    hashes.insert(hashes.end(), result.hashes.begin(), result.hashes.end());
    tokens.tokens = std::move(result.tokens);
    tokens.released = std::move(result.released);
    tokens.scores = std::move(result.scores);
    tokens.cached = std::move(result.cached);
    tokens.drafts = std::move(result.drafts);
    tokens.embeddings = std::move(result.embeddings);
  }
  TRY_VOID(batcher_.on_tokens(tokens, clock_.now() - begun));
  deliver(hashes);
  deliver(tokens);
  return true;
}

Result<std::vector<Hash256>> LocalRunner::kv_hashes(SequenceId sequence) const {
  std::vector<Hash256> all;
  for (const auto& engine : engines_) {
    TRY(const std::vector<Hash256> part, engine->kv_hashes(sequence));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::size_t LocalRunner::weight_bytes() const {
  std::size_t sum = 0;
  for (const auto& engine : engines_) sum += engine->weight_bytes();
  return sum;
}

Result<std::unique_ptr<LocalRunner>> LocalRunner::load(std::shared_ptr<const model::GgufFile> file,
                                                       const LocalOptions& options) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  if (options.whole_context) {
    auto larger = load(file, with_whole_context(spec, options));
    if (larger.ok() || larger.error().code != ErrorCode::kNoCapacity) return larger;
  }
  REQUIRE(options.stages >= 1 && options.stages <= spec.layers, options.stages, " stages for ",
          spec.layers, " layers");
  REQUIRE(options.prefill_rows >= 1, "prefill rows are 0");
  TRY(const std::vector<LayerRange> ranges, layers_of(spec, options));
  // Every stage gets the pages and states that one stage of all layers would have.
  EngineOptions whole;
  whole.layers = {0, spec.layers};
  whole.kv_budget_bytes = options.kv_budget_bytes;
  whole.sequences = options.sequences;
  TRY(const KvShare kv, kv_asked(spec, whole));
  std::vector<EngineOptions> engine_options;
  std::vector<StageMemory> memory;
  std::uint64_t least = kProcessBytes;
  for (std::uint32_t i = 0; i < options.stages; ++i) {
    EngineOptions& engine = engine_options.emplace_back();
    engine.layers = ranges[i];
    engine.kv_budget_bytes = kv_budget_of(spec, ranges[i], kv.pages, kv.states);
    engine.sequences = kv.states;
    engine.threads = options.threads;
    engine.pin = options.pin;
    engine.batch_rows = options.batch_rows;
    engine.replay_bytes = options.replay_bytes / options.stages;
    engine.stage = i;
    engine.kernels = options.kernels;
    engine.logits = options.logits;
    if (!options.devices.empty()) engine.device = options.devices[i % options.devices.size()];
    TRY(memory.emplace_back(), host_memory(*file, spec, engine));
    least += memory.back().least();
  }
  const std::uint64_t budget = memory_budget(options.memory_bytes);
  TRY_VOID(check_memory(memory, budget));
  std::vector<std::unique_ptr<Engine>> engines;
  for (std::uint32_t i = 0; i < options.stages; ++i) {
    engine_options[i].memory_bytes =
        memory[i].least() + kProcessBytes + (budget - least) / options.stages;
    TRY(engines.emplace_back(), Engine::load(file, spec, engine_options[i]));
  }
  return std::unique_ptr<LocalRunner>(new LocalRunner(spec, options, std::move(engines)));
}

}  // namespace hearth::node
