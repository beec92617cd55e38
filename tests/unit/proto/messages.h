// One well-formed message of each kind, for codec tests and the fuzz corpus.
#pragma once

#include <limits>

#include "proto/frame.h"
#include "proto/step.h"

namespace hearth::testing {

inline StepShape small_shape(bool with_activations) { return {4, 100, 64, with_activations}; }

inline SequenceOpen sample_open(std::uint64_t id) {
  SequenceOpen open;
  open.sequence = SequenceId(id);
  open.prompt_tokens = 3;
  open.report_hashes = true;
  open.sampling.temperature = 0.7F;
  open.sampling.top_k = 40;
  open.sampling.top_p = 0.9F;
  open.sampling.min_p = 0.05F;
  open.sampling.repetition_penalty = 1.1F;
  open.sampling.presence_penalty = -0.5F;
  open.sampling.frequency_penalty = 0.25F;
  open.sampling.seed = 0xFEDCBA9876543210ULL;
  open.sampling.logit_bias = {{5, 1.5F}, {7, -std::numeric_limits<float>::infinity()}};
  open.sampling.max_tokens = 8;
  open.sampling.stop_tokens = {2, 99};
  open.sampling.logprobs = true;
  open.sampling.top_logprobs = 2;
  if (id % 3 == 0) open.sampling.grammar = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}};
  if (id % 2 == 0) open.receipt.emplace().request.fill(std::byte{7});
  return open;
}

inline StepBatch sample_batch(bool with_activations) {
  StepBatch batch;
  batch.epoch = Epoch(3);
  batch.step = StepId(41);
  batch.boundary = 2;
  batch.opens = {sample_open(9), sample_open(10)};
  batch.truncates = {{SequenceId(1), 30}, {SequenceId(5), 64}};
  batch.releases = {SequenceId(4), SequenceId(2)};
  batch.rows = {{SequenceId(9), 0, 11, 0},
                {SequenceId(9), 1, 12, BatchRow::kSample},
                {SequenceId(1), 30, 99, BatchRow::kSample}};
  batch.rows[2].fail(ErrorCode::kNoCapacity);
  if (with_activations) {
    for (int i = 0; i < 3 * 4 * 2; ++i) batch.activations.push_back(std::byte(i * 7));
  }
  return batch;
}

inline StepTokens sample_tokens() {
  StepTokens tokens;
  tokens.epoch = Epoch(3);
  tokens.step = StepId(41);
  tokens.tokens = {{SequenceId(9),
                    2,
                    17,
                    FinishReason::kNone,
                    ErrorCode::kNumeric,
                    -0.5F,
                    {{17, -0.5F}, {3, -2}}},
                   {SequenceId(1), 31, 0, FinishReason::kError, ErrorCode::kNoCapacity, 0, {}}};
  tokens.released = {SequenceId(4), SequenceId(2)};
  return tokens;
}

inline SubmitMessage sample_submit() { return {Epoch(3), sample_open(9), {1, 2, 99}}; }

inline CancelMessage sample_cancel() { return {Epoch(3), {SequenceId(9), SequenceId(1)}}; }

inline Hello sample_hello() {
  Hello hello;
  hello.canonical = 1;
  hello.epoch = Epoch(3);
  hello.stage = 2;
  hello.node = "desk-4090";
  return hello;
}

}  // namespace hearth::testing
