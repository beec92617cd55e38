#include "cli/serve/serve.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "cli/home/announcements.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/own_address.h"
#include "cli/home/server_file.h"
#include "cli/process/background.h"
#include "cli/process/build_name.h"
#include "cli/process/children.h"
#include "cli/process/loop.h"
#include "cli/process/own_process.h"
#include "cli/process/paths.h"
#include "cli/process/process_log.h"
#include "cli/serve/api_options.h"
#include "cli/serve/beside_models.h"
#include "cli/serve/evidence_folder.h"
#include "cli/serve/local_workers.h"
#include "cli/serve/model_files.h"
#include "cli/serve/offered_models.h"
#include "cli/serve/own_relay.h"
#include "cli/serve/served_manifest.h"
#include "cli/serve/standby.h"
#include "cli/serve/stored_planner.h"
#include "cli/terminal/exit_codes.h"
#include "cli/worker/device.h"
#include "cli/worker/emulation.h"
#include "cli/worker/known_answers.h"
#include "cli/worker/worker.h"
#include "coordinator/client/api_address.h"
#include "coordinator/control/service.h"
#include "coordinator/http/routes/prompt.h"
#include "coordinator/http/server.h"
#include "coordinator/machine/coordinator_gate.h"
#include "coordinator/machine/model_switch.h"
#include "coordinator/membership/dial_back.h"
#include "coordinator/membership/membership.h"
#include "coordinator/proof/ledger_service.h"
#include "coordinator/store/lease_watch.h"
#include "coordinator/store/stored_log.h"
#include "ledger/archive.h"
#include "ledger/folder.h"
#include "model/gguf/gguf.h"
#include "node/layers/piece_server.h"
#include "node/proof/local_referee.h"
#include "proto/address.h"
#include "proto/link/tcp_transport.h"
#include "proto/link/tls.h"

namespace hearth::cli {
namespace {

using coordinator::ControlService;
using coordinator::Coordinator;
using coordinator::CoordinatorOptions;
using coordinator::http::HttpServer;
using coordinator::http::ServedModel;
using coordinator::http::ServedModels;

// From the signal on: streams get their error event, then connections and workers are closed.
constexpr auto kServerFarewell = std::chrono::milliseconds(300);
constexpr const char* kCoordinatorName = "coordinator";
constexpr unsigned kFollowTicks = 25;  // of the timer, half a second

// Everything of the process; members are destroyed from the last to the first.
class Server {
 public:
  // `lease`: this coordinator's, which it holds now; null: its store is SQLite.
  explicit Server(const coordinator::LeaseWatch* lease)
      : lease_(lease),
        term_(lease == nullptr ? coordinator::LeaseTerm() : term_of(*lease)),
        began_(lease == nullptr ? 0 : lease->view().began) {}

  Status start(const ServeOptions& options) {
    TRY_VOID(check(options));
    folder_ = data_folder(options.data_dir);
    const bool beyond = !client::is_loopback_address(options.host);
    is_bound_ = beyond && client::dialled_host(options.host) == options.host;
    options_ = options;
    TRY(models_, offer_models(options));
    emulates_ = models_.front().served.spec.shape_only;
    if (emulates_) {
      mark_emulation();
      options_.no_receipts = true;
    }
    // Until the manifest is made, receipts identify a model by its header.
    for (const OfferedModel& each : models_) {
      files_.add(blake2b(as_bytes(each.served.fingerprint)), each.path);
    }
    TRY(file_, ServerFile::lock(options.data_dir));
    if (!options.no_log_file) log_to_file_or_warn(server_log_file(options.data_dir));
    TRY_VOID(open_membership(options));
    TRY_VOID(open_links(options));
    TRY_VOID(open_credits(options));
    if (!options_.no_receipts) TRY_VOID(open_ledger(options));
    pieces_ = std::make_unique<node::PieceServer>(*data_, shared_, loop_.poster());
    start_coordinator();
    coordinator_->publish_roster(identity_->roster->book()->bytes());
    gate_ = std::make_unique<coordinator::CoordinatorGate>(*coordinator_, loop_.poster());

    info_.model = models_.front().served.id;
    TRY(coordinator::http::HttpOptions http, api_options(options, store_, term_));
    http.lease = lease_;
    http.joinable = cluster_.has_value();
    if (cluster_) http.cluster = cluster_->name;
    if (cluster_) http.members = member_links();
    wire_pages(http);
    pay_by_credits(http);
    std::vector<ServedModel> served;
    for (const OfferedModel& each : models_) served.push_back(each.served);
    TRY(http_, HttpServer::start(http, ServedModels(std::move(served)), *gate_, clock_, random_));
    info_.api = "http://" + Address{client::dialled_host(options.host), http_->port()}.text();
    api_address_ = api_address_of(options, cluster_, http_->port());
    info_.control = control_->address();
    info_.data = data_->address();
    info_.pid = getpid();
    info_.listens = options.host;
    TRY(token_,
        LocalToken::write(options.data_dir, identity_->cluster.public_key(), info_.control));
    TRY_VOID(file_->write(info_));
    spdlog::info("{} at {}/v1, workers connect to {}", info_.model, info_.api, info_.control);
    log_next_step(options, api_address_, cluster_ ? cluster_->name : "");
    children_ = std::make_unique<Children>(loop_.io());
    start_workers();
    if (!options.no_announce) announce();
    report_ready(message_of(
        emulates_ ? "EMULATED: " : "", "the server runs in the background as process ", info_.pid,
        "; to end it: kill ", info_.pid, "\nnext:  hearth status, hearth logs"));
    return ok_status();
  }

