// DisputeRows: what came into this stage of one request, kept until it is over here, so that what
// was computed of it can be traced (node/proof/tracer.h). Incoming rows and tokens only: every
// value of a trace follows from them. Any other request costs a comparison.
//
// Bounded: a request that is longer than kPositions, or whose rows have more than kBytes, is not
// kept, and why is its result. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "ledger/receipt.h"
#include "node/proof/tracer.h"
#include "proto/step.h"

namespace hearth::node {

class DisputeRows {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  static constexpr std::uint32_t kPositions = 20'480;  // a window behind 16,384

  // From now on this request is kept; what was kept goes.
  void watch(const ledger::RequestId& request);
  void stop();
  // The pipeline ended. True when the request was under way: take() says that it cannot be traced.
  bool lose();
  // As of WindowReceipts::step. True when the request is over: take().
  bool step(const StepBatch& batch, ByteSpan in);
  // What came in, or why it is not known; nothing is watched any more.
  Result<TraceInput> take();

 private:
  void add(const BatchRow& row, ByteSpan in);
  void fail(const std::string& why);

  std::optional<ledger::RequestId> watched_;
  std::optional<SequenceId> sequence_;
  TraceInput input_;
  std::size_t bytes_ = 0;
  std::string failed_;
};

}  // namespace hearth::node
