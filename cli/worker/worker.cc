#include "cli/worker/worker.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "cli/home/member.h"
#include "cli/models/models.h"
#include "cli/process/background.h"
#include "cli/process/build_name.h"
#include "cli/process/loop.h"
#include "cli/process/own_process.h"
#include "cli/process/paths.h"
#include "cli/process/process_log.h"
#include "cli/process/service_manager.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "cli/worker/device.h"
#include "cli/worker/emulation.h"
#include "cli/worker/known_answers.h"
#include "cli/worker/known_rates.h"
#include "cli/worker/port_mapping.h"
#include "cli/worker/worker_model.h"
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"
#include "kernels/thread_pins.h"
#include "model/gguf/gguf.h"
#include "node/engine/delta_net.h"
#include "node/engine/kv_cache.h"
#include "node/engine/ranks/share.h"
#include "node/engine/stage_memory.h"
#include "node/layers/piece_server.h"
#include "node/machine/card_sensors.h"
#include "node/machine/energy_meter.h"
#include "node/machine/machine_turn.h"
#include "node/machine/measuring.h"
#include "node/machine/owner_watch.h"
#include "node/machine/pause_file.h"
#include "node/machine/weight_rate.h"
#include "node/pipeline/draft_thread.h"
#include "node/pipeline/engine_thread.h"
#include "node/pipeline/link_probe.h"
#include "node/pipeline/stage.h"
#include "node/pipeline/vocabulary_thread.h"
#include "node/proof/receipt_maker.h"
#include "node/proof/witness.h"
#include "node/ranks/rank_links.h"
#include "node/runner/draft_model.h"
#include "proto/address.h"
#include "proto/link/control_links.h"
#include "proto/link/relay.h"
#include "proto/link/tcp_transport.h"

namespace hearth::cli {
namespace {

// The time between checks of a GPU's weights, because its memory may have no error correction.
// SIGUSR1 starts a check at once.
constexpr std::chrono::hours kCheckWeightsEvery{4};
// A measurement takes about two seconds, of a slow machine twelve, and the coordinator waits twenty
// for the next one, up to eighty for all of a machine.
constexpr std::chrono::seconds kTurn{60};
constexpr std::size_t kKeyDigits = 16;  // of a key, in a file's name
// --detach waits this long for an assignment, which a spare does not get, and for its layers.
constexpr std::chrono::seconds kAssignmentPatience{10};
constexpr std::chrono::seconds kLayersPatience{60};

node::EngineOptions one_layer(const WorkerOptions& options, const model::ModelSpec& spec) {
  node::EngineOptions engine;
  engine.layers = spec.least_range(spec.layers / 2);
  engine.kv_budget_bytes = kv_budget_or_default(options.kv_budget_bytes, false);
  engine.batch_rows = 1;
  return engine;
}

std::string text_for_log(const Away& away) {
  std::string text = (away.drain ? "drained: " : "paused: ") + away.why;
  if (away.until > 0) text += ", until " + date_text(away.until);
  if (away.until == 0 && away.why.starts_with("hearth ")) text += "; to serve again: hearth resume";
  return text;
}

// Every start of a joined machine's worker logs to one file, with or without --name.
std::string logged_as(const WorkerOptions& options) {
  if (!options.name.empty()) return options.name;
  const auto member = read_member_file(data_folder(options.data_dir));
  return member.ok() && *member ? (*member)->node : "";
}

// Refuses options with which no assignment could work. The range itself comes later and is checked
// before it is read.
Status check_one_layer(const WorkerOptions& options, std::uint64_t memory_bytes,
                       const model::GgufFile& file, const model::ModelSpec& spec) {
  TRY(const node::StageMemory one, node::stage_memory(file, spec, one_layer(options, spec)));
  return node::check_memory({one}, node::memory_budget(memory_bytes));
}

// Everything of the process; members are destroyed from the last to the first.
class Worker {
 public:
  explicit Worker(std::unique_ptr<WorkerModel> model) : model_(std::move(model)) {}
  // The engine's thread may wait for the store, whose thread looks at the device.
  ~Worker() {
    measuring_.reset();
    if (model_->store != nullptr) model_->store->stop();
    stage_.reset();
    engine_.reset();
    receipts_.reset();  // after the stage, which uses it
    model_->store.reset();
  }