  int run() {
    loop_.run([this] { on_timer(); }, [this] { on_stop(); });
    // The API first: its threads reach for the gate until it is gone.
    http_.reset();
    if (set_back_ && !was_deposed()) return fail(*set_back_);
    return kExitDone;
  }
  // Whether it ended, or did not start, because this coordinator does not lead any more. The lease
  // says so a moment after the store does.
  bool was_deposed() const {
    constexpr auto kPause = std::chrono::milliseconds(50);
    constexpr int kLooks = 60;
    for (int look = 0; lease_ != nullptr && look < kLooks; ++look) {
      if (term_.epoch == 0 || lease_->led() != term_.epoch) return true;
      std::this_thread::sleep_for(kPause);
    }
    return false;
  }
  bool is_deposed() const { return lease_ != nullptr && set_back_ && lease_->led() != term_.epoch; }
  // The server ended because the cluster has a new address, at which another Server must serve.
  bool has_moved() const { return has_moved_; }

 private:
  coordinator::LeaseTerm term_of(const coordinator::LeaseWatch& lease) const {
    coordinator::LeaseTerm term = lease.term();
    term.ended = is_over_;
    return term;
  }

  static Status check(const ServeOptions& options) {
    TRY_VOID(check_device_choice(options.device));
    REQUIRE(options.stages <= limits::kStages && options.local_workers <= limits::kStages,
            "--stages and --local-workers must be at most ", limits::kStages);
    REQUIRE(options.batch_rows >= 1 && options.batch_rows <= limits::kBatchRows,
            "--batch-rows must be from 1 to ", limits::kBatchRows);
    REQUIRE(options.ranks != 0 || options.optimise,
            "--tensor-parallel auto decides by measurements, and --stages alone measures nothing: "
            "leave out --stages, or add --optimise auto");
    return ok_status();
  }

  // Workers of an earlier process connect again, and the number of the roster continues.
  Status open_membership(const ServeOptions& options) {
    TRY(ServerIdentity identity, ServerIdentity::open(options.data_dir));
    const auto admin_key = read_admin_key(data_folder(options.data_dir));
    if (!admin_key && admin_key.error().code != ErrorCode::kNotFound) return admin_key.error();
    const auto on_lost = [this, post = loop_.poster()](Error why) {
      post([this, why = std::move(why)] { on_store_lost(why); });
    };
    TRY(store_, coordinator::open_server_store(folder_, term_, on_lost));
    TRY(cluster_, read_cluster(options.data_dir));
    if (cluster_) TRY_VOID(settle_address(folder_, *cluster_));
    identity_.emplace(std::move(identity));
    coordinator::MembershipOptions membership;
    membership.node = identity_->node.key;
    membership.roster = identity_->roster->book();
    membership.store = store_;
    for (const Roster& roster : identity_->roster->evidence()) {
      membership.evidence = std::max(membership.evidence, roster.number);
    }
    membership.is_local = [this](std::string_view id, std::string_view secret) {
      return token_ != nullptr && token_->opens(id, secret);
    };
    membership.is_local_key = std::bind_front(has_local_key, data_folder(options.data_dir));
    membership.keep = [this](ByteSpan roster) { return identity_->roster->keep(roster); };
    membership.answers_knocks = cluster_.has_value();
    if (cluster_) membership.cluster_name = cluster_->name;
    membership.api_address = [this] { return api_address_; };
    membership.locate = [this](std::string_view node) { return locate(node); };
    membership.route = std::bind_front(&Server::route_to, this);
    membership.seen_host = [this](std::string_view node) {
      return find_node(node).value_or(coordinator::NodeStatus()).seen_host;
    };
    membership.dial_back = [this](const std::string& address) { return dial_back_.ask(address); };
    membership.changed = [this] { on_roster_changed(); };
    membership_.emplace(identity_->cluster, std::move(membership), clock_);
    RosterEntry own{identity_->node.key, kCoordinatorName, Role::kCoordinator, {}};
    // Members need this: a member that reaches a coordinator once learns its new address.
    if (cluster_) own.addresses = coordinator_addresses();
    return membership_->restart(own);
  }

