// hearth verify --re-execute: recomputes a saved answer from a model file of this machine, and
// compares it with its receipts (node/proof/choice_check.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/client/saved_answer.h"
#include "ledger/receipt.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/proof/choice_check.h"

namespace hearth::cli {

struct ReexecuteOptions {
  std::string model;               // a file or a pulled name; empty: as the request names it
  std::uint32_t threads = 0;       // 0: all cores
  std::uint64_t memory_bytes = 0;  // 0: what the machine has available
  std::string device = "auto";     // cli/worker/device.h
  std::string chat_template;       // the file that the server was given; empty: the model's own
};

struct Reexecuted {
  std::optional<node::Difference> difference;  // nothing: the whole answer is proved
  std::uint32_t choices = 0;
  std::uint64_t positions = 0;  // of receipts; as many were computed, or twice where one differs
  double seconds = 0.0;
};

// `receipts`: all of the answer of that name, as ledger::check_receipts() gives them; at least one.
Result<Reexecuted> reexecute(const ReexecuteOptions& options, const client::SavedAnswer& saved,
                             const ledger::AnswerName& name,
                             const std::vector<ledger::Receipt>& receipts);

// Whether receipts are of this model file. They name the program that computed them: a model, a
// build of this program, and a version of the arithmetic.
struct ReceiptModel {
  // Nothing: the receipts are of this file, as far as they say.
  std::optional<node::Difference> difference;
  // No manifest was made of the model: the receipts know it by its header alone.
  bool by_header = false;
};
// Hashes the file where that is needed. `path`: for messages.
Result<ReceiptModel> check_model(const model::GgufFile& file, const std::string& path,
                                 const model::ModelSpec& spec,
                                 const std::vector<ledger::Receipt>& receipts);

}  // namespace hearth::cli
