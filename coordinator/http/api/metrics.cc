#include "coordinator/http/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr const char* kModelLabel = "model_name";

const Histogram::BucketBoundaries kFirstTokenBuckets = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Histogram::BucketBoundaries kTokenBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                   0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                                   7.5,  10.0,  20.0, 40.0,  80.0};
const Histogram::BucketBoundaries kRequestBuckets = {
    0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

const Histogram::BucketBoundaries kChoiceBuckets = {1.0, 2.0, 5.0, 10.0, 20.0};
// 1, 2, 5, 10, 20, 50 and so on up to the longest context.
const Histogram::BucketBoundaries kLengthBuckets = [] {
  Histogram::BucketBoundaries bounds;
  for (double decade = 1.0;; decade *= 10.0) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (decade * step > limits::kModelContext) return bounds;
      bounds.push_back(decade * step);
    }
  }
}();

// Families that are read from a SwarmStatus, not counted here.
class Families {
 public:
  template <typename Number>
  void gauge(const char* name, const char* help, Number value, const Labels& labels = {}) {
    add(MetricType::Gauge, name, help, static_cast<double>(value), labels);
  }
  template <typename Number>
  void counter(const char* name, const char* help, Number value, const Labels& labels = {}) {
    add(MetricType::Counter, name, help, static_cast<double>(value), labels);
  }
  std::vector<MetricFamily> take() { return std::move(out_); }

 private:
  void add(MetricType type, const char* name, const char* help, double value,
           const Labels& labels) {
    if (out_.empty() || out_.back().name != name) out_.push_back({name, help, type, {}});
    ClientMetric& metric = out_.back().metric.emplace_back();
    for (const auto& [key, text] : labels) metric.label.push_back({key, text});
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }

  std::vector<MetricFamily> out_;
};

double kv_usage(const SwarmStatus& status) {
  double pages = 0;
  double reserved = 0;
  for (const PipelineStatus& pipeline : status.pipelines) {
    pages += pipeline.kv_pages;
    reserved += pipeline.kv_pages_reserved;
  }
  return pages > 0 ? reserved / pages : 0.0;
}

// The fewest serving holders that any layer of the current model has.
double min_replicas(const SwarmStatus& status) {
  const auto serves = [&status](const NodeStatus& node) {
    return node.state == "serving" && node.model == status.model;
  };
  std::uint32_t layers = 0;
  for (const NodeStatus& node : status.nodes) {
    if (serves(node)) layers = std::max(layers, node.layers.end);
  }
  std::vector<std::uint32_t> holders(std::min(layers, limits::kModelLayers), 0);
  for (const NodeStatus& node : status.nodes) {
    if (!serves(node)) continue;
    for (std::uint32_t i = node.layers.begin; i < node.layers.end && i < holders.size(); ++i) {
      ++holders[i];
    }
  }
  return holders.empty() ? 0.0 : *std::min_element(holders.begin(), holders.end());
}

void add_nodes(const SwarmStatus& status, Families& families) {
  std::map<std::string, std::uint32_t> states = {{"free", 0},     {"loading", 0}, {"serving", 0},
                                                 {"checking", 0}, {"paused", 0},  {"lost", 0}};
  for (const NodeStatus& node : status.nodes) ++states[node.state];
  for (const auto& [state, count] : states) {
    families.gauge("hearth_nodes", "Workers by state", count, {{"state", state}});
  }
  const auto counter = [&](const char* name, const char* help, auto member) {
    for (const NodeStatus& node : status.nodes) {
      families.counter(name, help, node.*member, {{"node", node.name}});
    }
  };
  counter("hearth_node_steps_total", "Steps that a worker has computed", &NodeStatus::steps_total);
  counter("hearth_node_tokens_total",
          "Positions that a worker has computed, of prompts and answers", &NodeStatus::rows_total);
  counter("hearth_node_busy_seconds_total", "Seconds that a worker has computed",
          &NodeStatus::busy_seconds_total);
  counter("hearth_node_ring_steps_total", "Steps of a first stage whose tokens came back",
          &NodeStatus::ring_steps_total);
  counter("hearth_node_ring_seconds_total", "Seconds that those steps took together",
          &NodeStatus::ring_seconds_total);
  counter("hearth_node_late_frames_total", "Frames of a lost pipeline that were dropped",
          &NodeStatus::late_frames_total);
  counter("hearth_node_replayed_rows_total",
          "Positions whose kept results were used instead of computing them: of cached prompts, "
          "and after a loss",
          &NodeStatus::replayed_rows_total);
  for (const NodeStatus& node : status.nodes) {
    if (!node.energy_joules_total) continue;
    families.counter("hearth_node_energy_joules_total",
                     "Joules that a worker's GPU, or else its machine's processors, used",
                     *node.energy_joules_total, {{"node", node.name}});
  }
  // KV of the stages that serve; stages of one pipeline may have different amounts.
  const auto gauge = [&](const char* name, const char* help, auto member) {
    for (const NodeStatus& node : status.nodes) {
      if (node.state != "serving") continue;
      families.gauge(name, help, node.*member,
                     {{"node", node.name}, {"stage", std::to_string(node.stage)}});
    }
  };
  gauge("hearth_stage_kv_pages", "KV pages of a serving stage", &NodeStatus::kv_pages);
  gauge("hearth_stage_kv_pages_kept",
        "KV pages of a serving stage that hold ended sequences and count as free",
        &NodeStatus::kv_pages_kept);
  gauge("hearth_stage_kv_tokens_used", "Positions that have KV on a serving stage",
        &NodeStatus::kv_tokens_used);
}