  void start_coordinator() {
    if (models_.size() == 1) {
      coordinator_ = open_model(0);
      return;
    }
    coordinator::ModelSwitch::Options options;
    for (const OfferedModel& each : models_) {
      options.models.push_back({each.served.id, each.served.spec.context});
    }
    if (options_.loaded_models > 0) options.most_loaded = options_.loaded_models;
    options.load = [this](std::uint32_t model) {
      auto coordinator = open_model(model);
      if (workers_ == nullptr) return coordinator;  // the first one: they are not started yet
      workers_->stop();
      replace_by_ = clock_.now() + kLocalWorkersFarewell;
      return coordinator;
    };
    options.why_no_room = [this](std::uint32_t model, const coordinator::SwarmStatus& now) {
      return why_no_room(models_[model], now);
    };
    options.why_no_file = [this](std::uint32_t model) { return why_no_file(models_[model]); };
    options.hashed = [this] { return manifest_ != nullptr ? manifest_->hashed() : 0; };
    if (!emulates_ && BesideModels::are_possible(options_)) load_beside(options);
    coordinator_ = std::make_unique<coordinator::ModelSwitch>(std::move(options), clock_);
  }

  void load_beside(coordinator::ModelSwitch::Options& options) {
    beside_.emplace(BesideModels::Wiring{loop_.io(), clock_, random_, identity_->node,
                                         identity_->roster->book(), &*membership_,
                                         cluster_.has_value(), models_, model_, options_});
    beside_->wire(options);
    options.load_beside = [this](std::uint32_t model) -> Result<std::unique_ptr<Coordinator>> {
      TRY(auto coordinator, beside_->load(model, wiring_of(model)));
      name_in_receipts(*coordinator, model);
      return coordinator;
    };
  }

  // For the coordinator of one model.
  CoordinatorOptions wiring_of(std::uint32_t model) {
    const OfferedModel& offered = models_[model];
    // Coordinators with one store number pipelines by its clock: theirs may differ.
    const std::int64_t began = lease_ != nullptr ? began_ : clock_.unix_seconds();
    CoordinatorOptions wiring = coordinator_options(options_, offered.served, began);
    wiring.numbers = numbers_;
    for (const OfferedModel& each : models_) {
      if (&each != &offered) wiring.other_models.insert(each.served.fingerprint);
    }
    wiring.placement = offered.placement;
    if (wiring.placement) {
      wiring.placement->elsewhere = [this](std::function<void()> work) { search(std::move(work)); };
    }
    wiring.receipts = receipts_.get();
    wiring.owner_of = [this](const PublicKey& key) { return membership_->owner_of(key); };
    wiring.is_newcomer = membership_->is_newcomer();
    wiring.canary_words = coordinator::http::canary_words(offered.served, clock_);
    return wiring;
  }

  // Receipts name a model by its manifest, once that is made.
  void name_in_receipts(Coordinator& coordinator, std::uint32_t model) const {
    const auto known = manifests_.find(model);
    if (known != manifests_.end()) coordinator.publish_model(known->second.id());
  }