  Status start(const WorkerOptions& options) {
    folder_ = options.data_dir;
    const auto& file = model_->file;
    const model::ModelSpec& spec = model_->spec;
    TRY(device_, open_device_of(options));
    std::uint64_t& kv_budget = stage_options_.kv_budget_bytes;
    kv_budget = kv_budget_or_default(options.kv_budget_bytes, device_ != nullptr);
    TRY_VOID(check_kv_budget(kv_budget, spec, spec.least_range(0)));
    TRY_VOID(node::check_emulation(spec, device_.get()));
    model_->device = device_.get();
    stage_options_.threads =
        options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    stage_options_.canonical_version = kernels::kCanonicalVersion;
    stage_options_.process_id = static_cast<std::uint64_t>(getpid());
    stage_options_.model_fingerprint = file->fingerprint().hex();
    stage_options_.layers = spec.layers;
    if (device_ != nullptr) {
      node::EngineOptions one;
      one.kv_budget_bytes = kv_budget;
      TRY(stage_options_.layers_most, node::layers_within(*device_, *file, spec, one));
    }
    TRY(const kernels::Kernels* kernels, kernels::select_kernels());
    stage_options_.isa = isa_of(*kernels);
    TRY(stage_options_.weight_bytes_per_second,
        device_ != nullptr ? device_->measure_weight_rate()
                           : node::measure_weight_rate(*kernels, stage_options_.threads));
    if (device_ == nullptr) {
      stage_options_.self_test = [kernels] { return kernels::self_test(*kernels); };
    }
    node::EngineOptions engine;
    engine.kv_budget_bytes = kv_budget;
    TRY(engine.memory_bytes, open_draft(options));
    if (device_ == nullptr) TRY_VOID(check_one_layer(options, engine.memory_bytes, *file, spec));
    engine.replay_bytes = node::kReplayBytes;
    engine.threads = stage_options_.threads;
    engine.pin = options.pin;
    if (options.pin) {
      const Status fits = kernels::check_pins(engine.threads);
      if (!fits) spdlog::warn("{}", fits.error().message);
    }
    engine.kernels = kernels;
    engine.device = device_.get();
    open_sensors();
    TRY_VOID(open_links(options));
    room_ = room_here(engine);
    measuring_ = std::make_unique<node::Measuring>(
        [this, engine](const std::function<bool()>& cancelled) {
          node::EngineOptions given = engine;
          given.cancelled = cancelled;
          return measure_here(given);
        },
        loop_.poster());
    stage_options_.measure = std::bind_front(&node::Measuring::ask, measuring_.get());
    engine.vocabulary = &vocabulary_;
    engine_ = std::make_unique<node::EngineThread>(
        engine,
        model_->store == nullptr ? node::engine_loader(file, spec)
                                 : node::engine_loader(*model_->store, file->fingerprint(), spec),
        loop_.poster(), take_ranks());
    Transport& data = pieces_ != nullptr ? static_cast<Transport&>(*pieces_) : *data_;
    open_proof(data_folder(options.data_dir));
    stage_ =
        std::make_unique<node::Stage>(stage_options_, clock_, random_, *control_, data, *engine_);
    spdlog::info("{}: {} threads of {}, {:.1f} GB/s of weights, data links at {}",
                 stage_options_.node, stage_options_.threads,
                 device_ != nullptr ? device_->name() : stage_options_.isa,
                 stage_options_.weight_bytes_per_second / 1e9, data_->address());
    loop_.on_user_signal([this] { stage_->check_weights(); });
    return watch_owner(options);
  }

