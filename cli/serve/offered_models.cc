#include "cli/serve/offered_models.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/random.h"
#include "cli/models/hub.h"
#include "cli/models/models.h"
#include "cli/serve/model_list.h"
#include "cli/terminal/progress.h"
#include "cli/worker/device.h"
#include "cli/worker/worker.h"
#include "kernels/canonical.h"
#include "model/chat_template.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "model/text/tokenizer.h"
#include "node/engine/placement_model.h"
#include "node/engine/ranks/share.h"
#include "node/engine/stage_memory.h"
#include "node/runner/draft_model.h"
#include "proto/split.h"

namespace hearth::cli {

using coordinator::http::ServedModel;
using coordinator::http::StageNeed;

// Threads of each local worker: one for every core. With one stream a single stage works at a time:
// on two cores three workers of two threads decode 300 tokens/s, of one thread 245. With many
// streams all stages work at once, with no measurable loss (982 and 995). Figures:
// tests/bench/swarm_speed.py.
std::uint32_t threads_of(const ServeOptions& options) {
  if (options.worker_threads > 0) return options.worker_threads;
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  // The ranks of a group compute at the same time, and wait for each other.
  const bool groups = options.ranks > 1 && options.local_workers > 0;
  return groups ? std::max(1U, cores / options.local_workers) : cores;
}

// 0: as many as are best.
std::uint32_t stages_of(const ServeOptions& options) {
  if (!options.by_hand.empty()) return static_cast<std::uint32_t>(options.by_hand.size());
  return options.stages;
}

std::uint32_t stages_of(const ServeOptions& options, const model::ModelSpec& spec) {
  const std::uint32_t asked = stages_of(options);
  return asked == 0 && spec.is_whole() ? 1 : asked;
}

std::vector<std::string> devices_of(const ServeOptions& options) {
  const bool automatic = options.device == "auto" && options.ranks <= 1;
  return worker_devices(options.device, options.local_workers, automatic ? cards_here() : 0);
}

void log_next_step(const ServeOptions& options, const std::string& api,
                   const std::string& cluster) {
  if (!api.empty()) {
    spdlog::info("on other machines the API is http://{}/v1 (with an API key)", api);
  }
  if (cluster.empty()) return;
  const std::uint32_t stages = stages_of(options);
  const std::uint32_t others = stages - std::min(stages, options.local_workers);
  spdlog::info(
      "cluster {}: {}; for each of them: hearth token create on this machine, then hearth join "
      "TOKEN on the other",
      cluster,
      others == 0 ? "this machine can serve alone, and other machines may join"
                  : "it needs " + counted(others, "other machine"));
}

namespace {

Status check_groups(const ServeOptions& options, const model::ModelSpec& spec) {
  REQUIRE(options.device == "cpu" || options.device == "auto",
          "--tensor-parallel: a group computes on processors; leave out --device, or pass "
          "--device cpu");
  const auto shares = node::divide(spec, std::vector<std::uint32_t>(options.ranks, 1));
  if (shares.ok()) return ok_status();
  return Error{shares.error().code, "--tensor-parallel: " + shares.error().message};
}

// Refuses options with which workers would fail at every start.
Status check_split(const ServeOptions& options, const model::ModelSpec& spec) {
  const std::uint32_t stages = stages_of(options, spec);
  if (options.ranks > 1) TRY_VOID(check_groups(options, spec));
  REQUIRE(!spec.is_whole() || stages == 1, stages,
          " stages; one node must hold every layer of this model, because its layers read more "
          "than the output of the layer before: leave out --place, or give --stages 1");
  REQUIRE(stages <= spec.layers, "the model has ", counted(spec.layers, "layer"), ", fewer than ",
          stages, " stages");
  REQUIRE(options.by_hand.empty() || options.by_hand.back().layers.end == spec.layers,
          "--place must end with the model's last layer, ", spec.layers - 1);
  if (options.local_workers == 0) return ok_status();
  const std::uint64_t kv_budget = kv_budget_or_default(options.kv_budget_bytes, false);
  if (stages == 0) return check_kv_budget(kv_budget, spec, spec.least_range(0));
  for (const LayerRange& layers : split_layers(spec.layers, stages)) {
    TRY_VOID(check_kv_budget(kv_budget, spec, layers));
  }
  return ok_status();
}

node::EngineOptions stage_engine(const ServeOptions& options, LayerRange layers) {
  node::EngineOptions engine;
  engine.layers = layers;
  engine.kv_budget_bytes = kv_budget_or_default(options.kv_budget_bytes, false);
  engine.batch_rows = options.batch_rows;
  engine.threads = threads_of(options);
  return engine;
}

// Memory that each local worker keeps for the draft model. Refuses one that cannot draft for
// `file`.
Result<std::uint64_t> draft_bytes(const ServeOptions& options, const model::GgufFile& file) {
  if (options.draft.empty()) return std::uint64_t{0};
  TRY(const auto path, resolve_model(options.draft));
  TRY(auto opened, model::GgufFile::open(path.string()));
  TRY(const node::DraftFile draft,
      node::DraftModel::open(std::move(opened), file, stage_engine(options, {})));
  return draft.memory_bytes;
}

// Checks that this machine can hold the stages of its local workers, each of them and all together.
Status check_local_memory(const ServeOptions& options, const model::GgufFile& file,
                          const model::ModelSpec& spec) {
  if (spec.shape_only) return ok_status();  // nothing is held here
  TRY(const std::uint64_t draft, draft_bytes(options, file));
  const auto beside = [&](std::uint64_t budget, std::uint64_t workers) {
    return budget - std::min(budget, workers * draft);
  };
  // Otherwise each worker reports what it can hold, or checks its share of a stage.
  if (options.optimise || !options.by_hand.empty() || options.ranks > 1) return ok_status();
  const std::vector<LayerRange> ranges = split_layers(spec.layers, stages_of(options, spec));
  std::vector<node::StageMemory> all;
  const std::vector<std::string> devices = devices_of(options);
  for (std::size_t i = 0; i < std::min<std::size_t>(ranges.size(), options.local_workers); ++i) {
    if (devices[i] != "cpu") continue;  // the worker itself checks the memory of its GPU
    TRY(all.emplace_back(), node::stage_memory(file, spec, stage_engine(options, ranges[i])));
    if (options.memory_bytes == 0) continue;
    TRY_VOID(node::check_memory({all.back()}, beside(options.memory_bytes, 1)));
  }
  if (all.empty()) return ok_status();
  return node::check_memory(all, beside(node::memory_budget(0), options.local_workers));
}

// For the message of which nodes to add. A stage whose memory cannot be computed is left out here,
// and refused when it is loaded.
std::vector<StageNeed> stage_needs(const ServeOptions& options, const model::GgufFile& file,
                                   const model::ModelSpec& spec) {
  std::vector<StageNeed> needs;
  if (options.optimise || !options.by_hand.empty() || options.ranks > 1) return needs;
  for (const LayerRange& layers : split_layers(spec.layers, stages_of(options, spec))) {
    const auto memory = node::stage_memory(file, spec, stage_engine(options, layers));
    if (!memory.ok()) continue;
    needs.push_back({layers, memory->weights, memory->least() + node::kProcessBytes});
  }
  return needs;
}

Result<ServedModel> read_model(const ServeOptions& options, const std::filesystem::path& path) {
  TRY(const auto file, model::GgufFile::open(path.string()));
  ServedModel served;
  served.id = options.model_id.empty() ? model_name(path) : options.model_id;
  served.file_bytes = file->file_bytes();
  served.created = SystemClock().unix_seconds();
  served.fingerprint = file->fingerprint().hex();
  TRY(served.spec, model::ModelSpec::read(*file));
  if (served.spec.shape_only) served.id = "EMULATED-" + served.id;
  if (served.spec.vision_tensors > 0) {
    spdlog::info(
        "the model's file has {} tensors of a vision tower; they are left out, and text "
        "alone is served",
        served.spec.vision_tensors);
  }
  if (served.spec.prediction_tensors > 0) {
    spdlog::info(
        "the model's file has {} tensors of multi-token prediction layers; they are left out, "
        "which does not change the text",
        served.spec.prediction_tensors);
  }
  TRY_VOID(check_split(options, served.spec));
  TRY_VOID(check_local_memory(options, *file, served.spec));
  served.stages = stage_needs(options, *file, served.spec);
  TRY(served.tokenizer, model::Tokenizer::load(*file));
  TRY(served.chat_template, read_chat_template(*file, *served.tokenizer, options.chat_template));
  served.syntax =
      std::make_shared<model::ChatSyntax>(model::find_chat_syntax(*served.chat_template));
  return served;
}

Result<coordinator::MeasuredPlacement> measured_placement(const ServeOptions& options,
                                                          const std::string& path,
                                                          const model::ModelSpec& spec) {
  TRY(const auto file, model::GgufFile::open(path));
  coordinator::MeasuredPlacement placement;
  TRY(placement.model, node::placement_model(*file, spec));
  placement.objective = *options.optimise;
  placement.kv_tokens = std::min(spec.context, limits::kDefaultMaxTokens);
  return placement;
}

Result<OfferedModel> offer_model(const ServeOptions& options, const std::filesystem::path& path) {
  OfferedModel offered;
  offered.path = std::filesystem::absolute(path).string();
  TRY(offered.served, read_model(options, path));
  if (options.optimise) {
    TRY(offered.placement, measured_placement(options, path.string(), offered.served.spec));
  }
  return offered;
}

// What a server of several models knows of a model that is not loaded.
Status measure_file(OfferedModel& offered) {
  TRY(const auto file, model::GgufFile::open(offered.path));
  TRY(const placement::Model sizes, node::placement_model(*file, offered.served.spec));
  offered.weight_bytes = std::accumulate(sizes.layer_bytes.begin(), sizes.layer_bytes.end(),
                                         sizes.embedding_bytes + sizes.head_bytes);
  if (file->parts().empty()) offered.files = {{offered.path, file->file_bytes()}};
  for (const auto& part : file->parts()) {
    offered.files.emplace_back(std::filesystem::absolute(part->path()).string(),
                               part->file_bytes());
  }
  return ok_status();
}

// The memory of local workers that hold the whole model, with the KV that they are asked to keep.
std::uint64_t local_bytes(const ServeOptions& options, const OfferedModel& offered) {
  const model::ModelSpec& spec = offered.served.spec;
  const node::EngineOptions engine = stage_engine(options, {0, spec.layers});
  const auto file = model::GgufFile::open(offered.path);
  if (!file.ok()) return 0;
  const auto memory = node::stage_memory(**file, spec, engine);
  const auto kv = node::kv_asked(spec, engine);
  const auto draft = draft_bytes(options, **file);
  if (!memory.ok() || !kv.ok() || !draft.ok()) return 0;
  const std::uint64_t each = memory->buffers + *draft + node::kProcessBytes;
  return memory->weights + std::max(memory->kv_least(), kv->bytes(*memory)) +
         each * std::max(1U, options.local_workers);
}

Status check_distinct(const std::vector<OfferedModel>& models, const OfferedModel& one) {
  for (const OfferedModel& other : models) {
    REQUIRE(other.served.id != one.served.id, "two models have the name '", other.served.id,
            "': ", other.path, " and ", one.path);
    REQUIRE(other.served.fingerprint != one.served.fingerprint, other.path, " and ", one.path,
            " have the same header, by which models are told apart; serve one of them");
  }
  return ok_status();
}

}  // namespace

Result<std::vector<OfferedModel>> offer_models(const ServeOptions& options) {
  TRY(const std::vector<ListedModel> listed, list_served_models(options.models));
  const bool for_one =
      !options.model_id.empty() || !options.chat_template.empty() || !options.by_hand.empty();
  REQUIRE(listed.size() == 1 || !for_one,
          "--model-id, --chat-template and --place are for one model, and ", listed.size(),
          " are given: leave these out, or serve one model");
  std::vector<OfferedModel> models;
  for (const ListedModel& each : listed) {
    auto offered = offer_model(options, each.path);
    Status usable = offered.ok() ? check_distinct(models, *offered) : Status(offered.error());
    if (!usable.ok() && each.found) {
      spdlog::warn("{} is not served: {}", each.path.string(), usable.error().message);
      continue;
    }
    TRY_VOID(std::move(usable));
    if (listed.size() > 1) {
      TRY_VOID(measure_file(*offered));
      offered->local_bytes = local_bytes(options, *offered);
    }
    models.push_back(*std::move(offered));
  }
  REQUIRE(!models.empty(),
          "none of the models in the folder can be served; the log names the reason for each");
  const auto is_shape = [](const OfferedModel& each) { return each.served.spec.shape_only; };
  const bool any = std::ranges::any_of(models, is_shape);
  REQUIRE(!any || std::ranges::all_of(models, is_shape),
          "a server is an emulation or serves models: leave out the shapes or the models");
  REQUIRE(any || options.emulate.empty(),
          "--emulate computes nothing, so it serves no model: pass --shape NAME in place of one");
  REQUIRE(!any || !options.emulate.empty() || options.local_workers == 0,
          "local workers of an emulation need a GPU to emulate: pass --emulate GPU, for example "
          "--emulate rtx4090, or --local-workers 0");
  return models;
}

std::string why_no_file(const OfferedModel& offered) {
  for (const auto& [path, bytes] : offered.files) {
    std::error_code gone;
    const std::uint64_t now = std::filesystem::file_size(path, gone);
    if (gone) return "its file " + path + " cannot be read: " + gone.message();
    if (now != bytes) {
      return "its file " + path + " has changed since the server started (" + std::to_string(now) +
             " bytes instead of " + std::to_string(bytes) +
             "); put the file back, or restart the server";
    }
  }
  return "";
}

std::vector<std::string> sources_of(const std::string& path) {
  for (const LocalModel& model : list_models()) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(model.path, path, ignored) || ignored) continue;
    if (may_be_published(model.source)) return {model.source};
  }
  return {};
}