void add_audits(const AuditStatus& audits, Families& families) {
  families.counter("hearth_audits_selected_total", "Windows selected for an audit",
                   audits.selected_total);
  families.counter("hearth_audits_agreed_total", "Audits that agreed", audits.agreed_total);
  families.counter("hearth_audits_disputed_total", "Audits that found another result",
                   audits.disputed_total);
  families.counter("hearth_audits_missed_total", "Windows that were not audited in time",
                   audits.missed_total);
  families.gauge("hearth_audits_waiting", "Windows that wait for their audit", audits.waiting);
  families.counter("hearth_audits_referee_selected_total",
                   "Windows that were drawn for the server's own referee",
                   audits.referee_selected_total);
  families.counter("hearth_audits_referee_missed_total",
                   "Windows that the referee did not recompute in time",
                   audits.referee_missed_total);
  families.gauge("hearth_disputes_open", "Windows in dispute without a verdict",
                 audits.open_disputes);
}

void add_swarm(const SwarmStatus& status, const std::string& model, Families& families) {
  families.gauge("hearth_ready", "1 when a prompt would be answered", status.ready ? 1 : 0);
  const Labels of_model = {{kModelLabel, model}};
  for (const ModelStatus& one : status.models) {
    families.gauge("hearth_model_ready", "1 when the model is loaded and answers",
                   one.state == "ready" ? 1 : 0, {{kModelLabel, one.name}});
  }
  families.gauge("hearth_num_requests_running", "Sequences being generated", status.running,
                 of_model);
  families.gauge("hearth_num_audits_running", "Requests being recomputed by audits",
                 status.running_audits, of_model);
  families.gauge("hearth_num_requests_waiting", "Sequences waiting for room", status.waiting,
                 of_model);
  families.gauge("hearth_kv_cache_usage_perc", "KV pages reserved, 0 to 1", kv_usage(status),
                 of_model);
  families.gauge("hearth_kv_cache_usage_ratio", "KV pages reserved, 0 to 1", kv_usage(status),
                 of_model);
  families.counter("hearth_prefix_cache_queries_total", "Prompt tokens that might have been cached",
                   status.prefix_queries_total, of_model);
  families.counter("hearth_prefix_cache_hits_total",
                   "Prompt tokens that were cached and not computed", status.prefix_hits_total,
                   of_model);
  families.counter("hearth_prompt_tokens_total", "Prompt tokens of admitted sequences",
                   status.prompt_tokens_total, of_model);
  families.counter("hearth_generation_tokens_total", "Tokens generated",
                   status.generation_tokens_total, of_model);
  const auto by_kind = [&](const char* name, const char* help, const auto& counts) {
    for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
      families.counter(name, help, counts[kind], {{"kind", std::string(kDraftKindNames[kind])}});
    }
  };
  by_kind("hearth_speculation_drafted_total", "Tokens that were drafted and verified",
          status.drafted_total);
  by_kind("hearth_speculation_accepted_total", "Drafts that were the tokens drawn",
          status.accepted_total);
  families.counter("hearth_admitted_total", "Sequences admitted", status.admitted_total);
  families.counter("hearth_num_preemptions_total",
                   "Times that a sequence was interrupted and prefilled again",
                   status.resumed_total, of_model);
  families.counter("hearth_resumed_total",
                   "Times that a sequence continued after the loss of its pipeline",
                   status.resumed_total);
  families.counter("hearth_late_frames_total",
                   "Frames of a lost pipeline that the coordinator dropped",
                   status.late_frames_total);
  families.counter("hearth_failed_total", "Sequences that ended with an error",
                   status.finished_error_total);
  families.counter("hearth_cancelled_total", "Sequences cancelled by their clients",
                   status.cancelled_total);
  families.gauge("hearth_layer_replicas_min", "Fewest serving holders of any layer",
                 min_replicas(status), {{"model", model}});
  if (status.audits) add_audits(*status.audits, families);
  add_nodes(status, families);
}

}  // namespace

struct Metrics::State {
  State(const std::string& version, std::string served) : model(std::move(served)) {
    for (const char* reason : {"stop", "length"}) success.Add({{"finished_reason", reason}});
    prometheus::BuildGauge()
        .Name("hearth_build_info")
        .Help("Version and model, always 1")
        .Register(registry)
        .Add({{"version", version}, {"model", model}})
        .Set(1);
  }
  Histogram& histogram(const char* name, const char* help,
                       const Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Labels({{kModelLabel, model}})
        .Register(registry)
        .Add({}, buckets);
  }