  int run() {
    loop_.run(
        [this] {
          obey_owner();
          stage_->on_timer();
          if (probe_ != nullptr) probe_->on_timer();
          if (report_by_ && measuring_->works()) {  // for its placement
            report_by_ = std::max(*report_by_, clock_.now() + kAssignmentPatience);
          }
          if (report_by_ && clock_.now() >= *report_by_) {
            report(
                "serves as soon as the coordinator has assigned layers to it and the layers are on "
                "this machine");
          }
          if (removed_ || changed_ || !stage_->refused().empty()) loop_.stop();
          if (!stage_->no_room()) return;
          // Waits for the next heartbeat, so that the coordinator gets the reason first.
          if (leaving_) loop_.stop();
          leaving_ = true;
        },
        [this] {
          stopped_ = true;
          loop_.stop();
        });
    if (drained_) return kExitDone;
    if (stage_->no_room()) return fail(*stage_->no_room());
    if (removed_) return fail(Member::removed(folder_));
    if (changed_) return kExitDone;
    if (stage_->refused().empty()) return kExitDone;
    fail({ErrorCode::kInvalidInput, stage_->refused()});
    return kExitRefused;
  }

  // This worker ended because the coordinator now serves another model; the next worker opens that
  // model.
  bool has_other_model() const { return changed_ && !stopped_ && !drained_ && !removed_; }

 private:
  Result<std::unique_ptr<node::Device>> open_device_of(const WorkerOptions& options) const {
    if (!options.emulate.empty()) return open_emulated_device(options.emulate);
    return open_device(options.device, *model_->file, model_->spec,
                       one_layer(options, model_->spec),
                       [](std::string_view text) { spdlog::info("{}", text); });
  }
  bool emulates() const { return device_ != nullptr && device_->emulates(); }
  std::string isa_of(const kernels::Kernels& kernels) const {
    if (emulates()) return "emulated";
    if (device_ == nullptr) return std::string(kernels.name);
    return device_->name().substr(0, device_->name().find(':'));  // "cuda" or "opencl"
  }

  void report(const std::string& what) {
    report_by_.reset();
    report_ready(std::string(emulates() ? "EMULATED " : "") + "worker " + member_->name() +
                 " runs in the background as process " + std::to_string(getpid()) + " and " + what +
                 "\nnext:  hearth run, hearth status, hearth logs; to end it: hearth drain; to "
                 "leave the cluster: hearth leave");
  }

  Status watch_owner(const WorkerOptions& options) {
    node::OwnerWatchOptions watch;
    watch.folder = data_folder(options.data_dir);
    watch.admin_file = admin_order_file(watch.folder, stage_options_.node);
    watch.triggers.games = !options.no_pause_on_game;
    watch.triggers.battery = !options.no_pause_on_battery;
    watch.triggers.foreign_memory = options.pause_above;
    if (!options.hours.empty()) {
      TRY(watch.triggers.hours, node::parse_hours(options.hours));
    }
    if (sensors_ != nullptr) watch.card = stage_options_.card;
    share_ = std::make_unique<node::WorkShare>(watch.folder);
    owner_ = std::make_unique<node::OwnerWatch>(std::move(watch), clock_);
    owner_->look();
    was_drained_ = owner_->drains();
    obey_owner();
    return ok_status();
  }

  // A worker that was drained before it started waits until the drain is over and then serves. If
  // it ended instead, its supervisor would start it again and again.
  void obey_owner() {
    const std::optional<Away> away = owner_->look();
    if (away != away_) {
      spdlog::info("{}: {}", stage_options_.node, away ? text_for_log(*away) : "may serve again");
      away_ = away;
    }
    stage_->set_away(away);
    measuring_->set_away(away.has_value());
    share_->hold(!stage_->rests() || measuring_->works());
    was_drained_ = was_drained_ && away.has_value();
    if (!owner_->drains() || was_drained_ || !stage_->rests()) return;
    drained_ = true;
    loop_.stop();
  }

  // An admin's order never ends the process, as the owner's drain does: the admin could not call
  // the worker back.
  void take_order(const std::optional<Away>& away) {
    if (owner_ == nullptr) return;
    owner_->set_admin_order(away ? std::optional(node::OwnerOrder{away->drain, away->until})
                                 : std::nullopt);
  }