coordinator::CoordinatorOptions coordinator_options(const ServeOptions& options,
                                                    const ServedModel& served, std::int64_t began) {
  coordinator::CoordinatorOptions out;
  out.stages = stages_of(options, served.spec);
  out.by_hand = options.by_hand;
  out.ranks = options.ranks;
  out.model_fingerprint = served.fingerprint;
  out.layers = served.spec.layers;
  out.shape = {served.spec.hidden, served.spec.vocabulary, served.spec.context, false};
  out.canonical_version = kernels::kCanonicalVersion;
  out.batch_rows = options.batch_rows;
  out.itl_target = std::chrono::milliseconds(options.itl_target_ms);
  out.first_epoch = static_cast<std::uint64_t>(began) * limits::kEpochsOfSecond;
  if (!options.no_prefix_cache) random_bytes(out.cache_secret.emplace().bytes);
  return out;
}

// A twentieth allows for buffers that differ between models.
std::string why_no_room(const OfferedModel& offered, const coordinator::SwarmStatus& now) {
  if (now.has_other_workers) return "";  // the memory of these workers is not known
  std::uint64_t room = 0;
  std::uint64_t workers = 0;
  for (const coordinator::NodeStatus& node : now.nodes) {
    if (node.state == "lost" || node.away) continue;
    if (!node.measured) return "";
    room += node.measured->memory_bytes;
    ++workers;
  }
  if (workers == 0 || offered.weight_bytes <= room + room / 20) return "";
  return "its weights need " + format_bytes(offered.weight_bytes) + ", and " +
         counted(workers, "worker") + " here may use " + format_bytes(room) +
         "; join more machines, or ask for a smaller model";
}

}  // namespace hearth::cli