  // The coordinator of the current model, in place of any before.
  std::unique_ptr<Coordinator> open_model(std::uint32_t model) {
    const OfferedModel& offered = models_[model];
    model_ = model;
    CoordinatorOptions wiring = wiring_of(model);
    wiring.on_held_roster = std::bind_front(&Server::on_held_roster, this);
    wiring.relay = relay_.expects(clock_);
    wiring.punch = relay_.arranges(clock_, control_->address());
    wiring.answers = [this](const std::string& address) {
      const auto outcome = dial_back_.ask(address);
      return outcome ? std::optional(outcome->error.empty()) : std::nullopt;
    };
    described_.clear();
    if (cluster_ && !emulates_) {  // for machines that join without the model's file
      ServedManifest::Options manifest{folder_,
                                       identity_->cluster,
                                       offered.path,
                                       sources_of(offered.path),
                                       loop_.poster(),
                                       [this, model](const ManifestFile& made, auto bytes) {
                                         on_manifest(made, std::move(bytes), model);
                                       }};
      if (const auto known = manifests_.find(model); known != manifests_.end()) {
        manifest.known = known->second;
      }
      manifest.term = term_;
      manifest_.reset();  // its thread ends first: both write one file
      manifest_ = std::make_unique<ServedManifest>(std::move(manifest));
    }
    auto coordinator = Coordinator::start(wiring, clock_, random_, control_->sessions(), *pieces_);
    name_in_receipts(*coordinator, model);
    return coordinator;
  }

  // Runs on a thread of its own. A search for a model that was unloaded may still run.
  void search(std::function<void()> work) {
    std::erase_if(searches_, [](const Search& each) { return each.is_over->load(); });
    auto is_over = std::make_shared<std::atomic<bool>>(false);
    std::jthread thread([work = std::move(work), is_over] {
      work();
      is_over->store(true);
    });
    searches_.push_back({std::move(thread), std::move(is_over)});
  }

  // The workers of the loaded model; the workers of the model before have ended.
  void start_workers() {
    workers_.reset();
    workers_ = std::make_unique<Children>(loop_.io());
    workers_->start(
        local_workers(options_, cluster_.has_value(), models_[model_].path, info_.control));
  }
  void replace_workers() {
    if (beside_) beside_->on_timer();
    if (!replace_by_ || (workers_->running() > 0 && clock_.now() < *replace_by_)) return;
    if (beside_ && beside_->are_workers_ending()) return;
    replace_by_.reset();
    start_workers();
  }

  std::optional<coordinator::NodeStatus> find_node(std::string_view name) const {
    if (coordinator_ == nullptr) return std::nullopt;
    for (const auto& node : coordinator_->status().nodes) {
      if (node.name == name && node.state != "lost") return node;
    }
    return std::nullopt;
  }
  // This also covers the coordinator's own data links.
  std::string locate(std::string_view name) const {
    if (name == kCoordinatorName) return data_->address();
    return find_node(name).value_or(coordinator::NodeStatus()).data_address;
  }
  std::string route_to(const std::string& from, const std::string& name) const {
    if (coordinator_ == nullptr || name == kCoordinatorName) return locate(name);
    const auto route = coordinator_->route(from, name);
    return route.ok() ? *route : "";
  }

  // For hearth join without a token; pointless on loopback.
  void announce() {
    if (!cluster_ || client::is_loopback_address(cluster_->host)) return;
    const auto spec =
        announcement({cluster_->name, info_.control, identity_->cluster.public_key()});
    if (spec) return children_->start({*spec});
    spdlog::info("the cluster is not announced on this network: avahi-utils is not installed");
  }

  void on_roster_changed() {
    if (coordinator_ == nullptr) return;
    coordinator_->publish_roster(identity_->roster->book()->bytes());
    data_->recheck_peers();
    control_->recheck_peers();
    if (beside_) beside_->recheck_peers();
    relay_.keep_members(*identity_->roster->book()->roster());
  }

  // A member with a newer roster of this cluster shows that this folder was replaced by an older
  // copy. Nodes that were removed since would be readmitted, so the server stops.
  bool on_held_roster(const std::string& node, ByteSpan roster) {
    const auto newer = identity_->roster->contradicts(roster);
    if (!newer.ok() || !*newer || set_back_) return newer.ok();
    set_back_ =
        Error::of(ErrorCode::kRefused, node,
                  " holds a roster that this cluster signed and this folder does not have (now "
                  "kept as roster.evidence-*): the folder was replaced by an older copy, which "
                  "would readmit nodes that were removed since. Put the newest copy back, or take "
                  "the members from the newest roster: hearth nodes restore");
    spdlog::error("{}", set_back_->message);
    on_stop();
    return true;
  }

