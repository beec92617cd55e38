#include "node/runner/draft_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/same_vocabulary.h"
#include "node/engine/kv_cache.h"
#include "node/engine/stage_memory.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kKeptBytes = 4 << 20;  // for the hashes of kept pages

SequenceOpen open_of(const DraftAsk& ask) {
  SequenceOpen open;
  open.sequence = ask.open.sequence;
  open.prompt_tokens = ask.open.prompt_tokens;
  open.sampling = ask.open.sampling;
  open.sampling.logprobs = false;
  open.sampling.top_logprobs = 0;
  open.scope = ask.open.scope;
  open.drafts = false;
  return open;
}

}  // namespace

Result<std::uint64_t> DraftFile::left_of(std::uint64_t given) const {
  const std::uint64_t budget = memory_budget(given);
  if (memory_bytes < budget) return budget - memory_bytes;
  return Error::of(ErrorCode::kNoCapacity, "the draft model ", file->path(), " needs ",
                   memory_bytes / limits::kMiB, " MiB of memory, and this process may use ",
                   budget / limits::kMiB,
                   " MiB in all (--memory, or the available memory of the machine); give a smaller "
                   "draft model, or omit --draft");
}

// A sequence that keeps a state cannot go back behind a rejected draft.
Status DraftModel::check_target(const model::GgufFile& file, const model::GgufFile& target) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(target));
  REQUIRE(!spec.keeps_state(), "the model ", target.path(),
          " keeps a state of each sequence, which cannot go back behind a rejected draft; omit "
          "--draft");
  return model::check_same_vocabulary(file, target);
}

Result<DraftFile> DraftModel::open(std::shared_ptr<const model::GgufFile> file,
                                   const model::GgufFile& target, const EngineOptions& stage) {
  DraftFile draft;
  draft.file = std::move(file);
  TRY(draft.spec, model::ModelSpec::read(*draft.file));
  REQUIRE(!draft.spec.gives_embeddings, "the draft model ", draft.file->path(),
          " gives embeddings and generates no text; give one that generates text, or omit --draft");
  REQUIRE(!draft.spec.keeps_state(), "the draft model ", draft.file->path(),
          " keeps a state of each sequence, which cannot go back behind a rejected draft; give a "
          "draft model of another family, or omit --draft");
  TRY_VOID(check_target(*draft.file, target));
  EngineOptions& engine = draft.engine;
  engine.layers = {0, draft.spec.layers};
  engine.kv_budget_bytes = stage.kv_budget_bytes / kKvPart;
  engine.threads = stage.threads;
  engine.batch_rows = kRows;
  engine.kernels = stage.kernels;
  engine.replay_bytes = kKeptBytes;
  const auto memory = stage_memory(*draft.file, draft.spec, engine);
  if (!memory.ok()) {
    return Error::of(memory.error().code, "the draft model ", draft.file->path(),
                     ", whose KV gets 1/", kKvPart, " of --kv-budget: ", memory.error().message);
  }
  draft.memory_bytes =
      memory->weights + memory->buffers + memory->page * std::uint64_t{memory->pages} + kKeptBytes;
  engine.memory_bytes = draft.memory_bytes + kProcessBytes;
  return draft;
}

Result<std::unique_ptr<DraftModel>> DraftModel::load(const DraftFile& file) {
  TRY(auto engine, Engine::load(file.file, file.spec, file.engine));
  return std::unique_ptr<DraftModel>(new DraftModel(file, std::move(engine)));
}

DraftModel::DraftModel(const DraftFile& file, std::unique_ptr<Engine> engine)
    : cancelled_(file.engine.cancelled),
      engine_(std::move(engine)),
      most_(std::min<std::uint64_t>(file.spec.context,
                                    std::uint64_t{engine_->kv_pages()} * kernels::kPageTokens)) {}

