// Options of the HTTP API: the model that it serves, its timeouts, and the parts of the server that
// it works with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/api/authorization.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/proof/credits.h"
#include "coordinator/proof/ledger_view.h"
#include "coordinator/store/lease_watch.h"
#include "coordinator/store/requests.h"
#include "coordinator/store/store.h"
#include "ledger/folder.h"
#include "model/chat/kept_grammars.h"
#include "model/chat/syntax.h"
#include "model/chat_template.h"
#include "model/spec.h"
#include "model/text/tokenizer.h"
#include "proto/away.h"
#include "proto/roster.h"

struct ssl_st;

namespace hearth::coordinator::http {

// The resources that a worker needs to serve one stage of the model.
struct StageNeed {
  LayerRange layers;
  std::uint64_t weight_bytes = 0;
  std::uint64_t memory_bytes = 0;  // at least: weights, KV of one sequence, the process
};

// A model that the API serves. Immutable, but for the grammars.
struct ServedModel {
  std::uint32_t number = 0;  // GenerateRequest::model
  std::string id;            // as clients name it, e.g. "smollm2-135m-instruct"
  std::uint64_t file_bytes = 0;
  std::int64_t created = 0;  // unix seconds
  std::string fingerprint;   // system_fingerprint: same fingerprint + seed, same bytes
  model::ModelSpec spec;
  std::vector<StageNeed> stages;  // for users who ask what is missing; may be empty
  std::shared_ptr<const model::Tokenizer> tokenizer;
  std::shared_ptr<const model::ChatTemplate> chat_template;
  std::shared_ptr<const model::ChatSyntax> syntax;  // of the template; null: answers are content
  std::shared_ptr<model::KeptGrammars> grammars = std::make_shared<model::KeptGrammars>();
};

// The models that the API serves, by their numbers. The first one serves requests that name none.
// Immutable.
class ServedModels {
 public:
  ServedModels(ServedModel only) { add(std::move(only)); }  // NOLINT(google-explicit-constructor)
  explicit ServedModels(std::vector<ServedModel> all) {
    for (ServedModel& one : all) add(std::move(one));
  }

