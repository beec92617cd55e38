#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/limits.h"
#include "cli/bench/bench.h"
#include "cli/models/models.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/worker/device.h"
#include "cli/worker/known_answers.h"
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/thread_pins.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"
#include "proto/split.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

// One line of the table: a prefill of n_prompt tokens, or a decode of n_gen tokens in each of
// `batch` sequences.
struct Row {
  std::uint32_t n_prompt = 0;
  std::uint32_t n_gen = 0;
  std::uint32_t batch = 1;
  std::uint32_t threads = 1;
  double load_seconds = 0.0;        // of the model
  std::vector<double> nanoseconds;  // one a repetition
  std::uint32_t prompt() const { return std::max(1U, n_prompt); }
  std::uint32_t answer() const { return n_gen > 0 ? n_gen + 1 : 1; }
  double tokens() const {
    return static_cast<double>(n_gen > 0 ? n_gen * batch : n_prompt * batch);
  }
};

std::vector<TokenId> token_run(std::uint32_t count, std::uint32_t vocabulary, std::uint32_t salt) {
  std::vector<TokenId> tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>((i * 7919ULL + salt * 104729ULL) % vocabulary);
  }
  return tokens;
}

// Runs `row` once and says how long the measured part took.
Result<double> run_once(node::LocalRunner& runner, const Row& row, std::uint64_t& next_id) {
  std::uint32_t running = row.batch;
  std::uint32_t begun = 0;
  SteadyClock::time_point start = SteadyClock::now();
  Status failed = ok_status();
  for (std::uint32_t i = 0; i < row.batch; ++i) {
    SequenceOpen open;
    open.sequence = SequenceId(next_id++);
    const std::uint32_t prompt = row.prompt();
    open.prompt_tokens = prompt;
    open.sampling.temperature = 0.0F;
    open.sampling.max_tokens = row.answer();
    bool first = true;
    node::LocalRunner::Events events;
    events.on_token = [&, first](const SampledToken& token) mutable {
      if (token.finish == FinishReason::kError) {
        failed =
            Error{token.error, "the engine failed on position " + std::to_string(token.position)};
      }
      // Decode is timed from the moment the last sequence has its first token.
      if (first && row.n_gen > 0 && ++begun == row.batch) start = SteadyClock::now();
      first = false;
      if (token.finish != FinishReason::kNone) --running;
    };
    TRY_VOID(runner.submit(open, token_run(prompt, runner.spec().vocabulary, i), events));
  }
  while (running > 0) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    TRY(bool stepped, runner.step());
    if (!failed.ok()) return std::move(failed).error();
    if (!stepped && running > 0)
      return Error{ErrorCode::kNoCapacity, "the engine stopped although the answer is incomplete"};
  }
  const std::chrono::duration<double, std::nano> taken = SteadyClock::now() - start;
  bool more = true;
  while (more) {  // the steps that free the KV pages of the sequences
    TRY(more, runner.step());
  }
  return taken.count();
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

struct Statistics {
  double average_ns = 0.0;
  double deviation_ns = 0.0;
  double average_rate = 0.0;
  double deviation_rate = 0.0;
};

Statistics statistics(const Row& row) {
  const auto mean_and_deviation = [](const std::vector<double>& values) {
    double mean = 0.0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    double variance = 0.0;
    for (const double value : values) variance += (value - mean) * (value - mean);
    const double count = static_cast<double>(values.size());
    return std::pair(mean, count > 1 ? std::sqrt(variance / (count - 1)) : 0.0);
  };
  std::vector<double> rates;
  for (const double ns : row.nanoseconds) rates.push_back(row.tokens() / ns * 1e9);
  Statistics result;
  std::tie(result.average_ns, result.deviation_ns) = mean_and_deviation(row.nanoseconds);
  std::tie(result.average_rate, result.deviation_rate) = mean_and_deviation(rates);
  return result;
}

nlohmann::ordered_json json_row(const Row& row, const model::ModelSpec& spec,
                                const std::string& file, std::uint64_t bytes, std::string_view isa,
                                std::uint32_t stages) {
  const Statistics figures = statistics(row);
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%FT%TZ", std::gmtime(&now));
  nlohmann::ordered_json json;
  json["build_number"] = HEARTH_VERSION;
  json["cpu_info"] = cpu_name();
  json["backends"] = isa;
  json["model_filename"] = file;
  json["model_type"] = spec.name;
  json["model_size"] = bytes;
  json["model_n_params"] = spec.parameters;
  json["load_seconds"] = row.load_seconds;
  json["n_threads"] = row.threads;
  json["n_stages"] = stages;
  json["n_parallel"] = row.batch;
  json["n_prompt"] = row.n_prompt;
  json["n_gen"] = row.n_gen;
  json["test_time"] = time;
  json["avg_ns"] = static_cast<std::uint64_t>(figures.average_ns);
  json["stddev_ns"] = static_cast<std::uint64_t>(figures.deviation_ns);
  json["avg_ts"] = figures.average_rate;
  json["stddev_ts"] = figures.deviation_rate;
  json["samples_ns"] = nlohmann::json::array();
  json["samples_ts"] = nlohmann::json::array();
  for (const double ns : row.nanoseconds) {
    json["samples_ns"].push_back(static_cast<std::uint64_t>(ns));
    json["samples_ts"].push_back(row.tokens() / ns * 1e9);
  }
  return json;
}