  // Without hearth init, other machines know no cluster here, so links are for this machine only.
  std::string links_host() const { return cluster_ ? cluster_->host : "127.0.0.1"; }
  std::string control_address(const ServeOptions& options) const {
    const bool given = options.control_port != 0 || !cluster_;
    return Address{links_host(), given ? options.control_port : cluster_->control_port}.text();
  }

  Status open_links(const ServeOptions& options) {
    TcpOptions tcp;
    tcp.listen_address = Address{links_host(), options.data_port}.text();
    tcp.identity = identity_->node;
    tcp.roster = identity_->roster->book();
    tcp.on_refused = [](const std::string& why) { spdlog::warn("refused a data link: {}", why); };
    tcp.tickets = std::make_shared<TicketBook>();
    TRY(data_, TcpTransport::open(loop_.io(), tcp));
    relay_.open(tcp.tickets, options.relay_megabits);
    coordinator::ControlOptions control;
    control.address = control_address(options);
    control.identity = identity_->node;
    control.roster = identity_->roster->book();
    control.admissions = &*membership_;
    control.door = membership_->door();
    control.describe = [this] { return describe(); };
    control.on_member = [this](int socket) {
      http_ == nullptr ? static_cast<void>(::close(socket)) : http_->adopt(socket);
    };
    control.on_ticket = [this](int socket) { data_->adopt(socket); };
    control.on_refused = [](const std::string& why) {
      spdlog::warn("refused a control session: {}", why);
    };
    TRY(control_, ControlService::open(loop_.io(), control));
    return ok_status();
  }

  // With credits, receipts decide which nodes are paid.
  Status open_credits(const ServeOptions& options) {
    if (!cluster_ || !cluster_->credits) return ok_status();
    REQUIRE(!emulates_, "the cluster ", cluster_->name,
            " runs with credits, and an emulation earns none; use another data folder "
            "(--data-dir)");
    if (options.no_receipts) {
      return Error::of(ErrorCode::kRefused, "the cluster ", cluster_->name,
                       " runs with credits, which receipts pay; omit --no-receipts, or switch "
                       "credits off (hearth init --credits=false)");
    }
    credits_ = std::make_shared<coordinator::Credits>();
    return ok_status();
  }

  // Every node of the roster may send requests over its own link.
  coordinator::http::MemberLinks member_links() const {
    coordinator::http::MemberLinks links;
    links.certificate = identity_->node.certificate;
    links.private_key = identity_->node.private_key;
    links.key_of = handshake_key;
    links.find = [book = identity_->roster->book()](
                     const PublicKey& key) -> std::optional<coordinator::http::Member> {
      const auto entry = book->find(key);
      if (!entry || entry->role == Role::kCoordinator) return std::nullopt;
      return coordinator::http::Member{key, entry->name, entry->role};
    };
    return links;
  }

  // The functions of the web pages in addition to the state.
  void wire_pages(coordinator::http::HttpOptions& http) {
    http.ledger = receipts_.get();
    if (receipts_ != nullptr) {
      http.open_log = [folder = folder_] {
        return coordinator::open_log_to_read(folder, folder + "/ledger");
      };
    }
    http.planner = stored_planner(models_);
    if (cluster_) {
      http.join = coordinator::http::JoinPoint{identity_->roster->book(), control_->address()};
    }
    http.order = [this, post = loop_.poster()](
                     const std::string& node, const std::optional<Away>& away,
                     const std::function<void(const Status& done)>& done) {
      post([this, node, away, done] { done(coordinator_->order(node, away)); });
    };
  }

  void pay_by_credits(coordinator::http::HttpOptions& http) {
    if (!credits_) return;
    http.credits = credits_;
    http.policy.account = identity_->node.key;
    http.accounts = std::make_shared<const coordinator::Accounts>(store_, identity_->roster->book(),
                                                                  http.policy.account);
    http.grant = std::bind_front(&coordinator::LedgerService::grant, receipts_.get());
  }