  prometheus::Registry registry;
  const std::string model;
  Histogram& first_token = histogram("hearth_time_to_first_token_seconds",
                                     "From the request to its first token", kFirstTokenBuckets);
  Histogram& next_token = histogram("hearth_inter_token_latency_seconds",
                                    "From one token of a sequence to the next", kTokenBuckets);
  Histogram& queued =
      histogram("hearth_request_queue_time_seconds", "Waiting for room", kRequestBuckets);
  Histogram& prefilled = histogram("hearth_request_prefill_time_seconds",
                                   "From admission to the first token", kRequestBuckets);
  Histogram& decoded = histogram("hearth_request_decode_time_seconds",
                                 "From the first token to the last", kRequestBuckets);
  Histogram& whole =
      histogram("hearth_e2e_request_latency_seconds", "The whole request", kRequestBuckets);
  Histogram& inferred = histogram("hearth_request_inference_time_seconds",
                                  "From admission to the last token", kRequestBuckets);
  Histogram& per_token = histogram("hearth_request_time_per_output_token_seconds",
                                   "Mean of a sequence, without its first token", kTokenBuckets);
  Histogram& prompt_tokens =
      histogram("hearth_request_prompt_tokens", "Prompt tokens of a sequence", kLengthBuckets);
  Histogram& generated_tokens = histogram("hearth_request_generation_tokens",
                                          "Tokens generated of a sequence", kLengthBuckets);
  Histogram& max_tokens =
      histogram("hearth_request_params_max_tokens", "max_tokens of a sequence", kLengthBuckets);
  Histogram& choices =
      histogram("hearth_request_params_n", "n of a sequence's request", kChoiceBuckets);
  prometheus::Family<prometheus::Counter>& success = prometheus::BuildCounter()
                                                         .Name("hearth_request_success_total")
                                                         .Help("Finished sequences by reason")
                                                         .Labels({{kModelLabel, model}})
                                                         .Register(registry);
  prometheus::Family<prometheus::Counter>& answers = prometheus::BuildCounter()
                                                         .Name("hearth_http_answers_total")
                                                         .Help("HTTP answers by status")
                                                         .Register(registry);
  mutable std::mutex mutex;
  double mean_seconds = 1.0;
  double mean_generated = 0.0;
  double mean_max = 0.0;
};

Metrics::Metrics(const std::string& version, const std::string& model)
    : state_(std::make_unique<State>(version, model)) {}

Metrics::~Metrics() = default;

void Metrics::first_token(double seconds) { state_->first_token.Observe(seconds); }
void Metrics::next_token(double seconds) { state_->next_token.Observe(seconds); }
void Metrics::queued(double seconds) { state_->queued.Observe(seconds); }
void Metrics::prefilled(double seconds) { state_->prefilled.Observe(seconds); }

void Metrics::finished(const FinishedSequence& sequence) {
  constexpr double kWeight = 0.2;
  State& s = *state_;
  s.whole.Observe(sequence.whole_seconds);
  s.inferred.Observe(sequence.inference_seconds);
  s.decoded.Observe(sequence.decode_seconds);
  if (sequence.generated_tokens > 1) {
    s.per_token.Observe(sequence.decode_seconds / (sequence.generated_tokens - 1));
  }
  s.prompt_tokens.Observe(sequence.prompt_tokens);
  s.generated_tokens.Observe(sequence.generated_tokens);
  s.max_tokens.Observe(sequence.max_tokens);
  s.choices.Observe(sequence.choices);
  s.success.Add({{"finished_reason", sequence.reason}}).Increment();
  const std::lock_guard lock(s.mutex);
  s.mean_seconds += kWeight * (sequence.whole_seconds - s.mean_seconds);
  s.mean_generated += kWeight * (sequence.generated_tokens - s.mean_generated);
  s.mean_max += kWeight * (sequence.max_tokens - s.mean_max);
}

void Metrics::answered(unsigned status) {
  state_->answers.Add({{"status", std::to_string(status)}}).Increment();
}

double Metrics::mean_request_seconds() const {
  const std::lock_guard lock(state_->mutex);
  return state_->mean_seconds;
}

double Metrics::used_share() const {
  const std::lock_guard lock(state_->mutex);
  return state_->mean_max > 0.0 ? std::min(1.0, state_->mean_generated / state_->mean_max) : 1.0;
}

std::string Metrics::expose(const SwarmStatus& status, const LedgerView* ledger) const {
  Families families;
  add_swarm(status, state_->model, families);
  if (ledger != nullptr) {
    families.gauge("hearth_ledger_logs", "1 while receipts are logged; 0: the log has failed",
                   ledger->fault().empty() ? 1 : 0);
  }
  std::vector<MetricFamily> all = state_->registry.Collect();
  for (MetricFamily& family : families.take()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace hearth::coordinator::http
