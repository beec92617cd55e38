#include "tests/tools/make_model.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/terminal/exit_codes.h"
#include "model/gguf/parts.h"
#include "model/spec.h"
#include "tests/tools/model_shapes.h"
#include "tests/tools/parts_writer.h"

namespace hearth::cli {
namespace {

struct MakeModelOptions {
  std::string out;
  std::string shape = "tiny";
  std::string family;  // empty: that of the shape
  std::string type = "Q4_0";
  std::uint64_t seed = 1;
  std::uint32_t layers = 0;  // 0: those of the shape
  std::uint32_t vocabulary = 0;
  std::uint32_t experts = 0;
  std::uint32_t experts_used = 0;
  std::uint32_t prediction_layers = 0;
  std::uint32_t layer_input = 0;
  std::uint32_t sharing_layers = 0;
  std::int64_t window = -1;  // below 0: that of the shape
  bool untied = false;
  bool embeddings = false;
  bool shape_only = false;
  std::uint32_t split = 0;
  bool no_tensor_first_split = false;
};

// Returns the path to name it by.
Result<std::string> make_model(const MakeModelOptions& o) {
  TRY(model::SyntheticOptions options, model::synthetic_preset(o.shape));
  TRY_VOID(model::set_weight_types(options, o.type));
  if (!o.family.empty()) options.family = o.family;
  options.seed = o.seed;
  options.name = "synthetic " + options.family + " " + o.shape + " " + o.type;
  options.embeddings = o.embeddings;
  options.shape_only = o.shape_only;
  if (o.layers != 0) options.layers = o.layers;
  if (o.vocabulary != 0) options.vocabulary = o.vocabulary;
  if (o.experts != 0) options.experts = o.experts;
  if (o.experts_used != 0) options.experts_used = o.experts_used;
  options.prediction_layers = o.prediction_layers;
  options.layer_input = o.layer_input;
  options.sharing_layers = o.sharing_layers;
  if (o.window >= 0) options.sliding_window = static_cast<std::uint32_t>(o.window);
  if (o.untied) options.tied_output = false;
  if (o.split != 0) {
    return model::write_synthetic_parts(o.out, options, o.split, o.no_tensor_first_split);
  }
  TRY_VOID(model::write_synthetic_model(o.out, options));
  return o.out;
}

int run_make_model(const MakeModelOptions& o) {
  const auto made = make_model(o);
  if (!made.ok()) return fail(made.error());
  std::error_code ignored;
  std::uintmax_t bytes = 0;
  for (const std::string& part : model::all_parts(*made)) {
    bytes += std::filesystem::file_size(part, ignored);
  }
  std::fprintf(stderr, "%s: %s, %ju bytes\n", made->c_str(), o.shape.c_str(), bytes);
  return kExitDone;
}

}  // namespace

void add_make_model(CLI::App& app, Action& action) {
  auto o = std::make_shared<MakeModelOptions>();
  CLI::App* make = app.add_subcommand("make-model", "Write a model with random weights");
  make->add_option("out", o->out, "the GGUF file to write")->required();
  std::string families;
  for (const std::string_view family : model::known_families()) {
    families += (families.empty() ? "" : ", ") + std::string(family);
  }
  make->add_option("--family", o->family, "one of " + families + " (without: that of the shape)");
  make->add_option("--type", o->type, "weight type, as Q4_K or Q4_K_M")->capture_default_str();
  make->add_option("--shape", o->shape,
                   "tiny, demo, 8b, 70b, 8x7b, a2.7b, 30b-a3b, gpt-oss-20b, gpt-oss-120b, "
                   "106b-a12b, glm-4.7-flash, 80b-a3b or 35b-a3b")
      ->capture_default_str();
  make->add_option("--layers", o->layers, "layers (0: those of the shape)")->capture_default_str();
  make->add_option("--vocabulary", o->vocabulary, "tokens (0: those of the shape)")
      ->capture_default_str();
  make->add_option("--experts", o->experts,
                   "experts of a layer (0: those of the shape, or 8 where the family has them)")
      ->capture_default_str();
  make->add_option("--experts-used", o->experts_used, "of them by a row (0: those of the shape)")
      ->capture_default_str();
  make->add_option("--prediction-layers", o->prediction_layers,
                   "layers behind the last that predict tokens further on, in families that may "
                   "have them")
      ->capture_default_str();
  make->add_option("--layer-input", o->layer_input,
                   "values of each layer's own input, in gemma4 without experts")
      ->capture_default_str();
  make->add_option("--sharing-layers", o->sharing_layers,
                   "last layers without keys and values, likewise")
      ->capture_default_str();
  make->add_option("--window", o->window, "positions that local layers see (0: all)")
      ->check(CLI::Range(0, 1 << 20));
  make->add_flag("--untied", o->untied, "a head of its own");
  make->add_flag("--embeddings", o->embeddings, "a model that gives embeddings");
  make->add_flag("--shape-only", o->shape_only, "a hole in place of weights, for emulated GPUs");
  make->add_option("--split", o->split,
                   "write so many parts, out-00001-of-00003.gguf and so on (0: one file)")
      ->capture_default_str();
  make->add_flag("--no-tensor-first-split", o->no_tensor_first_split,
                 "with --split: the first part has no tensors");
  make->add_option("--seed", o->seed, "of the random weights")->capture_default_str();
  make->callback([o, &action] { action = [o] { return run_make_model(*o); }; });
}

}  // namespace hearth::cli