  Status open_ledger(const ServeOptions& options) {
    const std::string path = data_folder(options.data_dir) + "/ledger";
    TRY(auto folder, lease_ != nullptr
                         ? coordinator::open_stored_log(folder_, term_, stops_.flag)
                         : ledger::open_archived_log(path, ledger::LogAccess::kCreate));
    auto receipts =
        coordinator::LedgerService::open(std::move(folder), identity_->cluster, receipt_build(),
                                         options.audits, clock_, loop_.poster(), credits_);
    if (!receipts) {
      return Error{receipts.error().code,
                   "the ledger in " + path + " cannot be continued: " + receipts.error().message +
                       "\nhearth audit shows more; --no-receipts serves without a ledger"};
    }
    receipts_ = *std::move(receipts);
    TRY(const auto machines, store_->machines());
    receipts_->remember_machines(coordinator::MachineHistory(
        machines, [store = store_](const auto& changed) { return store->put_machines(changed); }));
    referee_ = models_.size() == 1
                   ? std::make_unique<node::LocalReferee>(models_.front().path)
                   : std::make_unique<node::LocalReferee>(
                         node::LocalReferee::FileOf(std::bind_front(&ModelFiles::find, &files_)));
    std::shared_ptr<ledger::LogFolder> stored;
    if (lease_ != nullptr) {
      TRY(stored, coordinator::open_stored_log(folder_, term_, stops_.flag));
    }
    Evidence evidence = evidence_in(path + "/disputes", std::move(stored));
    receipts_->set_referee(std::bind_front(&node::LocalReferee::judge, referee_.get()),
                           std::move(evidence.keep), options.referee_rate);
    receipts_->take_up_disputes(std::move(evidence.kept));
    return ok_status();
  }

  void on_manifest(const ManifestFile& manifest, std::shared_ptr<const node::ModelBytes> bytes,
                   std::uint32_t model) {
    const Hash256 id = manifest.manifest()->id();
    files_.add(id, models_[model].path);
    manifests_[model] = *manifest.manifest();
    if (model != model_) return;  // of a model that was unloaded meanwhile
    node::RangeSet all;
    all.add(0, manifest.manifest()->file_bytes);
    shared_->share(id, std::move(bytes), std::move(all));
    if (manifest.bytes().size() + limits::kReasonBytes > limits::kControlMessageBytes) {
      spdlog::error("the model has too many tensors: nodes need the model file to join");
      return;
    }
    described_ = manifest.bytes();
    coordinator_->publish_model(id);
  }

  // Another coordinator has the store; what this one did from now on would be lost.
  void on_store_lost(const Error& why) {
    if (set_back_) return;
    set_back_ = why;
    spdlog::error("{}", why.message);
    is_over_->store(true);  // the store refuses its writes, and may be away: nothing waits for it
    on_stop();
  }

  Result<control::v1::Description> describe() const {
    REQUIRE(!emulates_,
            "this server is EMULATED: its workers have no model to fetch, and are started with "
            "hearth worker --emulate GPU --shape NAME");
    REQUIRE(manifest_ != nullptr,
            "other machines cannot join this server's cluster; create one with hearth init");
    control::v1::Description description;
    description.set_manifest(described_.data(), described_.size());
    description.set_data_address(data_->address());
    description.set_hashed(manifest_->hashed());
    description.set_file_bytes(manifest_->file_bytes());
    return description;
  }

  // Members redial all coordinators when the leader is gone.
  std::vector<std::string> coordinator_addresses() const {
    std::vector<std::string> all = {control_address(options_)};
    if (lease_ == nullptr) return all;
    for (const coordinator::LeasePeer& standby : lease_->view().standbys) {
      if (!standby.control.empty() && all.size() < limits::kRosterAddresses) {
        all.push_back(standby.control);
      }
    }
    return all;
  }
  void follow_coordinators() {
    if (lease_ == nullptr || !cluster_ || lease_->led() != term_.epoch) return;
    const Status told = membership_->set_addresses(coordinator_addresses());
    const std::string why = told.ok() ? "" : told.error().message;
    if (!told && why != untold_) spdlog::warn("the roster misses a coordinator: {}", why);
    untold_ = why;
  }

