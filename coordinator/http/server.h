// HttpServer: the OpenAI-compatible API, on Boost.Beast. Parses, tokenises and formats; decides
// nothing about the swarm. Shapes, codes and limits: README "API" and tests/e2e.
//
// Threads: one thread of its own for sockets, a small pool for templates, tokenising and JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/proof/credits.h"
#include "coordinator/proof/ledger_view.h"
#include "coordinator/store/requests.h"
#include "coordinator/store/store.h"
#include "model/chat_template.h"
#include "model/spec.h"
#include "model/text/tokenizer.h"

namespace hearth::coordinator::http {

// What a worker of one stage of it needs.
struct StageNeed {
  LayerRange layers;
  std::uint64_t weight_bytes = 0;
  std::uint64_t memory_bytes =
      0;  // at least, and of everything: weights, one sequence, the process
};

// What the API serves. Immutable.
struct ServedModel {
  std::string id;  // as clients name it, e.g. "smollm2-135m-instruct"
  std::uint64_t file_bytes = 0;
  std::int64_t created = 0;  // unix seconds
  std::string fingerprint;   // system_fingerprint: same fingerprint + seed, same bytes
  model::ModelSpec spec;
  std::vector<StageNeed> stages;  // for those who ask what is missing; may be empty
  std::shared_ptr<const model::Tokenizer> tokenizer;
  std::shared_ptr<const model::ChatTemplate> chat_template;
};

// Seconds; see base/limits.h. Tests that wait for one make it short.
struct HttpTimeouts {
  std::uint32_t idle = limits::kHttpSecondsIdle;      // between requests
  std::uint32_t header = limits::kHttpSecondsHeader;  // to send the whole head
  std::uint32_t body = limits::kHttpSecondsBody;      // to send the whole body
  std::uint32_t write = limits::kHttpSecondsWrite;    // without a byte taken by the client
  std::uint32_t ping = limits::kHttpSecondsPing;      // silence of a stream
  std::uint32_t status = limits::kHttpSecondsStatus;  // for the coordinator to say how it is
  std::uint32_t grace = limits::kHttpSecondsGrace;    // of a kept request without a client
  std::uint32_t kept = limits::kHttpSecondsKept;      // that its whole answer stays
  std::uint32_t resume = limits::kHttpSecondsResume;  // for a pipeline to go on with it
  // For others to compute a whole answer again, besides twice the time that it took.
  std::uint32_t verify = 60;
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address; beyond loopback only with a store
  std::vector<std::string> names;  // of this machine, for Host headers beside the usual ones
  // Where the API's keys are: every route but liveness then needs one. Null: no keys.
  std::shared_ptr<Store> store;
  // It needs none: who shows no key is this machine's user, and who shows one gets what that may.
  bool open = false;
  // Where requests are kept for the next process. Null: in memory alone.
  std::shared_ptr<RequestStore> requests;
  // Of the names of kept requests, and of the salts of receipts: Store::secret_key().
  Hash256 secret;
  // The coordinator keeps one: answers name their receipts. Null: none. Outlives the server.
  const LedgerView* ledger = nullptr;
  // By which requests are paid, from the accounts; null: a ledger that is a log only, or none.
  std::shared_ptr<Credits> credits;
  std::shared_ptr<const Accounts> accounts;  // with `credits`
  PublicKey own_account;                     // of who shows no key: this machine's users
  // As Receipts::grant(), with `credits`.
  std::function<void(const PublicKey& to, std::int64_t amount,
                     std::function<void(const Status&)> done)>
      grant;
  std::uint16_t port = 0;  // 0: any free one
  std::string version;
  bool joinable = false;           // other machines may join the cluster: hearth init was here
  std::uint32_t pool_threads = 2;  // at least 2: one is kept from long tasks
  HttpTimeouts timeouts;
  // Of requests that do not say.
  Verify verify = Verify::kNone;
  ledger::Level min_level = ledger::Level::kNewcomer;
};

class HttpServer {
 public:
  // kInvalidInput for what is no address, or one beyond loopback without keys; kIo when the port is
  // taken.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, ServedModel model,
                                                   CoordinatorPort& port, const Clock& clock,
                                                   Random& random);
  virtual ~HttpServer() = default;  // stops accepting, closes every connection, joins
  virtual std::uint16_t port() const = 0;
  // This process ends: errors that come from now on interrupt what is kept and do not end it.
  virtual void suspend() = 0;
};

}  // namespace hearth::coordinator::http