  Status open_links(const WorkerOptions& options) {
    member_ = std::move(model_->member);
    if (member_ == nullptr) {
      TRY(member_, Member::enter(options.data_dir, options.name));
    }
    stage_options_.node = member_->name();
    // Drafts of an emulated answer, which repeats one word, would all be accepted.
    if (model_->spec.keeps_state() || emulates()) stage_options_.draft_rows = 0;
    stage_options_.control_address = options.coordinator;
    // Asked before each dial: a coordinator that starts again may have another port, and knows the
    // workers of its own machine only by its new token.
    stage_options_.find_coordinator = [this, given = options.coordinator]() -> Result<std::string> {
      auto address = member_->coordinator();
      if (!given.empty()) return given;
      return address;
    };
    stage_options_.tried_all = [this, fixed = !options.coordinator.empty()] {
      return fixed || member_->tried_all();
    };
    stage_options_.on_layers = [this](LayerRange layers, bool served) {
      if (served) return report("serves layers " + text_of(layers));
      if (report_by_) report_by_ = clock_.now() + kLayersPatience;
    };
    stage_options_.take_roster = [this](ByteSpan roster) { return take_roster(roster); };
    stage_options_.take_order = [this](const std::optional<Away>& away) { take_order(away); };
    TcpOptions tcp;
    TRY(tcp.listen_address, listen_address(options));
    tcp.identity = member_->identity();
    tcp.roster = member_->roster().book();
    tcp.on_refused = [](const std::string& why) { spdlog::warn("refused a data link: {}", why); };
    tcp.tickets = tickets_;
    TRY(data_, TcpTransport::open(loop_.io(), tcp));
    TRY_VOID(open_ranks(tcp));
    stage_options_.meet = [this](const std::string& route) { meet(route); };
    if (options.relay_megabits > 0) open_relay(options.relay_megabits);
    if (!options.no_port_mapping) TRY_VOID(open_port_mapping());
    if (model_->store != nullptr) open_store();
    open_probe();
    TRY(control_, TcpTransport::open(loop_.io(), worker_control_options(member_->identity(),
                                                                        member_->roster().book())));
    return ok_status();
  }

  void open_relay(std::uint32_t megabits) {
    RelayOptions relay;
    relay.bytes_per_second = megabits * kBytesOfMegabit;
    relay_ = std::make_unique<Relay>(tickets_, relay);
    stage_options_.relay_megabits = megabits;
    stage_options_.forward = [this](const Ticket& dialler, const Ticket& acceptor,
                                    const std::string& account, bool brief) {
      const Status expected = relay_->expect(dialler, acceptor, account, clock_.now(), brief);
      if (!expected.ok()) spdlog::warn("no link is relayed: {}", expected.error().message);
    };
  }

  Status open_port_mapping() {
    TRY(const Address own, parse_address(data_->address()));
    port_mapping_ = std::make_unique<PortMapping>(own.port);
    stage_options_.behind_router = [this](bool is_behind) { port_mapping_->want(is_behind); };
    stage_options_.outside_port = [this] { return port_mapping_->outside_port(); };
    return ok_status();
  }

  // For a node that cannot dial this one. The coordinator names the route.
  void meet(const std::string& route) {
    const Status begun = data_->meet(route);
    if (!begun.ok()) {
      spdlog::warn("a link that the coordinator asks for was not opened: {}",
                   begun.error().message);
    }
  }

  // The links to other ranks, at any free port of the data links' address. They listen once a
  // coordinator forms groups. A GPU, and a family that groups do not compute, has none.
  Status open_ranks(TcpOptions tcp) {
    constexpr std::array<std::uint32_t, 2> kEven{1, 1};
    const bool computes = device_ == nullptr || device_->emulates();
    if (!computes || !node::divide(model_->spec, kEven).ok()) return ok_status();
    TRY(Address address, parse_address(tcp.listen_address));
    address.port = 0;
    tcp.listen_address = address.text();
    Hello hello;
    hello.canonical = stage_options_.canonical_version;
    hello.node = stage_options_.node;
    opened_ranks_ = std::make_unique<node::RankLinks>(std::move(tcp), std::move(hello));
    ranks_ = opened_ranks_.get();
    stage_options_.rank_address = [this]() -> std::string {
      auto listening = ranks_->listen();
      if (listening.ok()) return *listening;
      spdlog::error("this worker gets no group: {}", listening.error().message);
      return "";
    };
    return ok_status();
  }