  void on_timer() {
    if (lease_ != nullptr && lease_->led() != term_.epoch) {
      const std::string away = lease_->away();
      on_store_lost(Error::of(ErrorCode::kRefused, "the lease of the store ", lease_->store(),
                              " has ended: ", away.empty() ? "another coordinator leads" : away));
    }
    coordinator_->on_timer();
    replace_workers();
    if (++ticks_ % kFollowTicks == 0) {  // hearth nodes rm writes to the store alone
      const Status followed = membership_->follow_store();
      if (!followed) spdlog::error("cannot read the store: {}", followed.error().message);
      follow_coordinators();
      watch_address();
    }
    if (ready_ || ticks_ % 5 != 0) return;
    const coordinator::SwarmStatus status = coordinator_->status();
    if (!status.ready) return;
    ready_ = true;
    std::string stages;
    for (const auto& node : status.nodes) {
      if (node.epoch.value == 0) continue;
      stages += (stages.empty() ? "" : ", ") + node.name + " " + text_of(node.layers);
    }
    spdlog::info("ready: {} at {}/v1, layers: {}", info_.model, info_.api, stages);
    spdlog::info("open {}/ in a browser, or run: hearth run {} \"Hello\"", info_.api, info_.model);
  }

  // Members dial the cluster's address, and links listen only there. When the machine loses that
  // address, no worker can reach the sockets, not even a local one.
  void watch_address() {
    if (!cluster_ || has_moved_) return;
    std::string other;
    if (!client::is_own_host(cluster_->host)) {
      const auto now = default_host();
      if (now.ok()) other = *now;
    }
    if (!address_watch_.has_moved(clock_.now(), other)) return;
    const Status has =
        is_bound_ ? check_own_address(*cluster_) : settle_address(folder_, *cluster_);
    if (!has) return spdlog::error("{}", has.error().message);
    spdlog::warn(
        "this machine's address has changed: the cluster {} is at {} now, and the server restarts "
        "at this address. Members find it by themselves if Avahi runs on both machines; on other "
        "members, once: hearth join {}",
        cluster_->name, cluster_->host, Address{cluster_->host, cluster_->control_port}.text());
    has_moved_ = true;
    end("the server starts again at its machine's new address");
  }

  void on_stop() {
    has_moved_ = false;
    spdlog::info("stopping");
    end("the server is shutting down");
  }

  void end(const std::string& why) {
    stops_.flag->store(true);
    http_->suspend();
    gate_->end_all({ErrorCode::kUnavailable, why});
    children_->stop();
    if (workers_ != nullptr) workers_->stop();
    if (beside_) beside_->stop();
    replace_by_.reset();
    farewell_.expires_after(kServerFarewell);
    farewell_.async_wait([this](const boost::system::error_code&) { loop_.stop(); });
  }

