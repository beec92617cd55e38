#include "cli/worker/emulation.h"

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/crypto.h"
#include "base/private_file.h"
#include "cli/plan/catalogue/catalogue.h"
#include "cli/process/paths.h"
#include "cli/process/process_log.h"
#include "cli/terminal/escape.h"
#include "model/synthetic.h"
#include "node/emulation/emulated_card.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kFigureBytes = 16 * 1024;
constexpr std::size_t kDigestDigits = 8;

// The digest makes the name one of these figures: measurements are stored by it.
Result<placement::Card> card_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFigureBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const std::string name = escape_control(path);
  REQUIRE(file.eof() && !text.empty(), "--emulate: cannot read ", name,
          ", which must be a file of 1 to ", kFigureBytes, " bytes");
  TRY(placement::Card card, read_card_figures(name, text));
  card.title += " (" + blake2b(as_bytes(text)).hex().substr(0, kDigestDigits) + ")";
  return card;
}

Result<model::SyntheticOptions> options_of(const placement::Shape& shape,
                                           const placement::Quant& quant) {
  model::SyntheticOptions options;
  options.family = shape.architecture;
  options.name = std::string(node::kEmulated) + " " + shape.title;
  options.layers = shape.layers;
  options.hidden = shape.hidden;
  options.feed_forward = shape.feed_forward;
  options.experts = shape.experts;
  options.experts_used = shape.experts_used;
  options.shared_feed_forward = shape.shared_feed_forward;
  options.heads = shape.heads;
  options.kv_heads = shape.kv_heads;
  options.head_dim = shape.head_dim;
  options.vocabulary = shape.vocabulary;
  options.context = shape.context;
  options.tied_output = shape.tied;
  options.shape_only = true;
  // Mixtures of types have a name of their own; of another format most matrices have one type.
  const Status mixture = model::set_weight_types(options, quant.key);
  if (!mixture.ok()) TRY_VOID(model::set_weight_types(options, quant.type));
  return options;
}

}  // namespace

Result<std::unique_ptr<node::Device>> open_emulated_device(const std::string& gpu) {
  if (gpu.ends_with(".json")) {
    TRY(const placement::Card card, card_of_file(gpu));
    return node::emulate_card(card, node::real_time());
  }
  TRY(const placement::Card card, find_entry(catalogue().cards, gpu, "--emulate: GPU"));
  return node::emulate_card(card, node::real_time());
}

Result<std::string> write_shape(const std::string& shape, const std::string& quant) {
  TRY(const placement::Shape found, find_entry(catalogue().shapes, shape, "--shape: model"));
  TRY(const placement::Quant format,
      find_entry(catalogue().quants, quant.empty() ? kDefaultQuant : quant, "--quant: format"));
  TRY(const model::SyntheticOptions options, options_of(found, format));
  const std::filesystem::path folder = cache_dir() / "shapes";
  TRY_VOID(make_private_folder(folder.string()));
  const std::string path = (folder / (found.key + "-" + format.key + ".gguf")).string();
  TRY_VOID(model::write_synthetic_model(path, options));
  return path;
}

void mark_emulation() { mark_process_log(node::kEmulated); }

}  // namespace hearth::cli