  node::EngineThread::Ranks take_ranks() {
    return {std::move(opened_ranks_), model_->spec, model_->file,
            blake2b(as_bytes(receipt_build()))};
  }

  // Returns the memory for the stage, without the draft model's; 0: all that is available.
  Result<std::uint64_t> open_draft(const WorkerOptions& options) {
    if (options.draft.empty()) return options.memory_bytes;
    REQUIRE(!emulates(), "--draft: an emulated GPU drafts nothing; leave it out");
    TRY(const auto path, resolve_model(options.draft));
    node::EngineOptions stage;
    stage.kv_budget_bytes = kv_budget_or_default(options.kv_budget_bytes, false);
    stage.threads = stage_options_.threads;
    TRY(auto file, model::GgufFile::open(path.string()));
    // The coordinator chose the model: an error would end this worker until the next switch.
    const Status fits = node::DraftModel::check_target(*file, *model_->file);
    if (!fits && model_->store != nullptr) {
      spdlog::warn("this worker serves without its draft model: {}", fits.error().message);
      return options.memory_bytes;
    }
    TRY(const node::DraftFile draft, node::DraftModel::open(std::move(file), *model_->file, stage));
    TRY(const std::uint64_t left, draft.left_of(options.memory_bytes));
    stage_options_.draft_bytes = model_->draft_bytes = draft.memory_bytes;
    draft_ = std::make_unique<node::DraftThread>(
        [draft](
            const std::function<bool()>& cancelled) -> Result<std::unique_ptr<node::DraftModel>> {
          TRY_VOID(draft.left_of(0));  // others may have taken the memory since
          node::DraftFile given = draft;
          given.engine.cancelled = cancelled;
          return node::DraftModel::load(given);
        },
        loop_.poster());
    stage_options_.draft_model = draft_.get();
    return left;
  }

  // Uses separate links that carry nothing else.
  void open_probe() {
    stage_options_.probe = [this](std::string node, const std::string& address,
                                  node::LinkProbe::Done done) {
      if (probe_ == nullptr) {
        TcpOptions tcp;
        tcp.identity = member_->identity();
        tcp.roster = member_->roster().book();
        tcp.tickets = tickets_;
        auto links = TcpTransport::open(loop_.io(), tcp);
        if (!links.ok()) return done(links.error());
        probe_links_ = std::move(*links);
        probe_ = std::make_unique<node::LinkProbe>(*probe_links_, clock_);
      }
      probe_->start(std::move(node), address, std::move(done));
    };
  }

  // For weights and KV, before anything is loaded.
  Result<std::uint64_t> room_here(const node::EngineOptions& engine) const {
    const model::ModelSpec& spec = model_->spec;
    if (device_ == nullptr) {
      const std::uint64_t budget = node::memory_budget(engine.memory_bytes);
      const std::uint64_t buffers = node::most_buffer_bytes(spec, engine) + node::kProcessBytes;
      return budget - std::min(budget, buffers);
    }
    node::EngineOptions last = engine;  // which has the most beside its weights
    last.layers = spec.least_range(spec.layers - 1);
    TRY(const std::uint64_t budget, device_->budget());
    TRY(const node::StageMemory memory, device_->memory(*model_->file, spec, last));
    return budget - std::min(budget, memory.buffers);
  }

