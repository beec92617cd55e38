// Which model file the receipts of an answer are of: they name the program that computed them,
// which is a model, a build of this program and a version of the arithmetic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/receipt.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/proof/choice_check.h"

namespace hearth::cli {

// The layers of each stage, by receipts of one window at least.
std::vector<LayerRange> split_of(const std::vector<ledger::Receipt>& receipts);

struct ReceiptModel {
  std::optional<node::Difference> difference;  // nothing: the file is theirs, as far as they say
  // No manifest was made of the model: the receipts know it by its header alone.
  bool by_header = false;
};
// Hashes the file where that is needed. `path`: for messages.
Result<ReceiptModel> check_model(const model::GgufFile& file, const std::string& path,
                                 const model::ModelSpec& spec,
                                 const std::vector<ledger::Receipt>& receipts);

}  // namespace hearth::cli
