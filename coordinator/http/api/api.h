// Api: what every handler shares. Handlers run on the socket thread and hand heavy work to the
// pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "base/limits.h"
#include "coordinator/http/api/authorization.h"
#include "coordinator/http/api/kept_requests.h"
#include "coordinator/http/api/metrics.h"
#include "coordinator/http/api/options.h"
#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/api/slow_task_queue.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

class Generation;

// ThreadGate: hands tasks to another thread. That thread may have ended: after close(), tasks are
// dropped.
class ThreadGate {
 public:
  using Task = std::function<void()>;
  explicit ThreadGate(std::function<void(Task)> post) : post_(std::move(post)) {}
  // False when closed; the task is then dropped.
  bool post(Task task) {
    const std::lock_guard lock(mutex_);
    if (!post_) return false;
    post_(std::move(task));
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    post_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void(Task)> post_;
};

// The names that a Host header may have on a server with these options.
HostNames host_names(const HttpOptions& options);

struct Api {
  Api(HttpOptions options_in, ServedModels models_in, CoordinatorPort& port_in,
      const Clock& clock_in, Random& random_in, std::function<void(ThreadGate::Task)> to_sockets,
      std::function<void(ThreadGate::Task)> to_pool)
      : options(std::move(options_in)),
        models(std::move(models_in)),
        port(port_in),
        clock(clock_in),
        random(random_in),
        sockets(std::move(to_sockets)),
        pool(std::move(to_pool)) {}

  HttpOptions options;
  const ServedModels models;
  const ServedModel& model = models.first();  // the model of requests that name none, with any key
  CoordinatorPort& port;
  const Clock& clock;
  Random& random;  // socket thread only
  const HostNames names = host_names(options);
  // Socket thread only.
  Authorization authorization{options.store, clock, options.policy.account, options.open,
                              options.owner_key};
  Metrics metrics{options.version, models.size() == 1 ? model.id : "several"};
  KeptRequests kept{
      options.secret, model.fingerprint,
      options.requests ? std::make_unique<RequestJournal>(options.requests) : nullptr};
  bool suspending = false;    // kept requests are interrupted: another process continues them
  RequestBounds last_bounds;  // of the last submission; socket thread only
  ThreadGate sockets;
  // Runs a task on the socket thread after a time; called there. Empty: there are no timers.
  std::function<void(Duration, ThreadGate::Task)> later;
  ThreadGate pool;
  // Slow tasks of the pool; one of its threads stays free of them.
  SlowTaskQueue slow_tasks{[this](ThreadGate::Task task) { return pool.post(std::move(task)); },
                           std::max(2U, options.pool_threads) - 1};
  // Requests for the ledger and for plans that wait or run, by owner (RequestPolicy::owner). Socket
  // thread only.
  std::map<std::string, std::uint32_t> slow_reads;
  std::unordered_set<std::shared_ptr<Generation>> generations;  // running; socket thread only
};

inline ModelBounds bounds_of(const ServedModel& served) {
  return {served.spec.vocabulary, served.spec.context, served.spec.hidden};
}

std::string wait_text(std::uint32_t seconds);  // "about 25 minutes"
// The model that a request names; empty: the first one that its key may use. Ollama's clients may
// add the tag `:latest`. 404 model_not_found: there is no such model. 403: the request's key may
// not use it.
ApiResult<const ServedModel*> find_model(const Api& api, const HttpRequest& http,
                                         const std::string& name);
// The model by which a body is parsed: the one that the body names. If that one is not served, the
// default model; find_model() refuses the request afterwards.
const ServedModel& model_to_parse(const Api& api, const Json& body, const HttpRequest& http);
std::string new_request_id(Random& random);          // x-request-id of one answer
ApiError silent_coordinator(std::uint32_t seconds);  // 503
ApiError too_many_connections();                     // 429
HttpResponse error_response(const ApiError& error, Dialect dialect = Dialect::kOpenAi);
inline HttpResponse json_response(std::string body) { return {200, std::move(body)}; }

}  // namespace hearth::coordinator::http
