#include "cli/worker.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "cli/device.h"
#include "cli/exit_codes.h"
#include "cli/known_answers.h"
#include "cli/loop.h"
#include "cli/member.h"
#include "cli/models.h"
#include "cli/process_log.h"
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/thread_pins.h"
#include "model/gguf.h"
#include "model/spec.h"
#include "node/card_sensors.h"
#include "node/control_client.h"
#include "node/engine/kv_cache.h"
#include "node/engine/stage_memory.h"
#include "node/engine_thread.h"
#include "node/stage.h"
#include "node/weight_rate.h"
#include "proto/address.h"
#include "proto/tcp_transport.h"

namespace hearth::cli {
namespace {

// Of a card, whose memory may have no error correction. SIGUSR1 asks for one at once.
constexpr std::chrono::hours kCheckWeightsEvery{4};

std::uint32_t default_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

void warn_unpinned(std::uint32_t threads) {
  const Status fits = kernels::check_pins(threads);
  if (!fits) spdlog::warn("{}", fits.error().message);
}

// What no assignment could mend; the range itself comes later and is checked before it is read.
Status check_one_layer(const WorkerOptions& options, const model::GgufFile& file,
                       const model::ModelSpec& spec, const node::Device* device) {
  node::EngineOptions engine;
  engine.layers = {spec.layers / 2, spec.layers / 2 + 1};
  engine.kv_budget_bytes = options.kv_budget_bytes;
  engine.batch_rows = 1;
  if (device != nullptr) return device->check_memory(file, spec, engine);
  TRY(const node::StageMemory one, node::stage_memory(file, spec, engine));
  return node::check_memory({one}, node::memory_budget(options.memory_bytes));
}

// Everything of the process; members are destroyed from the last to the first.
class Worker {
 public:
  Status start(const WorkerOptions& options) {
    describe(options);
    TRY(const auto path, resolve_model(options.model));
    TRY(const auto file, model::GgufFile::open(path.string()));
    TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
    TRY_VOID(check_kv_budget(options.kv_budget_bytes, spec, 1));
    TRY(device_, open_device(options.device, *file, spec,
                             [](std::string_view text) { spdlog::info("{}", text); }));
    TRY_VOID(check_one_layer(options, *file, spec, device_.get()));
    stage_options_.model_fingerprint = file->fingerprint().hex();
    stage_options_.layers = spec.layers;
    if (device_ != nullptr) {
      node::EngineOptions one;
      one.kv_budget_bytes = options.kv_budget_bytes;
      TRY(stage_options_.layers_most, node::layers_within(*device_, *file, spec, one));
    }
    TRY(const kernels::Kernels* kernels, kernels::select_kernels());
    TRY_VOID(measure(*kernels));

    node::EngineOptions engine;
    engine.kv_budget_bytes = options.kv_budget_bytes;
    engine.memory_bytes = options.memory_bytes;
    engine.threads = stage_options_.threads;
    engine.pin = options.pin;
    if (options.pin) warn_unpinned(stage_options_.threads);
    engine.kernels = kernels;
    engine.device = device_.get();
    if (device_ != nullptr) open_sensors();
    TRY_VOID(open_links(options));
    engine_ = std::make_unique<node::EngineThread>(engine, node::engine_loader(file, spec),
                                                   loop_.poster());
    stage_ = node::Stage::start(stage_options_, clock_, random_, *control_, *data_, *engine_);
    spdlog::info("{}: {} threads of {}, {:.1f} GB/s of weights, data links at {}",
                 stage_options_.node, stage_options_.threads,
                 device_ != nullptr ? device_->name() : stage_options_.isa,
                 stage_options_.weight_bytes_per_second / 1e9, data_->address());
    loop_.on_user_signal([this] { check_weights(); });
    return ok_status();
  }

  int run() {
    loop_.run(
        [this] {
          stage_->on_timer();
          if (removed_ || !stage_->refused().empty()) loop_.stop();
          if (!stage_->no_room()) return;
          // The next beat: the coordinator hears why first.
          if (leaving_) loop_.stop();
          leaving_ = true;
        },
        [this] { loop_.stop(); });
    if (stage_->no_room()) return fail(*stage_->no_room());
    if (removed_) return fail(Member::removed());
    if (stage_->refused().empty()) return kExitDone;
    fail({ErrorCode::kInvalidInput, stage_->refused()});
    return kExitRefused;
  }

