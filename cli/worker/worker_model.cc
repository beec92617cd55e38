#include "cli/worker/worker_model.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/manifest_file.h"
#include "cli/models/hub.h"
#include "cli/models/model_finder.h"
#include "cli/models/models.h"
#include "cli/models/parts_source.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/interrupt.h"
#include "node/control/inquiry.h"
#include "node/engine/stage_memory.h"
#include "node/layers/model_bytes.h"
#include "node/layers/peer_source.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr auto kDescribePatience = std::chrono::seconds(10);  // with each address of a coordinator
constexpr auto kAskAgain = std::chrono::milliseconds(300);
constexpr auto kDialAgain = std::chrono::seconds(2);
constexpr unsigned kRefusals = 3;
constexpr Duration kReportEvery = std::chrono::milliseconds(500);

void say(const OrderedJson& json) {
  print_escaped(json);
  std::fflush(stdout);
}

OrderedJson json_of(LayerRange layers) {
  return OrderedJson::array({layers.begin, layers.end - 1});
}

std::string holding_file(const std::string& folder) { return folder + "/holding.json"; }

// The layers that an earlier run was told to hold. Only a hint: layers that are missing are
// fetched.
LayerRange read_holding(const std::string& folder) {
  const auto bytes = read_private_file(holding_file(folder), 4 * limits::kKiB);
  if (!bytes.ok()) return {};
  const auto json = Json::parse(as_text(*bytes), nullptr, false);
  if (!json.is_object() || !json.contains("begin") || !json.contains("end")) return {};
  if (!json["begin"].is_number_unsigned() || !json["end"].is_number_unsigned()) return {};
  const auto begin = json["begin"].get<std::uint64_t>();
  const auto end = json["end"].get<std::uint64_t>();
  if (begin >= end || end > limits::kModelLayers) return {};
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

void write_holding(const std::string& folder, LayerRange layers) {
  const std::string text = Json{{"begin", layers.begin}, {"end", layers.end}}.dump() + "\n";
  if (const Status kept = write_private_file(holding_file(folder), as_bytes(text)); !kept) {
    spdlog::warn("cannot store which layers are held: {}", kept.error().message);
  }
}

// The newest manifest: from the coordinator or, while it does not answer, from an earlier run.
Result<node::Holder> ask_manifest(const std::string& folder, Member& member, ManifestFile& manifest,
                                  HoldReport& report) {
  bool told = false;
  unsigned refused = 0;
  while (!interrupted()) {
    const auto answer = node::describe(
        {member.coordinators(), member.identity(), member.roster().book(), kDescribePatience});
    if (answer.ok() && !answer->manifest.empty()) {
      TRY_VOID(manifest.take(answer->manifest));
      return answer->coordinator;
    }
    if (answer.ok()) {
      report.hashing(answer->hashed, answer->file_bytes);
      std::this_thread::sleep_for(kAskAgain);
      continue;
    }
    // A refusal may mean that too many unauthenticated peers are connecting. A node that is refused
    // again and again was removed.
    const bool may_pass = answer.error().code == ErrorCode::kRefused && ++refused < kRefusals;
    if (answer.error().code == ErrorCode::kRefused && !may_pass) return Member::removed(folder);
    if (answer.error().code != ErrorCode::kUnavailable && !may_pass) return answer.error();
    if (manifest.manifest() && !may_pass) return node::Holder{};
    if (!told) spdlog::warn("{}; retrying until it does", answer.error().message);
    told = true;
    std::this_thread::sleep_for(kDialAgain);
  }
  return Error{ErrorCode::kCancelled, "interrupted"};
}

Result<node::Sources> sources_beyond(const model::Manifest& manifest, std::chrono::seconds stall) {
  node::Sources sources;
  client::HttpClient http(interrupted);
  for (const std::string& source : manifest.sources) {
    if (!may_be_asked(source)) continue;
    TRY(sources.emplace_back(), open_source(http, source, manifest.file_bytes, stall));
  }
  return sources;
}

// The files of this machine that may be the model, the one that the user named first.
Result<std::vector<std::string>> files_here(const WorkerOptions& options, std::uint64_t bytes) {
  std::vector<std::string> files;
  if (!options.model.empty()) {
    TRY(const auto path, resolve_model(options.model));
    files.push_back(path.string());
    const auto model = node::ModelBytes::open(path.string());
    if (!model.ok()) spdlog::warn("--model {}: {}", path.string(), model.error().message);
    if (model.ok() && model->size() != bytes) {
      spdlog::warn(
          "--model {} is not the model that the coordinator serves, which has {} bytes: its layers "
          "are fetched instead",
          path.string(), bytes);
    }
  }
  for (std::string& path : models_of_size(model_folders(options.model_folders), bytes)) {
    files.push_back(std::move(path));
  }
  return files;
}

// Checks that this machine has the memory that the plan takes.
Status begin_plan(const WorkerModel& model, const WorkerOptions& options, const std::string& folder,
                  const node::HoldPlan& plan, std::uint64_t bytes) {
  node::EngineOptions engine;
  engine.layers = plan.layers;
  engine.kv_budget_bytes = kv_budget_or_default(options.kv_budget_bytes, model.device != nullptr);
  engine.batch_rows = 1;
  const auto memory = model.device != nullptr
                          ? model.device->memory(*model.file, model.spec, engine)
                          : node::stage_memory(*model.file, model.spec, engine);
  TRY_VOID(memory);
  HoldReport::Plan shown{plan.layers, model.spec.layers, plan.why, bytes, memory->least(), 0};
  if (model.device == nullptr) {
    shown.memory += node::kProcessBytes;
    const std::uint64_t budget = node::memory_budget(options.memory_bytes);
    shown.budget = budget - std::min(budget, model.draft_bytes);
  }
  model.report->plan(shown);
  // Loaded layers will be freed for these, so loading shows whether they fit.
  if (model.device == nullptr && !model.store->holding().complete()) {
    TRY_VOID(node::check_memory({*memory}, shown.budget));
  }
  write_holding(folder, plan.layers);
  return ok_status();
}

node::LayerStoreOptions store_options(WorkerModel& model, const WorkerOptions& options,
                                      const std::string& folder, const model::Manifest& manifest) {
  const std::chrono::seconds stall(options.stall_seconds);
  node::LayerStoreOptions store;
  store.manifest = manifest;
  store.fetch.folder = (cache_dir() / "layers").string();
  store.fetch.connections = options.connections;
  store.fetch.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  node::PeerOptions peer{manifest.id(), model.member->identity(), model.member->roster().book(),
                         stall};
  store.peers = [peer](const std::vector<node::Holder>& holders) {
    node::Sources sources;
    for (const node::Holder& holder : holders) {
      sources.push_back(std::make_shared<node::PeerSource>(holder, peer));
    }
    return sources;
  };
  if (!options.offline) {
    store.elsewhere = [manifest, stall] { return sources_beyond(manifest, stall); };
  }
  store.begin = [&model, options, folder](const node::HoldPlan& plan, std::uint64_t bytes) {
    return begin_plan(model, options, folder, plan, bytes);
  };
  store.progress = [report = model.report](const node::Holding& now) { report->progress(now); };
  store.done = [report = model.report](const node::HoldPlan& plan, const node::Fetched& fetched) {
    report->done(plan.layers, fetched.wanted, fetched.fetched,
                 fetched.in_place ? fetched.path : std::string());
  };
  store.failed = [report = model.report](const Error& error) { report->failed(error); };
  return store;
}

Status open_joined(WorkerModel& model, const WorkerOptions& options, const std::string& folder,
                   const MemberFile& joined) {
  TRY(model.member, Member::enter(folder, options.name));
  TRY(ManifestFile manifest, ManifestFile::open(folder, joined.cluster));
  TRY(const node::Holder coordinator, ask_manifest(folder, *model.member, manifest, *model.report));
  node::LayerStoreOptions store = store_options(model, options, folder, *manifest.manifest());
  TRY_VOID(make_private_folder(store.fetch.folder));
  TRY(store.fetch.files, files_here(options, manifest.manifest()->file_bytes));
  model.store = std::make_unique<node::LayerStore>(std::move(store));
  std::vector<node::Holder> holders;
  if (!coordinator.node.empty()) holders.push_back(coordinator);
  TRY(const std::string path, model.store->bring_header(holders, [] { return interrupted(); }));
  TRY(model.file, model::GgufFile::open(path));
  TRY(model.spec, model::ModelSpec::read(*model.file));
  const LayerRange before = read_holding(folder);
  if (before.size() > 0 && before.end <= model.spec.layers) model.store->recall(before);
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<WorkerModel>> open_worker_model(const WorkerOptions& options) {
  catch_interrupts();
  const std::string folder = data_folder(options.data_dir);
  auto model = std::make_unique<WorkerModel>();
  model->report = std::make_shared<HoldReport>(options.json);
  TRY(const auto joined, read_member_file(folder));
  if (joined && options.emulate.empty()) {
    TRY_VOID(open_joined(*model, options, folder, *joined));
    return model;
  }
  REQUIRE(!options.model.empty() || options.emulate.empty(),
          "no model given: pass --shape NAME with --emulate, for example --shape llama3-70b");
  REQUIRE(!options.model.empty(),
          "no model given: pass --model FILE, or join a cluster (hearth join TOKEN)");
  TRY(const auto path, resolve_model(options.model));
  TRY(model->file, model::GgufFile::open(path.string()));
  TRY(model->spec, model::ModelSpec::read(*model->file));
  return model;
}

void HoldReport::plan(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  bar_.reset();
  if (json_) {
    return say({{"event", "hold"},
                {"layers", json_of(plan.layers)},
                {"model_layers", plan.model_layers},
                {"why", plan.why},
                {"bytes", plan.bytes},
                {"memory", plan.memory},
                {"memory_budget", plan.budget}});
  }
  std::string text = "this machine will hold layers " + text_of(plan.layers) + " of " +
                     std::to_string(plan.model_layers) + ": " + format_bytes(plan.bytes) +
                     " on disk, " + format_bytes(plan.memory) + " of memory";
  if (plan.budget > 0) text += " of the " + format_bytes(plan.budget) + " that it may use";
  std::fprintf(stderr, "%s\nwhy: %s\n", text.c_str(), escape_lines(plan.why).c_str());
}

void HoldReport::bar(const std::string& message, std::uint64_t done, std::uint64_t total) {
  if (!bar_ || message_ != message) bar_.emplace(message, total, done);
  message_ = message;
  bar_->set(done);
}

void HoldReport::progress(const node::Holding& holding) {
  const std::lock_guard lock(mutex_);
  if (!json_) return bar("layers " + text_of(holding.layers), holding.done, holding.total);
  const TimePoint now = clock_.now();
  if (since_ == TimePoint{} || holding.done < from_) {
    since_ = now;
    from_ = holding.done;
  }
  if (now - said_ < kReportEvery) return;
  said_ = now;
  const double seconds = std::chrono::duration<double>(now - since_).count();
  const double rate = seconds > 0.05 ? static_cast<double>(holding.done - from_) / seconds : 0.0;
  OrderedJson left;
  if (rate > 0.0) left = static_cast<double>(holding.total - holding.done) / rate;
  say({{"event", "fetch"},
       {"layers", json_of(holding.layers)},
       {"done", holding.done},
       {"total", holding.total},
       {"bytes_per_second", rate},
       {"seconds_left", left}});
}

void HoldReport::done(LayerRange layers, std::uint64_t bytes, std::uint64_t fetched,
                      const std::string& in_place) {
  const std::lock_guard lock(mutex_);
  since_ = TimePoint{};
  if (json_) {
    return say({{"event", "held"},
                {"layers", json_of(layers)},
                {"bytes", bytes},
                {"fetched", fetched},
                {"in_place", in_place}});
  }
  if (bar_ && fetched > 0) bar_->finish();
  bar_.reset();
  std::fprintf(stderr, "layers %s are complete and verified: %s fetched%s%s\n",
               text_of(layers).c_str(), format_bytes(fetched).c_str(),
               in_place.empty() ? "" : ", used where they lie: ", in_place.c_str());
}

void HoldReport::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  bar_.reset();
  if (json_) return say({{"event", "failed"}, {"error", error.message}});
  std::fprintf(stderr, "%s\n", escape_lines(error.message).c_str());
}

void HoldReport::hashing(std::uint64_t done, std::uint64_t total) {
  const std::lock_guard lock(mutex_);
  if (json_) return say({{"event", "hashing"}, {"done", done}, {"total", total}});
  bar("the coordinator hashes its model", done, total);
}

}  // namespace hearth::cli