std::vector<Row> rows_of(const BenchModelOptions& options, std::uint32_t threads) {
  std::vector<Row> rows;
  for (const std::uint32_t prompt : options.prompt) {
    if (prompt > 0) rows.push_back({prompt, 0, 1, threads, 0.0, {}});
  }
  for (const std::uint32_t generate : options.generate) {
    for (const std::uint32_t batch : options.batch) {
      if (generate > 0) rows.push_back({0, generate, batch, threads, 0.0, {}});
    }
  }
  return rows;
}

// Room for every row: of pages, and of states where sequences keep them.
Status make_room(const model::GgufFile& file, const std::vector<Row>& rows,
                 node::LocalOptions& local) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(file));
  std::uint64_t pages = 1;
  local.sequences = 1;
  for (const Row& row : rows) {
    const std::uint32_t positions = std::min(row.prompt() + row.answer(), spec.context);
    pages = std::max(pages, std::uint64_t{row.batch} * pages_for(positions, kernels::kPageTokens));
    local.sequences = std::max(local.sequences, row.batch);
  }
  local.kv_budget_bytes = std::max<std::uint64_t>(
      local.kv_budget_bytes, node::kv_budget_of(spec, {0, spec.layers}, pages, local.sequences));
  return ok_status();
}

Status measure_model(const BenchModelOptions& options,
                     const std::shared_ptr<const model::GgufFile>& file,
                     const kernels::Kernels* kernels, node::Device* device, std::uint32_t threads,
                     const std::function<void(const Row&)>& report) {
  node::LocalOptions local;
  local.stages = options.stages;
  local.threads = threads;
  local.kernels = kernels;
  if (device != nullptr) local.devices = {device};
  local.pin = options.pin;
  if (options.pin) TRY_VOID(kernels::check_pins(threads));
  local.memory_bytes = options.memory_bytes;
  local.prefill_rows = limits::kBatchRows;
  TRY_VOID(make_room(*file, rows_of(options, threads), local));
  const auto start = SteadyClock::now();
  TRY(auto runner, node::LocalRunner::load(file, local));
  const std::chrono::duration<double> load = SteadyClock::now() - start;
  std::uint64_t next_id = 1;
  for (Row& row : rows_of(options, threads)) {
    row.load_seconds = load.count();
    TRY([[maybe_unused]] double warm, run_once(*runner, row, next_id));
    for (std::uint32_t i = 0; i < options.repetitions; ++i) {
      TRY(double ns, run_once(*runner, row, next_id));
      row.nanoseconds.push_back(ns);
    }
    report(row);
  }
  return ok_status();
}

}  // namespace

int run_bench_model(const BenchModelOptions& options) {
  catch_interrupts();
  if (const int code = check_known_answers(); code != kExitDone) return code;
  auto path = resolve_model(options.model);
  if (!path.ok()) return fail(path.error());
  auto file = model::GgufFile::open(path->string());
  if (!file.ok()) return fail(file.error());
  auto spec = model::ModelSpec::read(**file);
  if (!spec.ok()) return fail(spec.error());
  Result<const kernels::Kernels*> kernels = options.kernels;
  if (options.kernels == nullptr) kernels = kernels::select_kernels();
  if (!kernels.ok()) return fail(kernels.error());
  const auto device = open_device(options.device, **file, *spec, whole_model(*spec), {});
  if (!device.ok()) return fail(device.error());
  const std::string isa((*device) != nullptr ? (*device)->name() : (*kernels)->name);

  std::vector<std::uint32_t> threads = options.threads;
  if (threads.empty()) threads.push_back(std::max(1U, std::thread::hardware_concurrency()));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (!options.json) {
    std::printf("%-24s %9s %9s %8s %8s %10s %22s\n", "model", "size", "isa", "threads", "batch",
                "test", "tokens/s");
  }
  for (const std::uint32_t count : threads) {
    auto status =
        measure_model(options, *file, *kernels, device->get(), count, [&](const Row& row) {
          all.push_back(
              json_row(row, *spec, path->string(), (*file)->file_bytes(), isa, options.stages));
          if (options.json) return;
          const Statistics figures = statistics(row);
          const std::string test = row.n_gen > 0 ? "tg" + std::to_string(row.n_gen)
                                                 : "pp" + std::to_string(row.n_prompt);
          std::printf("%-24.24s %9s %9s %8u %8u %10s %12.2f ± %7.2f\n",
                      escape_control(spec->name).c_str(),
                      format_bytes((*file)->file_bytes()).c_str(), isa.c_str(), row.threads,
                      row.batch, test.c_str(), figures.average_rate, figures.deviation_rate);
          std::fflush(stdout);
        });
    if (!status.ok()) return fail(status.error());
  }
  if (options.json) {
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    std::printf("%s\n", escape_json(all.dump(2, ' ', false, kReplace)).c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
