// Batcher: forms the steps of a pipeline on its first stage, where sampled tokens come back
// directly from the last one, so that the next step starts without asking anybody.
//
// Continuous batching: a sequence joins at the next step after it was submitted and leaves at the
// step after its end. At most `batches_in_flight` steps travel at once (stages + 1); decode rows
// are shared evenly between them, so that no cohort outgrows the others; prompt chunks fill
// what is left of a step's rows, oldest sequence first, and never delay a decode row. Prompts in
// the background and the others take turns, step by step: neither waits for more than its own
// length of the other kind.
//
// A plain state machine: no clock, no threads, no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "proto/step.h"

namespace hearth::node {

struct BatcherOptions {
  Epoch epoch;
  std::uint32_t batch_rows = 512;       // rows of one step at most
  std::uint32_t prefill_rows = 128;     // prompt rows of one step at most
  std::uint32_t batches_in_flight = 2;  // steps sent and not yet answered
};

class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);
  ~Batcher();
  Batcher(Batcher&&) noexcept;
  Batcher& operator=(Batcher&&) noexcept;

  // kInvalidInput: unknown epoch, a sequence id seen before, no prompt, or as many
  // tokens as the sequence may have in all.
  Status submit(SubmitMessage message);
  // Unknown or ended sequences are ignored: a cancel races with the end by nature.
  void cancel(SequenceId sequence);
  // The answer to a step; kInvalidInput when it answers no step in flight, or names a sequence or
  // position that this step did not sample.
  Status on_tokens(const StepTokens& tokens);
  // The next step, when one may start and there is something to do. Call until empty.
  std::optional<StepBatch> next();

  std::uint32_t sequences() const;
  std::uint32_t steps_in_flight() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::node
