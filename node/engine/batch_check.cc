#include "node/engine/batch_check.h"

#include <string>
#include <unordered_set>

#include "base/limits.h"

namespace hearth::node {
namespace {

std::string name_of(SequenceId sequence) { return "sequence " + std::to_string(sequence.value); }

struct Known {
  std::uint32_t prompt_tokens = 0;
  std::uint64_t positions = 0;  // of prompt and answer, for which KV is reserved
  Position next = 0;
  bool has_rows = false;
};

// Sequences as they will be once the batch's opens and truncates are in.
using KnownSequences = std::unordered_map<SequenceId, Known>;

Known known_of(const SequenceOpen& open, Position next) {
  return {open.prompt_tokens, std::uint64_t{open.prompt_tokens} + open.sampling.max_tokens, next,
          false};
}

// Null when it is neither open nor opened by this batch.
Known* find(SequenceId sequence, const StageSequences& sequences, KnownSequences& known) {
  if (const auto open = sequences.find(sequence); open != sequences.end()) {
    return &known.emplace(sequence, known_of(open->second.open, open->second.next)).first->second;
  }
  const auto opened = known.find(sequence);
  return opened == known.end() ? nullptr : &opened->second;
}

Status check_opens(const StepBatch& batch, const StageSequences& sequences, const StepShape& shape,
                   KnownSequences& opened) {
  for (const SequenceOpen& open : batch.opens) {
    REQUIRE(!sequences.contains(open.sequence), name_of(open.sequence), " is open already");
    REQUIRE(open.prompt_tokens >= 1 && open.prompt_tokens <= shape.context, name_of(open.sequence),
            " has ", open.prompt_tokens, " prompt tokens, the context takes 1 to ", shape.context);
    REQUIRE(open.scored.empty() || open.scored.size() == open.prompt_tokens, name_of(open.sequence),
            " has ", open.scored.size(), " scored tokens, its prompt has ", open.prompt_tokens);
    for (const TokenId token : open.scored) {
      REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < shape.vocabulary,
              name_of(open.sequence), " has the scored token ", token,
              ", which is not in the vocabulary of ", shape.vocabulary);
    }
    REQUIRE(open.embedding <= shape.hidden_size, name_of(open.sequence), " has an embedding of ",
            open.embedding, " values, the model has ", shape.hidden_size);
    REQUIRE(opened.emplace(open.sequence, known_of(open, 0)).second, name_of(open.sequence),
            " is opened twice in one step");
  }
  return ok_status();
}

Status check_truncates(const StepBatch& batch, const StageSequences& sequences,
                       const StepShape& shape, KnownSequences& known) {
  std::unordered_set<SequenceId> truncated;
  for (const SequenceTruncate& truncate : batch.truncates) {
    const std::string where =
        name_of(truncate.sequence) + ", truncated to " + std::to_string(truncate.length);
    REQUIRE(!shape.keeps_state, where,
            ": this model's sequences keep a state, which cannot go back");
    REQUIRE(truncated.insert(truncate.sequence).second, where, ": the second time in one step");
    Known* sequence = find(truncate.sequence, sequences, known);
    REQUIRE(sequence != nullptr, where, ": it was never opened");
    REQUIRE(truncate.length <= sequence->next, where, ": it has ", sequence->next, " positions");
    REQUIRE(truncate.length >= sequence->prompt_tokens, where, ": its prompt has ",
            sequence->prompt_tokens, " tokens");
    sequence->next = truncate.length;
  }
  return ok_status();
}

Status check_row(const BatchRow& row, const Known& known, const StepShape& shape) {
  const std::string where = name_of(row.sequence) + ", position " + std::to_string(row.position);
  REQUIRE(row.position == known.next, where, ": the next one is ", known.next);
  REQUIRE(row.position < shape.context, where, ": the context ends at ", shape.context);
  REQUIRE(row.position < known.positions, where, ": prompt and answer have ", known.positions,
          " positions");
  REQUIRE(row.token >= 0 && static_cast<std::uint32_t>(row.token) < shape.vocabulary, where,
          ": token ", row.token, " is not in the vocabulary of ", shape.vocabulary);
  REQUIRE((row.flags & BatchRow::kSample) == 0 || row.position + 1 >= known.prompt_tokens, where,
          ": sampled inside a prompt of ", known.prompt_tokens, " tokens");
  return ok_status();
}

// `before`: the row before it in the step, of the same sequence.
Status check_draft(const BatchRow& row, const BatchRow* before, const StepShape& shape,
                   const Known& known) {
  const std::string where = name_of(row.sequence) + ", position " + std::to_string(row.position);
  const bool behind_draft = before != nullptr && before->draft();
  REQUIRE(row.draft() || !behind_draft, where, ": follows a draft and is not one");
  if (!row.draft()) return ok_status();
  REQUIRE(!shape.keeps_state, where, ": a draft, of a model whose sequences keep a state");
  REQUIRE(before == nullptr || before->sampled(), where, ": a draft follows no sampled row");
  REQUIRE(row.sampled() && row.position >= known.prompt_tokens, where,
          ": drafts are sampled, behind a prompt of ", known.prompt_tokens, " tokens");
  return ok_status();
}

Status check_rows(const StepBatch& batch, const StageSequences& sequences, const StepShape& shape,
                  KnownSequences& known) {
  Known* current = nullptr;
  std::uint32_t drafts = 0;  // of the row's sequence
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    const bool first = i == 0 || row.sequence != batch.rows[i - 1].sequence;
    if (first) {
      current = find(row.sequence, sequences, known);
      REQUIRE(current != nullptr, name_of(row.sequence), " has a row and was never opened");
      REQUIRE(!current->has_rows, "the rows of ", name_of(row.sequence), " are not together");
      current->has_rows = true;
    }
    TRY_VOID(check_row(row, *current, shape));
    TRY_VOID(check_draft(row, first ? nullptr : &batch.rows[i - 1], shape, *current));
    drafts = row.draft() ? drafts + 1 : 0;
    REQUIRE(drafts <= limits::kDraftRows, name_of(row.sequence), " has more drafts than ",
            limits::kDraftRows, " in one step");
    ++current->next;
  }
  return ok_status();
}

}  // namespace

Status check_batch(const StepBatch& batch, const StageSequences& sequences, const StepShape& shape,
                   std::uint32_t batch_rows) {
  REQUIRE(batch.rows.size() <= batch_rows, "a step of ", batch.rows.size(), " rows, the limit is ",
          batch_rows);
  const std::size_t bytes =
      shape.with_activations ? batch.rows.size() * shape.hidden_size * sizeof(std::uint16_t) : 0;
  REQUIRE(batch.activations.size() == bytes, "a step of ", batch.rows.size(), " rows brings ",
          batch.activations.size(), " bytes of activations, not ", bytes);
  KnownSequences known;
  TRY_VOID(check_opens(batch, sequences, shape, known));
  TRY_VOID(check_truncates(batch, sequences, shape, known));
  std::unordered_set<SequenceId> released;
  for (const SequenceId sequence : batch.releases) {
    REQUIRE(sequences.contains(sequence) || known.contains(sequence), name_of(sequence),
            " is released and was never opened");
    REQUIRE(released.insert(sequence).second, name_of(sequence), " is released twice in one step");
  }
  return check_rows(batch, sequences, shape, known);
}

}  // namespace hearth::node
