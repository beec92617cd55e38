#include "node/engine/engine_step.h"

#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::node {
namespace {

// Rows of a sequence stand together, so it is the last one or new.
SequenceDrafts& drafts_of(Step& step, SequenceId sequence) {
  std::vector<SequenceDrafts>& all = step.result.drafts;
  if (all.empty() || all.back().sequence != sequence) all.push_back({sequence});
  return all.back();
}

void collect_token(Step& step, std::size_t index) {
  const BatchRow& row = step.batch.rows[index];
  SampledToken& token = step.drawn[index];
  if (row.failed()) {
    token = {};
    token.finish = FinishReason::kError;
    token.error = row.reason();
  }
  token.sequence = row.sequence;
  token.position = row.position + 1;
  step.result.tokens.push_back(token);
  const std::uint32_t cached = std::exchange(step.sequences[index]->cached, 0);
  if (cached > 0) step.result.cached.push_back({row.sequence, cached});
}

void note_forced(Step& step, std::size_t index) {
  const SampledToken& token = step.drawn[index];
  if (index >= step.states.size() || !step.states[index]) return;
  if (token.finish != FinishReason::kNone) return;
  const StageSequence& sequence = *step.sequences[index];
  std::vector<TokenId> forced =
      sequence.grammar->forced(*std::move(step.states[index]), token.token, limits::kDraftRows);
  if (!forced.empty()) drafts_of(step, token.sequence).forced = std::move(forced);
}

// Whether a draft is the token that the row before it drew, in this step or in an earlier one.
bool was_drawn(const StageSequence& sequence, const BatchRow& row) {
  return sequence.drawn && sequence.drawn->position == row.position &&
         sequence.drawn->token == row.token;
}

}  // namespace

void collect_tokens(Step& step) {
  for (std::size_t i = 0; i < step.scores.size(); ++i) {
    if (step.scores[i] && !step.batch.rows[i].failed()) {
      step.result.scores.push_back(*std::move(step.scores[i]));
    }
  }
  const std::vector<BatchRow>& rows = step.batch.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    StageSequence& sequence = *step.sequences[i];
    const bool right = !rows[i].draft() || was_drawn(sequence, rows[i]);
    if (rows[i].draft()) {
      DraftCount& count =
          drafts_of(step, rows[i].sequence).counts[static_cast<std::size_t>(rows[i].kind())];
      ++count.drafted;
      if (right) ++count.accepted;
    }
    sequence.drawn.reset();  // rows after a wrong draft are void
    if (!rows[i].sampled() || !right) continue;
    collect_token(step, i);
    if (step.drawn[i].finish == FinishReason::kNone) {
      sequence.drawn = {step.drawn[i].position, step.drawn[i].token};
    }
    const bool goes_on = i + 1 < rows.size() && rows[i + 1].sequence == rows[i].sequence &&
                         rows[i + 1].token == step.drawn[i].token;
    if (!goes_on) note_forced(step, i);
  }
}

void forget_tokens(StepResult& result) {
  StepResult kept;
  kept.released = std::move(result.released);
  kept.replayed = result.replayed;
  kept.input = std::move(result.input);
  result = std::move(kept);
}

void settle_hashes(Step& step) {
  std::vector<RowHash> settled;
  const auto settle_sequence = [&](StageSequence& sequence) {
    settled.insert(settled.end(), sequence.unsettled.begin(), sequence.unsettled.end());
    sequence.unsettled.clear();
  };
  auto hash = step.result.hashes.begin();
  for (std::size_t i = 0; i < step.batch.rows.size(); ++i) {
    StageSequence& sequence = *step.sequences[i];
    if (!sequence.open.report_hashes) continue;
    const bool first = i == 0 || step.sequences[i - 1] != &sequence;
    if (first && !step.batch.rows[i].draft()) settle_sequence(sequence);
    INVARIANT(hash != step.result.hashes.end(), "every reported row has its hash");
    (step.batch.rows[i].draft() ? sequence.unsettled : settled).push_back(*hash++);
  }
  for (auto& node : step.released) settle_sequence(node.mapped());
  step.result.hashes = std::move(settled);
}

}  // namespace hearth::node