  const std::vector<ServedModel>& all() const { return all_; }
  std::size_t size() const { return all_.size(); }
  const ServedModel& first() const { return all_.front(); }
  const ServedModel& at(std::uint32_t number) const { return all_[number]; }
  // Null: no model has it.
  const ServedModel* named(std::string_view name) const { return find(&ServedModel::id, name); }
  const ServedModel* of_fingerprint(std::string_view fingerprint) const {
    return find(&ServedModel::fingerprint, fingerprint);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void add(ServedModel one) {
    one.number = static_cast<std::uint32_t>(all_.size());
    names_.push_back(one.id);
    all_.push_back(std::move(one));
  }
  const ServedModel* find(std::string ServedModel::*field, std::string_view text) const {
    const auto found = std::ranges::find(all_, text, field);
    return found == all_.end() ? nullptr : &*found;
  }

  std::vector<ServedModel> all_;
  std::vector<std::string> names_;
};

// Seconds; see base/limits.h. Tests that wait for one make it short.
struct HttpTimeouts {
  std::uint32_t idle = limits::kHttpSecondsIdle;      // between requests
  std::uint32_t header = limits::kHttpSecondsHeader;  // to send the whole head
  std::uint32_t body = limits::kHttpSecondsBody;      // to send more of a body
  std::uint32_t write = limits::kHttpSecondsWrite;    // for a write to make progress
  std::uint32_t ping = limits::kHttpSecondsPing;      // of silence before a stream is pinged
  std::uint32_t status = limits::kHttpSecondsStatus;  // for the coordinator's answer
  // For which a kept request continues without a client.
  std::uint32_t grace = limits::kHttpSecondsGrace;
  std::uint32_t kept = limits::kHttpSecondsKept;      // that its whole answer stays
  std::uint32_t resume = limits::kHttpSecondsResume;  // for a pipeline to go on with it
  // To recompute a whole answer, in addition to twice the time that it took.
  std::uint32_t verify = 60;
};

// Members that send requests over their own link (HttpServer::adopt): TLS 1.3 with a certificate
// from both sides. Any thread.
struct MemberLinks {
  std::string certificate;  // ours, in PEM, and its key
  std::string private_key;
  std::function<Result<PublicKey>(ssl_st& tls)> key_of;  // of the peer, after the handshake
  // Nothing: the peer is not a member now.
  std::function<std::optional<Member>(const PublicKey& key)> find;
};

// A model on the server's disk.
struct StoredModel {
  std::string name;
  std::uint64_t bytes = 0;  // of its files
  bool is_served = false;
};

// How fast nodes would be with a stored model.
struct PlanQuestion {
  std::string model;                 // StoredModel::name
  std::string nodes;                 // JSON, as `measured` of GET /api/v1/state
  std::uint32_t measured_model = 0;  // ServedModel::number of the model that they measured with
  placement::Objective objective = placement::Objective::kAuto;
};

// `hearth plan` for the API. Any thread.
struct Planner {
  std::function<std::vector<StoredModel>()> models;
  // The output of hearth plan --json; takes up to seconds. kNotFound: no model has this name.
  // kNoCapacity: the nodes cannot hold the model; the message says what is missing.
  std::function<Result<std::string>(const PlanQuestion& question)> plan;
};

// Where machines join the cluster. Any thread.
struct JoinPoint {
  std::shared_ptr<const RosterBook> roster;
  std::string address;  // of the control port, "host:port"
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address; beyond loopback only with a store
  std::vector<std::string> names;  // of this machine, allowed in Host headers
  // The API's keys: with them every route except liveness needs one. Null: there are none.
  std::shared_ptr<Store> store;
  // Requests without a key count as those of this machine's users; if a request has a key, the
  // key's limits apply.
  bool open = false;
  // The id of the key in the data folder's admin.key, which alone may grant credit. Empty: none.
  std::string owner_key;
  // Which coordinator leads with the store. Null: the store is SQLite. Outlives the server.
  const LeaseWatch* lease = nullptr;
  // Stores requests for the next process. Null: they are kept in memory only.
  std::shared_ptr<RequestStore> requests;
  // Keys the names of kept requests and the salts of receipts: Store::secret_key().
  Hash256 secret;
  // The coordinator's ledger: answers name their receipts. Null: it keeps none. Outlives the
  // server.
  const LedgerView* ledger = nullptr;
  // The log of `ledger`, for reading, on any thread. Null: there is no ledger.
  std::function<Result<std::unique_ptr<ledger::LogFolder>>()> open_log;
  // Requests are paid from the accounts. Null: no ledger, or one without credits.
  std::shared_ptr<Credits> credits;
  std::shared_ptr<const Accounts> accounts;  // with `credits`
  // Receipts::grant(), with `credits`.
  std::function<void(const PublicKey& to, std::int64_t amount,
                     std::function<void(const Status&)> done)>
      grant;
  std::optional<MemberLinks> members;  // nothing: no socket is adopted
  std::uint16_t port = 0;              // 0: any free one
  std::string version;
  std::string cluster;             // the cluster's name, if other machines can join it
  bool joinable = false;           // other machines may join the cluster (hearth init)
  std::optional<JoinPoint> join;   // with `joinable`, of a server with a store
  std::optional<Planner> planner;  // nothing: the API has no planner
  // Coordinator::order(), from any thread; `done` on any thread. Null: workers take no orders.
  std::function<void(const std::string& node, const std::optional<Away>& order,
                     std::function<void(const Status&)> done)>
      order;
  std::uint32_t pool_threads = 2;  // at least 2: one never runs slow tasks
  HttpTimeouts timeouts;
  bool drafts = true;  // tokens may be drafted, unless a request says no
  // The verify and min_level of requests that name none, and the account of this machine's users.
  RequestPolicy policy = {};
};

}  // namespace hearth::coordinator::http
