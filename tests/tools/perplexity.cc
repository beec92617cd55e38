#include "tests/tools/perplexity.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/models/models.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "model/text/tokenizer.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"
#include "proto/split.h"
#include "tests/tools/perplexity_figures.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::uint32_t kDefaultContext = 512;

// A text as windows of `shape.context` tokens, with what they are compared with.
struct Windows {
  model::LogitsShape shape;
  std::vector<TokenId> tokens;  // of all windows, as the text has them
  TokenId bos = -1;             // takes the first place of each window; -1: none does
  std::shared_ptr<const model::LogitsBase> base;
  std::unique_ptr<model::LogitsWriter> writer;
};

// Scores the second half of the window that runs. Rows come from all threads at once and each
// fills its own place, so that the figures do not depend on their order.
class Scorer final : public node::LogitsObserver {
 public:
  explicit Scorer(const Windows& windows)
      : windows_(windows), scores_(windows.shape.rows_per_chunk()) {}

  bool wants(SequenceId, Position position) const override {
    return position >= windows_.shape.first_scored() && position + 1 < windows_.shape.context;
  }

  void on_logits(SequenceId, Position position, std::span<const float> logits) override {
    const std::uint32_t row = position - windows_.shape.first_scored();
    auto status = put(row, position, logits);
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (failed_.ok()) failed_ = std::move(status);
  }

  void begin(std::uint32_t chunk) { chunk_ = chunk; }
  const std::vector<Score>& scores() const { return scores_; }
  const Status& status() const { return failed_; }

 private:
  Status put(std::uint32_t row, Position position, std::span<const float> logits) {
    const std::size_t at = std::size_t{chunk_} * windows_.shape.context + position;
    std::optional<model::LogitsRow> base;
    if (windows_.base != nullptr) {
      TRY(base, windows_.base->row(chunk_, row));
    }
    auto score = score_position(logits, windows_.tokens[at + 1], base ? &*base : nullptr);
    if (!score.ok()) {
      return Error{score.error().code, "window " + std::to_string(chunk_ + 1) + ", position " +
                                           std::to_string(position) + ": " + score.error().message};
    }
    scores_[row] = *score;
    if (windows_.writer != nullptr) return windows_.writer->put(chunk_, row, logits);
    return ok_status();
  }

  const Windows& windows_;
  std::vector<Score> scores_;
  std::uint32_t chunk_ = 0;
  std::mutex mutex_;
  Status failed_ = ok_status();
};

Result<std::string> read_corpus(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, path + ": cannot open the text"};
  std::string text(limits::kTextBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return Error{ErrorCode::kIo, path + ": cannot read the text"};
  text.resize(static_cast<std::size_t>(file.gcount()));
  REQUIRE(text.size() <= limits::kTextBytes,
          path + " has more than " + std::to_string(limits::kTextBytes) + " bytes");
  if (text.ends_with('\n')) text.pop_back();  // as llama.cpp does with a file
  return text;
}

// The base's own tokens are evaluated; the text only proves that they are its.
Status check_base(const model::LogitsBase& base, const std::vector<TokenId>& text,
                  std::uint32_t vocabulary, std::uint32_t context) {
  REQUIRE(base.shape().vocabulary == vocabulary,
          "the base has a vocabulary of " + std::to_string(base.shape().vocabulary) +
              ", the model one of " + std::to_string(vocabulary));
  REQUIRE(context == 0 || context == base.shape().context,
          "-c is " + std::to_string(context) + ", the base was written with " +
              std::to_string(base.shape().context));
  REQUIRE(text.size() >= base.tokens().size(), "the text has " + std::to_string(text.size()) +
                                                   " tokens, the base " +
                                                   std::to_string(base.tokens().size()));
  const auto [other, own] = std::mismatch(base.tokens().begin(), base.tokens().end(), text.begin());
  REQUIRE(other == base.tokens().end(), "token " + std::to_string(own - text.begin()) +
                                            " of the text is " + std::to_string(*own) +
                                            ", that of the base is " + std::to_string(*other));
  return ok_status();
}

