#include "coordinator/http/api/metrics.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <thread>

namespace hearth::coordinator::http {
namespace {

// A strict reader of the text exposition format 0.0.4: every family is declared once, before its
// samples, its samples stand together, names and labels are spelled as allowed, escapes are known,
// no series comes twice, histograms are cumulative and end in +Inf.
class Exposition {
 public:
  using Labels = std::map<std::string, std::string>;
  struct Sample {
    std::string name;
    Labels labels;
    double value = 0;
  };
  struct Family {
    std::string type;
    bool help = false;
    std::vector<Sample> samples;
  };

  explicit Exposition(std::string_view text) {
    if (!text.ends_with('\n')) errors.push_back("no line end at the end");
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1);
      line_ = text.substr(0, end);
      text.remove_prefix(end + 1);
      if (!line_.empty()) read_line();
    }
    for (const auto& [name, family] : families) {
      if (family.type == "histogram") check_histogram(name, family);
      if (family.samples.empty()) errors.push_back(name + " has no sample");
    }
  }

  double value(const std::string& name, const Labels& labels = {}) const {
    for (const auto& [key, family] : families) {
      for (const Sample& sample : family.samples) {
        Labels own = sample.labels;
        if (!labels.contains("model_name")) own.erase("model_name");
        if (sample.name == name && own == labels) return sample.value;
      }
    }
    return std::nan("");
  }

  std::map<std::string, Family> families;
  std::vector<std::string> errors;

 private:
  void wrong(const std::string& what) { errors.push_back(what + ": " + std::string(line_)); }

  void read_line() {
    rest_ = line_;
    if (!rest_.starts_with('#')) return read_sample();
    const bool help = rest_.starts_with("# HELP ");
    if (!help && !rest_.starts_with("# TYPE ")) return wrong("neither HELP nor TYPE");
    rest_.remove_prefix(7);
    const std::string name = read_name(true);
    if (name.empty() || !rest_.starts_with(' ')) return wrong("no name");
    rest_.remove_prefix(1);
    if (name != open_ && families.contains(name)) return wrong("a family twice");
    Family& family = families[name];
    if (!family.samples.empty()) return wrong("after its samples");
    open_ = name;
    if (help) {
      if (family.help) wrong("HELP twice");
      family.help = true;
      return;
    }
    if (!family.type.empty()) wrong("TYPE twice");
    family.type = rest_;
    if (!std::set<std::string>{"counter", "gauge", "histogram"}.contains(family.type)) {
      wrong("unknown type");
    }
  }

