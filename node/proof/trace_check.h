// Who is wrong in a dispute (ledger/dispute.h): its game is played again, and the one value in
// which the two differ is computed by the scalar reference from inputs that both agree on. No model
// is needed where both have signed the same weights; where they have not, or where the weights
// shall be known to be the model's, its file has to be there. Pure, any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/dispute.h"
#include "model/gguf/gguf.h"
#include "node/proof/trace_math.h"

namespace hearth::node {

struct DisputeFinding {
  bool decided = false;
  std::array<bool, ledger::kDisputeSides> wrong{};  // either, or both
  std::string why;                                  // a sentence
  std::optional<ledger::DisputeFound> found;
  bool weights_agreed = false;  // both signed the same, or none are read
  bool weights_tied = false;    // they are those of the model's file
};

// `model`: of the receipts' program, which the caller has made sure of; null: none is at hand.
// kInvalidInput: the file is not what the two have signed, or its evidence does not fit.
Result<DisputeFinding> check_dispute(const ledger::DisputeFile& file, const model::GgufFile* model);

// A value that another one is computed from.
struct TraceSource {
  std::uint32_t position = 0;
  ledger::TraceSlot slot;
};
// In the order in which evidence has them.
std::vector<TraceSource> trace_sources(const ledger::TraceShape& shape, std::uint32_t position,
                                       const ledger::TraceSlot& slot);

}  // namespace hearth::node