  const coordinator::LeaseWatch* const lease_;  // outlives it
  // Whether another coordinator has the store.
  const std::shared_ptr<std::atomic<bool>> is_over_ = std::make_shared<std::atomic<bool>>(false);
  const coordinator::LeaseTerm term_;  // of the lease
  const std::int64_t began_;           // likewise, by the store's clock
  ServeOptions options_;
  std::vector<OfferedModel> models_;
  std::uint32_t model_ = 0;  // of them, that the workers have or load
  bool emulates_ = false;    // they are shapes, nothing is computed, and there is no ledger
  ModelFiles files_;
  std::map<std::uint32_t, model::Manifest> manifests_;  // by model, of those that were loaded
  Loop loop_;
  boost::asio::steady_timer farewell_{loop_.io()};
  SystemClock clock_;
  SystemRandom random_;
  std::optional<Error> set_back_;  // why it ends by itself
  std::string folder_;
  bool is_bound_ = false;   // the API listens at one address of the machine
  bool has_moved_ = false;  // it ends, and another one serves at the machine's new address
  AddressWatch address_watch_;
  ServerInfo info_;
  std::string api_address_;  // as other machines of the cluster dial it; empty: they cannot
  bool ready_ = false;
  std::string untold_;  // why the roster misses a coordinator; empty: it has all
  unsigned ticks_ = 0;
  struct Search {
    std::jthread thread;
    std::shared_ptr<std::atomic<bool>> is_over;
  };
  std::vector<Search> searches_;  // for the best placement
  std::unique_ptr<ServerFile> file_;
  std::optional<ServerIdentity> identity_;
  std::shared_ptr<coordinator::Store> store_;
  std::optional<Cluster> cluster_;
  coordinator::DialBack dial_back_{loop_.io()};
  std::unique_ptr<LocalToken> token_;
  std::optional<coordinator::Membership> membership_;
  const std::shared_ptr<node::SharedFile> shared_ = std::make_shared<node::SharedFile>();
  std::unique_ptr<TcpTransport> data_;
  OwnRelay relay_;
  std::unique_ptr<node::PieceServer> pieces_;
  std::unique_ptr<ServedManifest> manifest_;
  Bytes described_;  // the signed manifest, once it is made
  std::unique_ptr<ControlService> control_;
  std::shared_ptr<coordinator::Credits> credits_;         // null: the ledger is a log only, or none
  std::unique_ptr<node::LocalReferee> referee_;           // null: there is no ledger
  std::unique_ptr<coordinator::LedgerService> receipts_;  // null: none are made; asks the referee
  const std::shared_ptr<coordinator::Numbers> numbers_ = std::make_shared<coordinator::Numbers>();
  std::optional<BesideModels> beside_;  // nothing: the server has one model, or GPUs
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<coordinator::CoordinatorGate> gate_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Children> children_;   // but the workers
  std::unique_ptr<Children> workers_;    // of this machine
  std::optional<TimePoint> replace_by_;  // until then, they may end to make room for another model
  // The ledger's thread waits no longer for a store that is away. Destroyed before the ledger.
  struct Stop {
    ~Stop() { flag->store(true); }
    const std::shared_ptr<std::atomic<bool>> flag = std::make_shared<std::atomic<bool>>(false);
  } stops_;
};

enum class Ended : std::uint8_t { kForGood, kMoved, kDeposed };

// One server, from its start to its end.
Ended serve_once(const ServeOptions& options, coordinator::LeaseWatch* lease, int& code) {
  Server server(lease);
  const Status started = server.start(options);
  if (started.ok()) {
    code = server.run();
    return server.has_moved()    ? Ended::kMoved
           : server.is_deposed() ? Ended::kDeposed
                                 : Ended::kForGood;
  }
  if (server.was_deposed()) {
    spdlog::warn("{}", started.error().message);
    return Ended::kDeposed;
  }
  if (lease != nullptr && started.error().code == ErrorCode::kUnavailable) {
    spdlog::warn("this coordinator gives the lease back: {}", started.error().message);
    lease->give_back();
    return Ended::kDeposed;
  }
  code = fail(started.error());
  return Ended::kForGood;
}

// Leads, waits as a standby while another coordinator leads, and leads again.
int serve_until_end(ServeOptions options) {
  std::unique_ptr<coordinator::LeaseWatch> lease;
  for (;;) {
    if (lease == nullptr) {
      auto joined = join_coordinators(options);
      if (!joined) return fail(joined.error());
      lease = *std::move(joined);
    }
    if (lease != nullptr) {
      const auto leads = wait_for_lease(options, *lease);
      if (!leads) return fail(leads.error());
      if (!*leads) return kExitDone;
    }
    int code = kExitDone;
    const Ended ended = serve_once(options, lease.get(), code);
    if (ended == Ended::kForGood) return code;
    if (ended == Ended::kMoved) lease.reset();  // the others are told the new address
    options.no_log_file = true;                 // it is open
  }
}

}  // namespace

int run_serve(const ServeOptions& given) {
  ServeOptions options = given;
  if (options.stages == 0 && options.by_hand.empty() && !options.optimise) {
    options.optimise = placement::Objective::kAuto;
  }
  if (!options.shape.empty()) {
    if (!options.models.empty()) {
      return misused(Error::invalid("--shape stands in place of a model: leave out one of them"));
    }
    auto written = write_shape(options.shape, options.quant);
    if (!written.ok()) return misused(written.error());
    options.models = {*written};
  }
  if (options.detach) {
    if (const Status apart = go_to_background(); !apart) return fail(apart.error());
  }
  if (const Status log = start_process_log(options.log_level); !log) return misused(log.error());
  if (const Status ready = prepare_service(); !ready) return fail(ready.error());
  if (const Status host = check_host(options); !host) {
    return host.error().code == ErrorCode::kNotFound ? misused(host.error()) : fail(host.error());
  }
  // Otherwise its workers would end at every start.
  if (options.local_workers > 0) {
    if (const int code = check_known_answers(); code != kExitDone) return code;
  }
  return serve_until_end(std::move(options));
}

}  // namespace hearth::cli
