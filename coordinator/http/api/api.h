// Api: what every handler shares. Handlers run on the socket thread and hand heavy work to the
// pool.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
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
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

class Generation;

// ThreadGate: hands tasks to another thread, which may have ended: after close() tasks are dropped.
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
  Api(HttpOptions options_in, ServedModel model_in, CoordinatorPort& port_in, const Clock& clock_in,
      Random& random_in, std::function<void(ThreadGate::Task)> to_sockets,
      std::function<void(ThreadGate::Task)> to_pool)
      : options(std::move(options_in)),
        model(std::move(model_in)),
        port(port_in),
        clock(clock_in),
        random(random_in),
        names(host_names(options)),
        authorization(options.store, clock_in, options.policy.account, options.open),
        metrics(options.version, model.id),
        kept(options.secret, model.fingerprint,
             options.requests ? std::make_unique<RequestJournal>(options.requests) : nullptr),
        sockets(std::move(to_sockets)),
        pool(std::move(to_pool)),
        slow_tasks([this](ThreadGate::Task task) { return pool.post(std::move(task)); },
                   std::max(2U, options.pool_threads) - 1) {}

  HttpOptions options;
  ServedModel model;
  CoordinatorPort& port;
  const Clock& clock;
  Random& random;  // socket thread only
  const HostNames names;
  Authorization authorization;  // socket thread only
  Metrics metrics;
  KeptRequests kept;
  bool suspending = false;    // kept requests are interrupted: another process continues them
  RequestBounds last_bounds;  // of the last submission; socket thread only
  ThreadGate sockets;
  // Runs a task on the socket thread after a time; called there. Empty: there are no timers.
  std::function<void(Duration, ThreadGate::Task)> later;
  ThreadGate pool;
  SlowTaskQueue slow_tasks;  // of the pool; one of its threads never runs any
  std::unordered_set<std::shared_ptr<Generation>> generations;  // running; socket thread only

  ModelBounds bounds() const { return {model.spec.vocabulary, model.spec.context}; }
};

// "about 25 minutes"
std::string wait_text(std::uint32_t seconds);

// 404 model_not_found unless `name` is the served model's.
std::optional<ApiError> check_model(const Api& api, const std::string& name);

// x-request-id of one answer.
std::string new_request_id(Random& random);

// 503: no answer from the coordinator for so many seconds.
ApiError silent_coordinator(std::uint32_t seconds);

// 429: every place for a connection is taken.
ApiError too_many_connections();

HttpResponse error_response(const ApiError& error);
HttpResponse json_response(const std::string& body);

}  // namespace hearth::coordinator::http