  std::string read_name(bool colon) {
    std::size_t length = 0;
    while (length < rest_.size()) {
      const char c = rest_[length];
      const bool letter = std::isalpha(static_cast<unsigned char>(c)) || c == '_' ||
                          (colon && c == ':') || (length > 0 && c >= '0' && c <= '9');
      if (!letter) break;
      ++length;
    }
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  bool read_label(Labels& labels) {
    const std::string name = read_name(false);
    if (name.empty() || !rest_.starts_with("=\"")) return false;
    rest_.remove_prefix(2);
    std::string text;
    while (!rest_.empty() && rest_[0] != '"') {
      if (rest_[0] != '\\') {
        text += rest_[0];
        rest_.remove_prefix(1);
        continue;
      }
      if (rest_.size() < 2 || std::string_view("\\\"n").find(rest_[1]) == std::string_view::npos) {
        return false;
      }
      text += rest_[1] == 'n' ? '\n' : rest_[1];
      rest_.remove_prefix(2);
    }
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    return labels.emplace(name, text).second;
  }

  void read_sample() {
    Sample sample;
    sample.name = read_name(true);
    if (sample.name.empty()) return wrong("no name");
    if (rest_.starts_with('{')) {
      rest_.remove_prefix(1);
      while (!rest_.starts_with('}')) {
        if (!read_label(sample.labels)) return wrong("a broken label");
        if (rest_.starts_with(',')) rest_.remove_prefix(1);
      }
      rest_.remove_prefix(1);
    }
    if (!rest_.starts_with(' ')) return wrong("no value");
    rest_.remove_prefix(1);
    if (!read_number(rest_, sample.value)) return wrong("no number");
    Family& family = families[open_];
    std::string base = sample.name;
    if (family.type == "histogram") {
      for (const char* suffix : {"_bucket", "_sum", "_count"}) {
        if (sample.name == open_ + suffix) base = open_;
      }
    }
    if (base != open_) return wrong("a sample outside of its family");
    if (family.type == "counter" && !(sample.value >= 0)) wrong("a counter below zero");
    if (!seen_.insert({sample.name, sample.labels}).second) wrong("a series twice");
    family.samples.push_back(std::move(sample));
  }

  static bool read_number(std::string_view text, double& out) {
    if (text == "+Inf" || text == "-Inf" || text == "NaN") {
      out = text == "NaN" ? std::nan("") : (text[0] == '+' ? INFINITY : -INFINITY);
      return true;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  }

  void check_histogram(const std::string& name, const Family& family) {
    double bound = -INFINITY;
    double count = 0;
    bool infinite = false;
    double total = std::nan("");
    for (const Sample& sample : family.samples) {
      if (sample.name == name + "_count") total = sample.value;
      if (sample.name != name + "_bucket") continue;
      double le = 0;
      const auto label = sample.labels.find("le");
      if (label == sample.labels.end() || !read_number(label->second, le)) {
        errors.push_back(name + " has a bucket without a bound");
        continue;
      }
      if (le <= bound || sample.value < count) errors.push_back(name + " is not cumulative");
      bound = le;
      count = sample.value;
      infinite = std::isinf(le);
    }
    if (!infinite || total != count) errors.push_back(name + " does not end in its count");
  }

  std::string_view line_;
  std::string_view rest_;
  std::string open_;
  std::set<std::pair<std::string, Labels>> seen_;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

NodeStatus node(const std::string& name, const std::string& state, LayerRange layers) {
  NodeStatus out;
  out.name = name;
  out.state = state;
  out.layers = layers;
  out.steps_total = 5;
  out.rows_total = 40;
  out.stage = 1;
  out.kv_pages = 20;
  out.kv_tokens_used = 33;
  out.ring_steps_total = 4;
  out.ring_seconds_total = 0.5;
  out.late_frames_total = 6;
  out.replayed_rows_total = 7;
  out.busy_seconds_total = 0.25;
  if (name == "a") out.energy_joules_total = 12.5;
  return out;
}

SwarmStatus busy_swarm() {
  SwarmStatus status;
  status.ready = true;
  status.running = 3;
  status.waiting = 9;
  status.prompt_tokens_total = 123456789012345;
  status.generation_tokens_total = 77;
  status.cancelled_total = 2;
  status.admitted_total = 11;
  status.resumed_total = 5;
  status.late_frames_total = 3;
  status.finished_error_total = 1;
  status.nodes = {node("a", "serving", {0, 2}), node("b", "serving", {2, 4}),
                  node("c", "serving", {0, 4}), node("d", "lost", {0, 4}),
                  node("e", "free", {}),        node("f", "paused", {})};
  status.pipelines.resize(2);
  status.pipelines[0].kv_pages = 30;
  status.pipelines[0].kv_pages_reserved = 15;
  status.pipelines[1].kv_pages = 10;
  return status;
}

TEST(MetricsTest, TheReaderRefusesWhatIsWrong) {
  const std::string good = "# HELP a x\n# TYPE a counter\na{l=\"v\\n\\\"\\\\\"} 1.5e3\n";
  EXPECT_EQ(joined(Exposition(good).errors), "");
  for (const char* bad :
       {"# TYPE a counter\na 1", "# TYPE a counter\na -1\n", "# TYPE a counter\na 1\na 1\n",
        "# TYPE a counter\nb 1\n", "# TYPE a counter\na{l=v} 1\n",
        "# TYPE a counter\na{l=\"\\x\"} 1\n", "# TYPE a counter\na{l=\"1\",l=\"2\"} 1\n",
        "# TYPE a counter\na  1\n", "# TYPE a top\na 1\n",
        "# TYPE a counter\na 1\n# TYPE b gauge\nb 1\n# TYPE a counter\na 2\n", "# TYPE 1a gauge\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_sum 1\na_count 2\n", "# TYPE a gauge\n"}) {
    EXPECT_FALSE(Exposition(bad).errors.empty()) << bad;
  }
}

TEST(MetricsTest, TheExpositionIsStrictlyWellFormed) {
  Metrics metrics("1.2.3", "tiny");
  for (const SwarmStatus& status : {SwarmStatus(), busy_swarm()}) {
    const Exposition before(metrics.expose(status));
    EXPECT_EQ(joined(before.errors), "");
    for (const auto& [name, family] : before.families) {
      EXPECT_TRUE(name.starts_with("hearth_")) << name;
      EXPECT_TRUE(family.help) << name;
      EXPECT_FALSE(family.type.empty()) << name;
      EXPECT_EQ(family.type == "counter", name.ends_with("_total")) << name;
      const bool of_a_request = name.starts_with("hearth_request_") && !name.ends_with("_total");
      EXPECT_EQ(family.type == "histogram", name.ends_with("_seconds") || of_a_request) << name;
    }
    metrics.answered(200);
    metrics.answered(429);
    metrics.finished({"stop", 0.5});
  }
  EXPECT_EQ(joined(Exposition(metrics.expose(busy_swarm())).errors), "");
}

TEST(MetricsTest, AuditsAreCountedBesideRequests) {
  const Metrics metrics("v", "tiny");
  SwarmStatus swarm = busy_swarm();
  swarm.running_audits = 2;
  swarm.audits = AuditStatus{};
  swarm.audits->referee_selected_total = 7;
  swarm.audits->referee_missed_total = 4;
  swarm.audits->open_disputes = 1;
  const Exposition text(metrics.expose(swarm));
  EXPECT_EQ(text.value("hearth_num_requests_running"), 3.0);
  EXPECT_EQ(text.value("hearth_num_audits_running"), 2.0);
  EXPECT_EQ(text.value("hearth_audits_referee_selected_total"), 7.0);
  EXPECT_EQ(text.value("hearth_audits_referee_missed_total"), 4.0);
  EXPECT_EQ(text.value("hearth_disputes_open"), 1.0);
}

TEST(MetricsTest, FiguresOfTheSwarm) {
  const Metrics metrics("1.2.3", "tiny");
  const Exposition text(metrics.expose(busy_swarm()));
  EXPECT_EQ(text.value("hearth_build_info", {{"version", "1.2.3"}, {"model", "tiny"}}), 1.0);
  EXPECT_EQ(text.value("hearth_ready"), 1.0);
  EXPECT_EQ(text.value("hearth_num_requests_running"), 3.0);
  EXPECT_EQ(text.value("hearth_num_requests_waiting"), 9.0);
  EXPECT_EQ(text.value("hearth_kv_cache_usage_perc"), 15.0 / 40.0);
  EXPECT_EQ(text.value("hearth_kv_cache_usage_ratio"), 15.0 / 40.0);
  EXPECT_EQ(text.value("hearth_prompt_tokens_total"), 123456789012345.0);
  EXPECT_EQ(text.value("hearth_generation_tokens_total"), 77.0);
  EXPECT_EQ(text.value("hearth_cancelled_total"), 2.0);
  EXPECT_EQ(text.value("hearth_layer_replicas_min", {{"model", "tiny"}}), 2.0);
  EXPECT_EQ(text.value("hearth_nodes", {{"state", "serving"}}), 3.0);
  EXPECT_EQ(text.value("hearth_nodes", {{"state", "loading"}}), 0.0);
  EXPECT_EQ(text.value("hearth_nodes", {{"state", "lost"}}), 1.0);
  EXPECT_EQ(text.value("hearth_nodes", {{"state", "paused"}}), 1.0);
  EXPECT_EQ(text.value("hearth_node_steps_total", {{"node", "e"}}), 5.0);
  EXPECT_EQ(text.value("hearth_node_busy_seconds_total", {{"node", "a"}}), 0.25);
  EXPECT_EQ(text.value("hearth_node_tokens_total", {{"node", "a"}}), 40.0);
  EXPECT_EQ(text.value("hearth_node_energy_joules_total", {{"node", "a"}}), 12.5);
  EXPECT_EQ(text.families.at("hearth_node_energy_joules_total").samples.size(), 1U);
  EXPECT_EQ(text.value("hearth_node_ring_steps_total", {{"node", "a"}}), 4.0);
  EXPECT_EQ(text.value("hearth_node_ring_seconds_total", {{"node", "a"}}), 0.5);
  EXPECT_EQ(text.value("hearth_stage_kv_pages", {{"node", "b"}, {"stage", "1"}}), 20.0);
  EXPECT_EQ(text.value("hearth_stage_kv_tokens_used", {{"node", "b"}, {"stage", "1"}}), 33.0);
  EXPECT_EQ(text.families.at("hearth_stage_kv_pages").samples.size(), 3U) << "those that serve";
  EXPECT_EQ(text.value("hearth_admitted_total"), 11.0);
  EXPECT_EQ(text.value("hearth_resumed_total"), 5.0);
  EXPECT_EQ(text.value("hearth_num_preemptions_total"), 5.0);
  EXPECT_EQ(text.value("hearth_late_frames_total"), 3.0);
  EXPECT_EQ(text.value("hearth_node_late_frames_total", {{"node", "a"}}), 6.0);
  EXPECT_EQ(text.value("hearth_node_replayed_rows_total", {{"node", "a"}}), 7.0);
  EXPECT_EQ(text.value("hearth_failed_total"), 1.0);
  const Exposition empty(metrics.expose(SwarmStatus()));
  EXPECT_EQ(empty.value("hearth_kv_cache_usage_perc"), 0.0);
  EXPECT_EQ(empty.value("hearth_layer_replicas_min", {{"model", "tiny"}}), 0.0);
}

TEST(MetricsTest, ALayerThatNobodyServesCountsAsNone) {
  SwarmStatus status;
  status.nodes = {node("b", "serving", {2, 4}), node("a", "loading", {0, 2})};
  const Metrics metrics("v", "m");
  EXPECT_EQ(Exposition(metrics.expose(status)).value("hearth_layer_replicas_min", {{"model", "m"}}),
            0.0);
}

TEST(MetricsTest, ObservationsFallIntoTheirBuckets) {
  Metrics metrics("v", "m");
  for (const double seconds : {0.0005, 0.001, 0.0011, 5000.0}) metrics.first_token(seconds);
  metrics.next_token(0.01);
  metrics.queued(1);
  metrics.prefilled(2);
  metrics.finished({"stop", 6, 5, 3, 100, 31, 1'000'000, 2});
  const Exposition text(metrics.expose({}));
  const std::string name = "hearth_time_to_first_token_seconds";
  EXPECT_EQ(text.value(name + "_bucket", {{"le", "0.001"}}), 2.0) << "the bound belongs to it";
  EXPECT_EQ(text.value(name + "_bucket", {{"le", "0.005"}}), 3.0);
  EXPECT_EQ(text.value(name + "_bucket", {{"le", "+Inf"}}), 4.0);
  EXPECT_EQ(text.value("hearth_inter_token_latency_seconds_bucket", {{"le", "0.01"}}), 1.0);
  EXPECT_EQ(text.value("hearth_request_queue_time_seconds_sum"), 1.0);
  EXPECT_EQ(text.value("hearth_request_prefill_time_seconds_sum"), 2.0);
  EXPECT_EQ(text.value("hearth_request_decode_time_seconds_sum"), 3.0);
  EXPECT_EQ(text.value("hearth_request_inference_time_seconds_sum"), 5.0);
  EXPECT_EQ(text.value("hearth_e2e_request_latency_seconds_sum"), 6.0);
  EXPECT_DOUBLE_EQ(text.value("hearth_request_time_per_output_token_seconds_sum"), 0.1);
  EXPECT_EQ(text.value("hearth_request_prompt_tokens_bucket", {{"le", "50"}}), 0.0);
  EXPECT_EQ(text.value("hearth_request_prompt_tokens_bucket", {{"le", "100"}}), 1.0);
  EXPECT_EQ(text.value("hearth_request_generation_tokens_sum"), 31.0);
  EXPECT_EQ(text.value("hearth_request_params_n_bucket", {{"le", "1"}}), 0.0);
  EXPECT_EQ(text.value("hearth_request_params_n_bucket", {{"le", "2"}}), 1.0);
  EXPECT_EQ(text.value("hearth_request_params_max_tokens_bucket", {{"le", "500000"}}), 0.0);
}

TEST(MetricsTest, ASequenceOfOneTokenHasNoTimeBetweenTokens) {
  Metrics metrics("v", "m");
  metrics.finished({"length", 1, 1, 0, 5, 1, 1, 1});
  const Exposition text(metrics.expose({}));
  EXPECT_EQ(text.value("hearth_request_time_per_output_token_seconds_count"), 0.0);
  EXPECT_EQ(text.value("hearth_request_generation_tokens_count"), 1.0);
}

// What vLLM's boards choose their series by, and the names that they ask for.
TEST(MetricsTest, FamiliesOfVllmNameTheirModel) {
  const Metrics metrics("v", "tiny");
  const Exposition text(metrics.expose(busy_swarm()));
  for (const char* name :
       {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
        "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total",
        "request_success_total", "time_to_first_token_seconds", "inter_token_latency_seconds",
        "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
        "request_queue_time_seconds", "request_inference_time_seconds",
        "request_prefill_time_seconds", "request_decode_time_seconds", "request_prompt_tokens",
        "request_generation_tokens", "request_params_max_tokens", "request_params_n"}) {
    const auto family = text.families.find(std::string("hearth_") + name);
    ASSERT_NE(family, text.families.end()) << name;
    for (const auto& sample : family->second.samples) {
      EXPECT_EQ(sample.labels.at("model_name"), "tiny") << name;
    }
  }
}

TEST(MetricsTest, TheMeanFollowsFinishedRequests) {
  Metrics metrics("v", "m");
  EXPECT_EQ(metrics.mean_request_seconds(), 1.0);
  metrics.finished({"length", 6.0});
  EXPECT_DOUBLE_EQ(metrics.mean_request_seconds(), 2.0);
  for (int i = 0; i < 200; ++i) metrics.finished({"stop", 10.0});
  EXPECT_NEAR(metrics.mean_request_seconds(), 10.0, 1e-9);
  const Exposition text(metrics.expose({}));
  EXPECT_EQ(text.value("hearth_request_success_total", {{"finished_reason", "stop"}}), 200.0);
  EXPECT_EQ(text.value("hearth_request_success_total", {{"finished_reason", "length"}}), 1.0);
}

TEST(MetricsTest, NamesThatNeedEscapesAreEscaped) {
  const std::string model = "a\"b\\c\nd {x=\"y\"} 1";
  const Metrics metrics("v", model);
  const Exposition text(metrics.expose(busy_swarm()));
  EXPECT_EQ(joined(text.errors), "");
  EXPECT_EQ(text.value("hearth_layer_replicas_min", {{"model", model}}), 2.0);
}

TEST(MetricsTest, ThreadsLoseNothing) {
  Metrics metrics("v", "m");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.answered(i % 2 == 0 ? 200 : 404);
        metrics.finished({"stop", 0.1});
        if (i % 100 == 0) {
          EXPECT_FALSE(metrics.expose({}).empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Exposition text(metrics.expose({}));
  EXPECT_EQ(joined(text.errors), "");
  EXPECT_EQ(text.value("hearth_http_answers_total", {{"status", "404"}}), 1000.0);
  EXPECT_EQ(text.value("hearth_request_success_total", {{"finished_reason", "stop"}}), 2000.0);
}

}  // namespace
}  // namespace hearth::coordinator::http