Result<Windows> make_windows(const PerplexityOptions& options, const model::GgufFile& file,
                             const model::ModelSpec& spec) {
  TRY(const auto tokenizer, model::Tokenizer::load(file));
  TRY(const std::string text, read_corpus(options.text));
  Windows windows;
  TRY(windows.tokens, tokenizer->encode(text, model::SpecialTokens::kText, true));
  windows.bos = tokenizer->adds_bos() ? tokenizer->bos() : -1;
  model::LogitsShape& shape = windows.shape;
  shape.context = options.context > 0 ? options.context : kDefaultContext;
  shape.vocabulary = spec.vocabulary;
  if (!options.kl_base.empty()) {
    TRY(windows.base, model::LogitsBase::open(options.kl_base));
    TRY_VOID(check_base(*windows.base, windows.tokens, spec.vocabulary, options.context));
    shape.context = windows.base->shape().context;
    windows.tokens = windows.base->tokens();
  }
  REQUIRE(shape.context <= spec.context, "windows of " + std::to_string(shape.context) +
                                             " tokens, the model's context has " +
                                             std::to_string(spec.context));
  shape.chunks = static_cast<std::uint32_t>(windows.tokens.size() / shape.context);
  if (options.chunks > 0) shape.chunks = std::min(shape.chunks, options.chunks);
  REQUIRE(shape.chunks > 0, "the text has " + std::to_string(windows.tokens.size()) +
                                " tokens, a window has " + std::to_string(shape.context));
  TRY_VOID(model::validate(shape));
  windows.tokens.resize(shape.tokens());
  if (!options.save_base.empty()) {
    TRY(windows.writer, model::LogitsWriter::create(options.save_base, shape, windows.tokens));
  }
  return windows;
}

Result<std::unique_ptr<node::LocalRunner>> load(const PerplexityOptions& options,
                                                std::shared_ptr<const model::GgufFile> file,
                                                const model::ModelSpec& spec, std::uint32_t context,
                                                Scorer& scorer) {
  node::LocalOptions local;
  local.threads =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  local.batch_rows = limits::kBatchRows;
  local.prefill_rows = limits::kBatchRows;
  local.sequences = 1;
  local.kv_budget_bytes =
      node::kv_budget_of(spec, {0, spec.layers}, pages_for(context, kernels::kPageTokens), 1);
  local.logits = &scorer;
  return node::LocalRunner::load(std::move(file), local);
}

// The last token of a window is only predicted, never read.
Status run_window(node::LocalRunner& runner, const Windows& windows, std::uint32_t chunk) {
  const auto begin =
      windows.tokens.begin() + static_cast<std::ptrdiff_t>(chunk) * windows.shape.context;
  std::vector<TokenId> prompt(begin, begin + windows.shape.context - 1);
  if (windows.bos >= 0) prompt.front() = windows.bos;
  SequenceOpen open;
  open.sequence = SequenceId(chunk + 1);
  open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  open.sampling.temperature = 0.0F;
  open.sampling.max_tokens = 1;
  Status failed = ok_status();
  node::LocalRunner::Events events;
  events.on_token = [&](const SampledToken& token) {
    if (token.finish != FinishReason::kError) return;
    failed = Error{token.error, "the engine failed in window " + std::to_string(chunk + 1) + " (" +
                                    std::string(error_code_name(token.error)) + ")"};
  };
  TRY_VOID(runner.submit(open, std::move(prompt), events));
  for (bool more = true; more;) {  // to the end of its release
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    TRY(more, runner.step());
  }
  return failed;
}

Result<std::vector<Score>> score_windows(
    node::LocalRunner& runner, const Windows& windows, Scorer& scorer,
    const std::function<void(std::uint32_t, const std::vector<Score>&)>& report) {
  std::vector<Score> all;
  all.reserve(std::size_t{windows.shape.chunks} * scorer.scores().size());
  for (std::uint32_t chunk = 0; chunk < windows.shape.chunks; ++chunk) {
    scorer.begin(chunk);
    TRY_VOID(run_window(runner, windows, chunk));
    if (!scorer.status().ok()) return scorer.status().error();
    all.insert(all.end(), scorer.scores().begin(), scorer.scores().end());
    report(chunk + 1, all);
  }
  return all;
}

nlohmann::ordered_json json_of(const PerplexityOptions& options, const Windows& windows,
                               const std::vector<Score>& scores) {
  const Perplexity perplexity = perplexity_of(scores);
  nlohmann::ordered_json json;
  json["model"] = options.model;
  json["perplexity"] = perplexity.value;
  json["perplexity_error"] = perplexity.error;
  json["tokens"] = scores.size();
  json["chunks"] = windows.shape.chunks;
  json["context"] = windows.shape.context;
  if (windows.base == nullptr) return json;
  const Divergence figures = divergence_of(scores);
  json["base_perplexity"] = figures.base.value;
  json["base_perplexity_error"] = figures.base.error;
  json["log_ratio"] = figures.log_ratio.mean;
  json["log_ratio_error"] = figures.log_ratio.error;
  json["mean_kl"] = figures.mean.mean;
  json["mean_kl_error"] = figures.mean.error;
  json["median_kl"] = figures.median;
  json["p99_kl"] = figures.p99;
  json["max_kl"] = figures.largest;
  json["same_top"] = figures.same_top;
  json["mean_p_delta"] = figures.p_delta.mean;
  json["mean_p_delta_error"] = figures.p_delta.error;
  json["rms_p_delta"] = figures.rms_p_delta;
  return json;
}