  Result<node::Measured> measure_here(const node::EngineOptions& engine) const {
    node::Measured measured;
    const node::MachineTurn turn(cache_dir() / "measuring.lock", kTurn, engine.cancelled);
    TRY(measured.memory_bytes, *room_);
    const RateSubject subject{stage_options_.model_fingerprint,
                              device_ != nullptr ? device_->name() : stage_options_.isa,
                              stage_options_.threads, stage_options_.weight_bytes_per_second};
    const std::int64_t now = clock_.unix_seconds();
    if (const auto known = known_rate(cache_dir(), subject, now)) {
      measured.rate = *known;
      return measured;
    }
    TRY(measured.rate, node::measure_stage_rate(model_->file, model_->spec, engine));
    keep_rate(cache_dir(), subject, measured.rate, now);
    return measured;
  }

  // Reports the held layers to the coordinator and serves them to other nodes.
  void open_store() {
    node::LayerStore& store = *model_->store;
    pieces_ = std::make_unique<node::PieceServer>(*data_, store.shared(), loop_.poster());
    stage_options_.holding = [&store] { return store.holding(); };
    stage_options_.wrong_bytes = [&store] { return store.take_wrong_bytes(); };
    stage_options_.take_plan = [this, &store](node::HoldPlan plan, const Hash256& model) {
      changed_ = model != Hash256() && model != store.manifest().id();
      if (!changed_) store.want(std::move(plan));
    };
    stage_options_.on_other_model = [this] { changed_ = true; };
  }

  void open_proof(const std::string& folder) {
    if (emulates()) return;  // nothing that comes of an emulation is signed
    open_receipts();
    open_witness(folder);
  }

  void open_receipts() {
    receipts_ = std::make_unique<node::ReceiptMaker>(
        node::ReceiptIdentity{member_->key(), member_->roster().book()->cluster(), receipt_build()},
        clock_, loop_.poster());
    stage_options_.receipts = receipts_.get();
  }

  // Several workers may share a folder, each with its own key.
  void open_witness(const std::string& folder) {
    const PublicKey cluster = member_->roster().book()->cluster();
    const std::string own = member_->key().public_key().hex().substr(0, kKeyDigits);
    const std::string file = folder + "/witness." + cluster.hex() + "." + own;
    witness_ = std::make_unique<node::Witness>(
        node::WitnessOptions{member_->name(), file, cluster, member_->key()}, clock_,
        loop_.poster());
    stage_options_.witness = std::bind_front(&node::Witness::ask, witness_.get());
  }

