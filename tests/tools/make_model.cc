#include "tests/tools/make_model.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/terminal/exit_codes.h"
#include "model/spec.h"
#include "model/synthetic.h"

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
  bool embeddings = false;
};

Status make_model(const MakeModelOptions& o) {
  TRY(model::SyntheticOptions options, model::synthetic_preset(o.shape));
  TRY_VOID(model::set_weight_types(options, o.type));
  if (!o.family.empty()) options.family = o.family;
  options.seed = o.seed;
  options.name = "synthetic " + options.family + " " + o.shape + " " + o.type;
  options.embeddings = o.embeddings;
  if (o.layers != 0) options.layers = o.layers;
  if (o.vocabulary != 0) options.vocabulary = o.vocabulary;
  if (o.experts != 0) options.experts = o.experts;
  if (o.experts_used != 0) options.experts_used = o.experts_used;
  return model::write_synthetic_model(o.out, options);
}

int run_make_model(const MakeModelOptions& o) {
  const Status made = make_model(o);
  if (!made.ok()) return fail(made.error());
  std::error_code ignored;
  std::fprintf(stderr, "%s: %s, %ju bytes\n", o.out.c_str(), o.shape.c_str(),
               static_cast<std::uintmax_t>(std::filesystem::file_size(o.out, ignored)));
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
  make->add_option("--shape", o->shape, "tiny, demo, 8b, 70b, 8x7b, a2.7b or 30b-a3b")
      ->capture_default_str();
  make->add_option("--layers", o->layers, "layers (0: those of the shape)")->capture_default_str();
  make->add_option("--vocabulary", o->vocabulary, "tokens (0: those of the shape)")
      ->capture_default_str();
  make->add_option("--experts", o->experts,
                   "experts of a layer (0: those of the shape, or 8 where the family has them)")
      ->capture_default_str();
  make->add_option("--experts-used", o->experts_used, "of them by a row (0: those of the shape)")
      ->capture_default_str();
  make->add_flag("--embeddings", o->embeddings, "a model that gives embeddings");
  make->add_option("--seed", o->seed, "of the random weights")->capture_default_str();
  make->callback([o, &action] { action = [o] { return run_make_model(*o); }; });
}

}  // namespace hearth::cli