 private:
  Status open_links(const WorkerOptions& options) {
    TRY(member_, Member::enter(options.data_dir, options.name));
    stage_options_.node = member_->name();
    stage_options_.control_address = options.coordinator;
    // Asked before each dial: a coordinator that starts again may have another port, and knows the
    // workers of its own machine only by its new token.
    stage_options_.find_coordinator = [this, given = options.coordinator] {
      const auto address = member_->coordinator();
      if (!address) spdlog::debug("{}", address.error().message);
      return given.empty() && address ? *address : given;
    };
    stage_options_.take_roster = [this](ByteSpan roster) { take_roster(roster); };
    TcpOptions tcp;
    TRY(tcp.listen_address, listen_address(options));
    tcp.identity = member_->identity();
    tcp.roster = member_->roster().book();
    tcp.on_refused = log_refused_link;
    TRY(data_, TcpTransport::open(loop_.io(), tcp));
    control_ = std::make_unique<node::ControlClient>(member_->identity(), member_->roster().book(),
                                                     loop_.poster());
    return ok_status();
  }

  void open_sensors() {
    stage_options_.device = device_->name();
    stage_options_.check_weights_every = kCheckWeightsEvery;
    auto sensors = node::CardSensors::open(device_->bus_id());
    if (!sensors.ok()) {
      spdlog::info("{}: {}", device_->name(), sensors.error().message);
      return;
    }
    sensors_ = std::make_unique<node::CardWatch>(std::move(*sensors));
    stage_options_.card = [this] { return sensors_->latest(); };
    spdlog::info("{}: {}", device_->name(), text_of(sensors_->latest()));
  }

  void check_weights() {
    if (device_ != nullptr) return stage_->check_weights();
    spdlog::info("{}: the weights are in this machine's own memory, which nothing checks",
                 stage_options_.node);
  }

  Status measure(const kernels::Kernels& kernels) {
    stage_options_.isa = std::string(device_ != nullptr ? "cuda" : kernels.name);
    if (device_ != nullptr) {
      TRY(stage_options_.weight_bytes_per_second, device_->measure_weight_rate());
    } else {
      TRY(stage_options_.weight_bytes_per_second,
          node::measure_weight_rate(kernels, stage_options_.threads));
    }
    return ok_status();
  }

  Result<std::string> listen_address(const WorkerOptions& options) const {
    if (options.listen.empty()) return member_->listen_address();
    if (member_->beyond_loopback()) return options.listen;
    TRY(const Address address, parse_loopback_address(options.listen));
    return address.text();
  }

  void take_roster(ByteSpan roster) {
    if (!member_->roster().take(roster)) return;
    data_->recheck_peers();
    removed_ = !member_->roster().book()->find(member_->identity().key).has_value();
  }

  void describe(const WorkerOptions& options) {
    stage_options_.threads = options.threads > 0 ? options.threads : default_threads();
    stage_options_.canonical_version = kernels::kCanonicalVersion;
    stage_options_.kv_budget_bytes = options.kv_budget_bytes;
    stage_options_.process_id = static_cast<std::uint64_t>(getpid());
  }

  Loop loop_;
  bool leaving_ = false;
  bool removed_ = false;  // the newest roster has us no longer
  SystemClock clock_;
  SystemRandom random_;
  node::StageOptions stage_options_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<TcpTransport> data_;
  std::unique_ptr<node::ControlClient> control_;
  std::unique_ptr<node::Device> device_;  // null: the processor
  std::unique_ptr<node::CardWatch> sensors_;
  std::unique_ptr<node::EngineThread> engine_;
  std::unique_ptr<node::Stage> stage_;
};

}  // namespace

Status check_kv_budget(std::uint64_t bytes, const model::ModelSpec& spec, std::uint32_t layers) {
  const std::size_t least = node::KvCache::page_bytes(layers, spec.kv_layout());
  REQUIRE(bytes >= least,
          "a KV budget of " + std::to_string(bytes) + " bytes holds no page of " +
              std::to_string(kernels::kPageTokens) + " positions: " + std::to_string(layers) +
              (layers == 1 ? " layer" : " layers") + " of this model need --kv-budget " +
              std::to_string(least) + " or more");
  return ok_status();
}

int run_worker(const WorkerOptions& options) {
  if (const Status log = start_process_log(options.log_level); !log) {
    fail(log.error());
    return kExitUsage;
  }
  if (!options.no_log_file) log_to_file_or_warn(worker_log_file(options.data_dir, options.name));
  if (const int code = check_known_answers(); code != kExitDone) return code;
  Worker worker;
  if (const Status started = worker.start(options); !started) return fail(started.error());
  return worker.run();
}

}  // namespace hearth::cli