void print_figures(const Windows& windows, const std::vector<Score>& scores) {
  const Perplexity perplexity = perplexity_of(scores);
  std::printf("\nFinal estimate: PPL = %.4f +/- %.5f\n", perplexity.value, perplexity.error);
  if (windows.base == nullptr) return;
  const Divergence figures = divergence_of(scores);
  std::printf("Mean PPL(base)               : %.4f +/- %.5f\n", figures.base.value,
              figures.base.error);
  std::printf("Mean ln(PPL/PPL(base))       : %.6f +/- %.6f\n", figures.log_ratio.mean,
              figures.log_ratio.error);
  std::printf("KL divergence from base, mean: %.6e +/- %.1e\n", figures.mean.mean,
              figures.mean.error);
  std::printf("KL median, 99 %%, largest     : %.6e, %.6e, %.6e\n", figures.median, figures.p99,
              figures.largest);
  std::printf("Same top token               : %.3f %%\n", figures.same_top * 100.0);
  std::printf("Probability change, mean, rms: %.4f %% +/- %.4f, %.4f %%\n",
              figures.p_delta.mean * 100.0, figures.p_delta.error * 100.0,
              figures.rms_p_delta * 100.0);
}

// The running value: on stdout, as llama-perplexity prints it; with --json on a terminal's stderr.
void report(const PerplexityOptions& options, std::uint32_t chunk, std::uint32_t chunks,
            const std::vector<Score>& scores, SteadyClock::time_point begun) {
  const double value = perplexity_of(scores).value;
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  const double left = seconds / chunk * (chunks - chunk);
  if (!options.json) {
    std::printf("[%u]%.4f,", chunk, value);
    std::fflush(stdout);
    if (chunk == 1)
      std::fprintf(stderr, "%.2f seconds a window, %.1f minutes\n", seconds, left / 60);
  } else if (::isatty(STDERR_FILENO) != 0) {
    std::fprintf(stderr, "\r%u of %u windows, perplexity %.4f, %.0f s left \x1b[K%s", chunk, chunks,
                 value, left, chunk == chunks ? "\n" : "");
  }
}

Status measure(const PerplexityOptions& options) {
  TRY(const auto path, resolve_model(options.model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const Windows windows, make_windows(options, *file, spec));
  Scorer scorer(windows);
  TRY(const auto runner, load(options, file, spec, windows.shape.context, scorer));
  const SteadyClock::time_point begun = SteadyClock::now();
  TRY(const std::vector<Score> scores,
      score_windows(*runner, windows, scorer,
                    [&](std::uint32_t chunk, const std::vector<Score>& so_far) {
                      report(options, chunk, windows.shape.chunks, so_far, begun);
                    }));
  if (windows.writer != nullptr) TRY_VOID(windows.writer->finish());
  if (options.json) {
    std::printf("%s\n", json_of(options, windows, scores).dump(2).c_str());
  } else {
    print_figures(windows, scores);
  }
  return ok_status();
}

}  // namespace

int run_perplexity(const PerplexityOptions& options) {
  catch_interrupts();
  const Status measured = measure(options);
  return measured.ok() ? kExitDone : fail(measured.error());
}

void add_perplexity(CLI::App& app, Action& action) {
  auto o = std::make_shared<PerplexityOptions>();
  CLI::App* verb = app.add_subcommand(
      "perplexity", "How well a model predicts a text, by llama-perplexity's definition");
  verb->add_option("model", o->model, "file or pulled name")->required();
  verb->add_option("text", o->text, "the text's file")->required();
  verb->add_option("-c,--ctx-size", o->context,
                   "tokens of a window, whose second half is scored (default: 512)")
      ->check(whole_number(4, limits::kModelContext));
  verb->add_option("--chunks", o->chunks, "windows at most (0: all)")
      ->check(whole_number(0, limits::kTextBytes))
      ->capture_default_str();
  verb->add_option("-t,--threads", o->threads, "compute threads (0: all cores)")
      ->check(whole_number(0, limits::kComputeThreads))
      ->capture_default_str();
  verb->add_option("--kl-base", o->kl_base,
                   "compare with the log probabilities in this file, as llama-perplexity's "
                   "--kl-divergence-base writes it");
  verb->add_option("--save-base", o->save_base, "write such a file");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, &action] { action = [o] { return run_perplexity(*o); }; });
}

}  // namespace hearth::cli
