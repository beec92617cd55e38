#include "node/proof/dispute_rows.h"

#include <algorithm>
#include <utility>

namespace hearth::node {

void DisputeRows::watch(const ledger::RequestId& request) {
  stop();
  watched_ = request;
}

void DisputeRows::stop() { *this = {}; }

bool DisputeRows::lose() {
  if (sequence_) fail("its pipeline ended, or a step was left out, while it was computed");
  return sequence_.has_value();
}

void DisputeRows::fail(const std::string& why) {
  if (failed_.empty()) failed_ = why;
  input_ = {};
  bytes_ = 0;
}

bool DisputeRows::step(const StepBatch& batch, ByteSpan in) {
  if (!watched_) return false;
  for (const SequenceOpen& open : batch.opens) {
    if (!open.receipt || open.receipt->request != *watched_) continue;
    sequence_ = open.sequence;
    failed_.clear();
    bytes_ = 0;
    input_ = {};
    input_.prompt = open.prompt_tokens;
    input_.sampling = open.sampling;
    input_.salt = open.receipt->salt;
  }
  if (!sequence_) return false;
  for (const SequenceTruncate& truncated : batch.truncates) {
    if (truncated.sequence != *sequence_ || truncated.length >= input_.tokens.size()) continue;
    input_.tokens.resize(truncated.length);
    if (!input_.rows.empty()) input_.rows.resize(truncated.length);
  }
  const std::size_t each = batch.rows.empty() ? 0 : in.size() / batch.rows.size();
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i].sequence == *sequence_) add(batch.rows[i], in.subspan(i * each, each));
  }
  return std::ranges::count(batch.releases, *sequence_) > 0;
}

void DisputeRows::add(const BatchRow& row, ByteSpan in) {
  if (!failed_.empty()) return;
  if (row.failed()) return fail("position " + std::to_string(row.position) + " failed");
  if (row.position != input_.tokens.size()) return fail("a step of it was left out");
  bytes_ += in.size();
  if (row.position >= kPositions || bytes_ > kBytes) {
    return fail("it has more than " + std::to_string(kPositions) +
                " positions, or rows of more than " + std::to_string(kBytes) + " bytes");
  }
  input_.tokens.push_back(row.token);
  if (!in.empty()) input_.rows.emplace_back(in.begin(), in.end());
}

Result<TraceInput> DisputeRows::take() {
  const std::string why = std::exchange(failed_, {});
  TraceInput input = std::exchange(input_, {});
  stop();
  if (!why.empty()) return Error{ErrorCode::kUnavailable, why};
  return input;
}

}  // namespace hearth::node
