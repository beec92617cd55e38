#include "cli/ledger/receipt_model.h"

#include <utility>

#include "cli/process/build_name.h"
#include "cli/terminal/progress.h"
#include "kernels/canonical.h"
#include "model/gguf/manifest.h"

namespace hearth::cli {
namespace {

enum class Known : std::uint8_t { kNot, kByHeader, kByAll };

// A receipt names its model by the file's header where no manifest was made of it, else by all.
Result<Known> known_as(const model::GgufFile& file, const Hash256& program) {
  const auto names = [&program](const Hash256& model) {
    return program == ledger::program_id(model, receipt_build(), kernels::kCanonicalVersion);
  };
  if (names(blake2b(as_bytes(file.fingerprint().hex())))) return Known::kByHeader;
  ProgressBar bar("hashing the model", file.file_bytes(), 0);
  TRY(const model::Manifest manifest, model::make_manifest(file, [&bar](std::uint64_t done) {
        bar.set(done);
        return true;
      }));
  bar.finish();
  return names(manifest.id()) ? Known::kByAll : Known::kNot;
}

ReceiptModel another(std::string text) {
  return {node::Difference{node::Differs::kModel, std::move(text)}, false};
}

bool holds_all(const std::vector<LayerRange>& split, std::uint32_t layers) {
  std::uint32_t next = 0;
  for (const LayerRange& range : split) {
    if (range.begin != next || range.end <= range.begin) return false;
    next = range.end;
  }
  return next == layers;
}

}  // namespace

std::vector<LayerRange> split_of(const std::vector<ledger::Receipt>& receipts) {
  std::vector<LayerRange> split;
  for (std::uint32_t i = 0; i < receipts.front().stages; ++i) {
    split.push_back({receipts[i].layer_begin, receipts[i].layer_end});
  }
  return split;
}

Result<ReceiptModel> check_model(const model::GgufFile& file, const std::string& path,
                                 const model::ModelSpec& spec,
                                 const std::vector<ledger::Receipt>& receipts) {
  const Hash256 program = receipts.front().program;
  for (const ledger::Receipt& receipt : receipts) {
    if (receipt.program == program) continue;
    return another("the receipts are of more than one model or program");
  }
  TRY(const Known known, known_as(file, program));
  if (known == Known::kNot) {
    return another("the receipts are of another model file than " + path +
                   ", or of another version of this program than " + receipt_build());
  }
  if (!holds_all(split_of(receipts), spec.layers)) {
    return another("the receipts' stages do not hold the model's " + std::to_string(spec.layers) +
                   " layers, each once");
  }
  return ReceiptModel{std::nullopt, known == Known::kByHeader};
}

}  // namespace hearth::cli