// Ends the sequence of an earlier ask, or drops the rows of rejected drafts. The last token is read
// again, because the first draft is drawn from its row. Prompts are compared too: a restarted
// coordinator may give the same id to another sequence.
Status DraftModel::begin(const DraftAsk& ask, StepBatch& batch) {
  const SequenceOpen open = open_of(ask);
  const auto same = [&] {
    const auto [mine, theirs] = std::ranges::mismatch(held_->rows, ask.tokens);
    return static_cast<std::size_t>(mine - held_->rows.begin());
  };
  const auto known = [&] { return std::min<std::size_t>(open.prompt_tokens, held_->rows.size()); };
  if (held_ && (held_->open != open || same() < known())) {
    StepBatch end;
    end.releases.push_back(held_->open.sequence);
    held_.reset();
    TRY_VOID(step(std::move(end)));
  }
  if (!held_) {
    batch.opens.push_back(open);
    held_ = Held{open, {}};
  }
  const std::size_t keep = std::min(same(), ask.tokens.size() - 1);
  if (keep == held_->rows.size()) return ok_status();
  INVARIANT(keep >= open.prompt_tokens, "a sequence with another prompt was ended");
  held_->rows.resize(keep);
  batch.truncates.push_back({open.sequence, static_cast<Position>(keep)});
  return ok_status();
}

Result<std::optional<TokenId>> DraftModel::step(StepBatch batch) {
  if (cancelled_ && cancelled_()) return Error{ErrorCode::kCancelled, "drafting was cancelled"};
  batch.epoch = Epoch(1);
  batch.step = StepId(steps_++);
  StepResult result;
  TRY_VOID(engine_->step(batch, result));
  for (const BatchRow& row : batch.rows) {
    if (row.failed()) return Error{row.reason(), "a row of the draft model failed"};
    held_->rows.push_back(row.token);
  }
  std::optional<TokenId> drawn;
  for (const SampledToken& token : result.tokens) {
    if (token.finish == FinishReason::kError) return Error{token.error, "no token was drawn"};
    if (token.finish == FinishReason::kNone) drawn = token.token;
  }
  return drawn;
}

// An ask reads at most kRows tokens, up to the end of a page, so that the prefix cache finds them.
// The next ask reads the rest.
Result<std::vector<TokenId>> DraftModel::answer(const DraftAsk& ask, DraftAnswer& out) {
  StepBatch batch;
  TRY_VOID(begin(ask, batch));
  const std::size_t from = held_->rows.size();
  std::size_t end = ask.tokens.size();
  if (end - from > kRows) end = (from + kRows) / kernels::kPageTokens * kernels::kPageTokens;
  for (std::size_t i = from; i < end; ++i) {
    const bool sampled = ask.count > 0 && i + 1 == ask.tokens.size();
    const std::uint8_t flags = sampled ? BatchRow::kSample : 0;
    batch.rows.push_back({ask.open.sequence, static_cast<Position>(i), ask.tokens[i], flags});
  }
  std::vector<TokenId> drafts;
  TRY(std::optional<TokenId> drawn, step(std::move(batch)));
  out.read = static_cast<std::uint32_t>(end);
  while (drawn) {
    drafts.push_back(*drawn);
    if (drafts.size() >= ask.count || held_->rows.size() >= most_) break;
    StepBatch next;
    const auto position = static_cast<Position>(held_->rows.size());
    next.rows.push_back({ask.open.sequence, position, *drawn, BatchRow::kSample});
    TRY(drawn, step(std::move(next)));
  }
  return drafts;
}

DraftAnswer DraftModel::draft(const DraftAsk& ask) {
  INVARIANT(ask.tokens.size() > ask.open.prompt_tokens, "drafts follow a token of the answer");
  DraftAnswer out;
  out.sequence = ask.open.sequence;
  out.failed = ask.tokens.size() >= most_;
  if (out.failed) return out;
  auto drafts = answer(ask, out);
  if (drafts.ok()) {
    out.drafts = *std::move(drafts);
    return out;
  }
  engine_->keep();  // ends its sequence
  held_.reset();
  out.read = 0;
  out.failed = true;
  return out;
}

}  // namespace hearth::node
