#include "cli/serve/dispute_tools.h"

#include <memory>

#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/proof/trace_check.h"
#include "node/proof/trace_math.h"

namespace hearth::cli {
namespace {

Result<ledger::TraceShape> shape_of(const std::string& path, LayerRange layers,
                                    std::uint32_t prompt) {
  TRY(const auto file, model::GgufFile::open(path));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  REQUIRE(layers.begin < layers.end && layers.end <= spec.layers,
          "the receipt's layers are none of the model's " + std::to_string(spec.layers));
  return node::trace_shape(spec, layers, prompt);
}

Result<coordinator::DisputeTools::Found> check(const std::string& path,
                                               const ledger::DisputeFile& dispute,
                                               bool with_model) {
  std::shared_ptr<const model::GgufFile> file;
  if (with_model) {
    TRY(file, model::GgufFile::open(path));
  }
  TRY(const node::DisputeFinding finding, node::check_dispute(dispute, file.get()));
  return coordinator::DisputeTools::Found{finding.decided, finding.wrong, finding.why};
}

}  // namespace

coordinator::DisputeTools dispute_tools(const std::string& model, const std::string& build) {
  return {
      build,
      [model](LayerRange layers, std::uint32_t prompt) { return shape_of(model, layers, prompt); },
      [model](const ledger::DisputeFile& file, bool with_model) {
        return check(model, file, with_model);
      }};
}

}  // namespace hearth::cli