  void open_card_sensors() {
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

  void open_sensors() {
    if (emulates()) {
      stage_options_.device = device_->name();
      return;
    }
    if (device_ != nullptr) open_card_sensors();
    if (device_ == nullptr) {
      energy_ = std::make_unique<node::EnergyMeter>(clock_);
    } else if (sensors_ != nullptr) {
      energy_ =
          std::make_unique<node::EnergyMeter>(clock_, [this] { return sensors_->latest().watts; });
    } else {
      return;
    }
    stage_options_.energy = [this] { return energy_->joules(); };
  }

  Result<std::string> listen_address(const WorkerOptions& options) const {
    if (options.listen.empty()) return member_->listen_address();
    if (member_->beyond_loopback()) return options.listen;
    TRY(const Address address, parse_loopback_address(options.listen));
    return address.text();
  }

  // The sender of an older one receives the newer: its state may be an older copy.
  Bytes take_roster(ByteSpan roster) {
    const auto taken = member_->roster().take(roster);
    const auto book = member_->roster().book();
    if (taken == Offer::kRollback || taken == Offer::kFork) return book->bytes();
    if (taken) {
      member_->on_reached(*book->roster());
      if (!std::exchange(reached_, true)) report_by_ = clock_.now() + kAssignmentPatience;
    }
    if (taken != Offer::kNewer) return {};
    data_->recheck_peers();
    if (relay_ != nullptr) relay_->keep_only(names_of(*book->roster()));
    if (ranks_ != nullptr) ranks_->recheck_peers();
    removed_ = !book->find(member_->identity().key).has_value();
    return {};
  }

  const std::unique_ptr<WorkerModel> model_;
  std::string folder_;  // as given
  Loop loop_;
  bool leaving_ = false;
  bool removed_ = false;  // the newest roster no longer has this node
  bool changed_ = false;  // the coordinator's model is another one
  bool stopped_ = false;  // by a signal
  SystemClock clock_;
  SystemRandom random_;
  node::StageOptions stage_options_;
  std::unique_ptr<Member> member_;
  const std::shared_ptr<TicketBook> tickets_ = std::make_shared<TicketBook>();
  std::unique_ptr<Relay> relay_;               // null: this node is no relay
  std::unique_ptr<PortMapping> port_mapping_;  // null: no router is asked for a port
  std::unique_ptr<TcpTransport> data_;
  std::unique_ptr<TcpTransport> probe_links_;
  std::unique_ptr<node::LinkProbe> probe_;  // once the coordinator has asked
  std::optional<Result<std::uint64_t>> room_;
  std::unique_ptr<node::Measuring> measuring_;
  std::unique_ptr<node::PieceServer> pieces_;  // where the model's layers come by themselves
  std::unique_ptr<TcpTransport> control_;
  std::unique_ptr<node::Device> device_;  // null: the processor
  std::unique_ptr<node::CardWatch> sensors_;
  std::unique_ptr<node::EnergyMeter> energy_;
  std::unique_ptr<node::OwnerWatch> owner_;
  std::unique_ptr<node::WorkShare> share_;
  std::optional<Away> away_;  // as it was last said
  bool was_drained_ = false;  // before this process
  bool drained_ = false;
  bool reached_ = false;                           // the coordinator has answered
  std::optional<TimePoint> report_by_;             // what --detach waits for, until then
  node::VocabularyThread vocabulary_;              // of the engine
  std::unique_ptr<node::DraftThread> draft_;       // null: there is no draft model
  std::unique_ptr<node::RankLinks> opened_ranks_;  // until the engine's thread has them
  node::RankLinks* ranks_ = nullptr;               // null: this worker gets no group
  std::unique_ptr<node::EngineThread> engine_;
  std::unique_ptr<node::ReceiptMaker> receipts_;
  std::unique_ptr<node::Witness> witness_;
  std::unique_ptr<node::Stage> stage_;
};

}  // namespace

std::uint64_t kv_budget_or_default(std::uint64_t given, bool on_gpu) {
  if (given > 0) return given;
  return on_gpu ? limits::kPlacedBytes : kKvBytes;
}

Status check_kv_budget(std::uint64_t bytes, const model::ModelSpec& spec, LayerRange layers) {
  const std::uint64_t page = node::KvCache::page_bytes(spec.kv_layouts(layers));
  const std::uint64_t state = node::DeltaNet::state_bytes(spec, layers);
  const std::string states =
      state > 0 ? " and the state of one sequence of " + std::to_string(state) + " bytes" : "";
  REQUIRE(bytes >= page + state, "a KV budget of ", bytes, " bytes does not hold one page of ",
          kernels::kPageTokens, " positions", states, ": ", counted(layers.size(), "layer"),
          " of this model need --kv-budget ", page + state, " or more");
  return ok_status();
}

int run_worker(const WorkerOptions& given) {
  WorkerOptions options = given;
  if (const Status log = start_process_log(options.log_level); !log) return misused(log.error());
  if (const Status ready = prepare_service(); !ready) return fail(ready.error());
  if (!options.emulate.empty()) mark_emulation();
  if (!options.no_log_file)
    log_to_file_or_warn(worker_log_file(options.data_dir, logged_as(options)));
  if (const int code = check_known_answers(); code != kExitDone) return code;
  if (!options.shape.empty()) {
    auto written = write_shape(options.shape, options.quant);
    if (!written.ok()) return misused(written.error());
    options.model = *written;
  }
  notify_started();  // what follows may wait for a coordinator that is not there yet
  for (;;) {
    auto model = open_worker_model(options);
    if (!model.ok()) return fail(model.error());
    Worker worker(std::move(*model));
    if (const Status started = worker.start(options); !started) return fail(started.error());
    const int code = worker.run();
    if (!worker.has_other_model()) return code;
    spdlog::info("the coordinator serves another model now: this worker opens that one");
  }
}

}  // namespace hearth::cli
