#include "cli/ledger/reexecute.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "cli/models/models.h"
#include "cli/process/build_name.h"
#include "cli/run/answer.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/worker/device.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/requests.h"
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "model/gguf/manifest.h"
#include "node/engine/stage_memory.h"
#include "proto/split.h"

namespace hearth::cli {
namespace {

namespace http = coordinator::http;
using node::ChoiceClaim;
using node::Difference;
using node::Differs;
using SteadyClock = std::chrono::steady_clock;
using Receipts = std::vector<ledger::Receipt>;

// On a terminal, one line that is redrawn; elsewhere, a line from time to time.
class ProgressLines {
 public:
  explicit ProgressLines(std::uint32_t choices) : choices_(choices) {}
  void begin(std::uint32_t choice) { choice_ = choice; }
  void show(std::uint64_t done, std::uint64_t of) {
    const auto now = SteadyClock::now();
    if (now - shown_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) {
      return;
    }
    shown_ = now;
    drawn_ = terminal_;
    std::fprintf(stderr, "%scomputing again: choice %u of %u, position %llu of %llu%s",
                 terminal_ ? "\r" : "", choice_ + 1, choices_,
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(of),
                 terminal_ ? "\x1b[K" : "\n");
  }
  ~ProgressLines() {
    if (drawn_) std::fprintf(stderr, "\r\x1b[K");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const std::uint32_t choices_;
  std::uint32_t choice_ = 0;
  bool drawn_ = false;
  SteadyClock::time_point shown_ = SteadyClock::now();
};

std::uint16_t choice_of(const ledger::Receipt& receipt) {
  return std::to_integer<std::uint16_t>(receipt.slot.request[15]);
}

bool together(const ledger::Slot& a, const ledger::Slot& b) {
  return a.request == b.request && a.epoch == b.epoch;
}

// For each choice: the receipts of the pipeline that completed it, since its last start.
std::map<std::uint32_t, Receipts> by_choice(const Receipts& receipts) {
  std::map<std::uint32_t, Receipts> out;
  for (const ledger::Receipt& receipt : receipts) {
    Receipts& of = out[choice_of(receipt)];
    if (!of.empty() && !together(of.front().slot, receipt.slot)) of.clear();
    of.push_back(receipt);
  }
  return out;
}

// Everything about the request that is known before it is computed.
struct Prepared {
  http::ServedModel texts;
  http::GenerationInput input;
  std::uint32_t choices() const {
    return static_cast<std::uint32_t>(input.prompts.size()) * input.request.n;
  }
};

Error refused(const http::ApiError& error) {
  return Error::invalid("a server would refuse this request: ", error.message);
}

// `asked`: the unix seconds of the request, which its prompt may state.
Result<Prepared> prepare(const ReexecuteOptions& options, const model::GgufFile& file,
                         const http::Json& body, std::int64_t asked) {
  Prepared out;
  TRY(out.texts, read_texts(file, options.chat_template));
  const http::ModelBounds bounds{out.texts.spec.vocabulary, out.texts.spec.context};
  auto request = body.contains("messages") ? http::parse_chat_request(body, bounds)
                                           : http::parse_completion_request(body, bounds);
  if (!request.ok()) return refused(request.error());
  auto input = http::tokenise(out.texts, std::move(*request), asked);
  if (!input.ok()) return refused(input.error());
  out.input = std::move(*input);
  return out;
}

Difference of_request(std::string text) { return {Differs::kRequest, std::move(text)}; }

// Checks that need no computing.
std::optional<Difference> check_prepared(const Prepared& prepared, const client::SavedAnswer& saved,
                                         const ledger::AnswerName& name,
                                         const std::map<std::uint32_t, Receipts>& receipts) {
  const std::int64_t asked = ledger::asked_at(name);
  if (saved.created && *saved.created != asked) {
    return of_request(message_of("the receipts belong to a request of ", asked,
                                 "; this one was at ", *saved.created, " (seconds since 1970)"));
  }
  const auto& most = prepared.input.request.max_tokens;
  if (most && *most != saved.max_tokens) {
    return of_request(
        message_of("the request allows ", *most, " tokens, its answer says ", saved.max_tokens));
  }
  const auto& seed = prepared.input.request.seed;
  if (seed && *seed != saved.seed) {
    return Difference{Differs::kSampling,
                      message_of("the request has the seed ", static_cast<std::int64_t>(*seed),
                                 ", its answer says ", static_cast<std::int64_t>(saved.seed))};
  }
  const std::uint32_t choices = prepared.choices();
  if (receipts.rbegin()->first >= choices || saved.choices.rbegin()->first >= choices) {
    return of_request("there are receipts or choices beyond the " + std::to_string(choices) +
                      " that this request asks for");
  }
  for (std::uint32_t i = 0; i < choices; ++i) {
    if (receipts.contains(i)) continue;
    return of_request("choice " + std::to_string(i) + " has no receipts");
  }
  return std::nullopt;
}

// The first byte at which a saved text differs from the computed one, or from its beginning.
std::optional<std::size_t> differs_at(const std::string& saved, const std::string& computed,
                                      bool is_whole) {
  const std::string text = http::valid_utf8(computed);  // as JSON has it
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(saved, text).in1 - saved.begin());
  if (at == saved.size() && (!is_whole || saved.size() == text.size())) return std::nullopt;
  return at;
}

// The first saved call that differs from the computed one, or the first missing call.
std::optional<std::size_t> other_call(const std::vector<client::SavedCall>& saved,
                                      const std::vector<http::ToolCallPart>& computed,
                                      bool is_whole) {
  const auto same = [](const client::SavedCall& one, const http::ToolCallPart& other) {
    return one.name == http::valid_utf8(other.name) && one.arguments == other.arguments;
  };
  const auto [at, other] = std::ranges::mismatch(saved, computed, same);
  if (at == saved.end() && (!is_whole || other == computed.end())) return std::nullopt;
  return static_cast<std::size_t>(at - saved.begin());
}

// The texts that the client received must follow from the tokens.
std::optional<Difference> check_shown(const Prepared& prepared, const ChoiceClaim& claim,
                                      const client::SavedChoice& saved,
                                      const std::vector<SampledToken>& tokens) {
  const http::GenerationInput& input = prepared.input;
  const std::size_t prompt = claim.choice / input.request.n;
  http::Choice choice(claim.choice, input.request, input.prompts[prompt],
                      input.request.echo ? input.echoes[prompt] : "", prepared.texts.tokenizer,
                      {prepared.texts.syntax, input.prompt_tail});
  for (const SampledToken& token : tokens) choice.push(token);
  const http::ChoicePart part = choice.part(0);
  const auto differs = [&claim](std::string what) {
    Difference out{Differs::kAnswer,
                   "choice " + std::to_string(claim.choice) + ": " + std::move(what)};
    out.choice = claim.choice;
    return out;
  };
  const bool is_whole = saved.finish_reason.has_value();
  if (is_whole && !choice.done()) {
    return differs(message_of(
        "the log has no receipt of the answer's end, only of its first ", tokens.size(),
        " tokens: the server logs receipts within a second after the answer, and a part has none "
        "when its worker was lost; verify again later"));
  }
  if (is_whole && saved.token_ids && *saved.token_ids != choice.token_ids()) {
    return differs(message_of("the saved answer has ", saved.token_ids->size(),
                              " tokens, the recomputed one has ", choice.token_ids().size()));
  }
  if (const auto at = differs_at(saved.text, part.text, is_whole)) {
    return differs("the saved text does not match the computed tokens; it differs at byte " +
                   std::to_string(*at));
  }
  if (saved.reasoning) {
    if (const auto at = differs_at(*saved.reasoning, part.reasoning, is_whole)) {
      return differs("the saved reasoning does not match the computed tokens; it differs at byte " +
                     std::to_string(*at));
    }
  }
  if (const auto call = other_call(saved.calls, part.tool_calls, is_whole)) {
    return differs("call " + std::to_string(*call) +
                   " of the saved answer does not match the computed tokens");
  }
  if (saved.finish_reason && *saved.finish_reason != choice.finish_reason()) {
    return differs("the saved answer ends with \"" + *saved.finish_reason +
                   "\", the recomputed one with \"" + choice.finish_reason() + "\"");
  }
  return std::nullopt;
}

class Machine {
 public:
  Machine(const ReexecuteOptions& options, std::shared_ptr<const model::GgufFile> file,
          const model::ModelSpec& spec)
      : options_(options), file_(std::move(file)), spec_(spec) {}

  Status open() {
    TRY(device_,
        open_device(options_.device, *file_, spec_, whole_model(spec_), [](std::string_view) {}));
    return ok_status();
  }

  // Loads the engines of this layer split, with room for this many positions; earlier ones are
  // freed.
  Result<node::LocalRunner*> runner(const std::vector<LayerRange>& split, std::uint32_t positions) {
    if (runner_ && split == split_ && positions <= positions_) return runner_.get();
    runner_.reset();
    node::LocalOptions local;
    local.stages = static_cast<std::uint32_t>(split.size());
    local.layers = split;
    local.threads =
        options_.threads > 0 ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    local.memory_bytes = options_.memory_bytes;
    if (device_ != nullptr) local.devices = {device_.get()};
    const std::uint64_t pages = pages_for(positions, kernels::kPageTokens);
    local.kv_budget_bytes = std::max<std::size_t>(
        local.kv_budget_bytes, node::kv_budget_of(spec_, {0, spec_.layers}, pages, 1));
    local.sequences = 1;
    TRY(runner_, node::LocalRunner::load(file_, local));
    split_ = split;
    positions_ = positions;
    return runner_.get();
  }

 private:
  const ReexecuteOptions& options_;
  std::shared_ptr<const model::GgufFile> file_;
  const model::ModelSpec& spec_;
  std::unique_ptr<node::Device> device_;  // null: the processor
  std::unique_ptr<node::LocalRunner> runner_;
  std::vector<LayerRange> split_;
  std::uint32_t positions_ = 0;
};

ChoiceClaim claim_of(const Prepared& prepared, const client::SavedAnswer& saved,
                     std::uint32_t choice, const Receipts& receipts) {
  ChoiceClaim claim;
  claim.choice = choice;
  claim.prompt = prepared.input.prompts[choice / prepared.input.request.n];
  const http::GenerationRequest& request = prepared.input.request;
  claim.sampling = http::sampling_params(request, saved.seed, choice,
                                         request.max_tokens.value_or(saved.max_tokens),
                                         *prepared.texts.tokenizer);
  claim.salt = ledger::choice_salt(saved.salt, receipts.front().slot.request);
  if (const auto found = saved.choices.find(choice); found != saved.choices.end()) {
    claim.answer = found->second.token_ids;
    claim.hashes = found->second.hashes;
  }
  claim.receipts = receipts;
  return claim;
}

// The layers of each stage, from the receipts of at least one window.
std::vector<LayerRange> split_of(const std::vector<ledger::Receipt>& receipts) {
  std::vector<LayerRange> split;
  for (std::uint32_t i = 0; i < receipts.front().stages; ++i) {
    split.push_back({receipts[i].layer_begin, receipts[i].layer_end});
  }
  return split;
}

enum class Known : std::uint8_t { kNot, kByHeader, kByAll };

// A receipt names its model by the file's header when no manifest of it was made, else by the
// manifest.
Result<Known> known_as(const model::GgufFile& file, const Hash256& program) {
  const auto names = [&program](const Hash256& model) {
    return program == ledger::program_id(model, receipt_build(), kernels::kCanonicalVersion);
  };
  if (names(blake2b(as_bytes(file.fingerprint().hex())))) return Known::kByHeader;
  ProgressBar bar("hashing the model", file.file_bytes(), 0);
  TRY(const model::Manifest manifest, model::make_manifest(file, [&bar](std::uint64_t done) {
        bar.set(done);
        return true;
      }));
  bar.finish();
  return names(manifest.id()) ? Known::kByAll : Known::kNot;
}

ReceiptModel another(std::string text) {
  return {node::Difference{node::Differs::kModel, std::move(text)}, false};
}

bool holds_all(const std::vector<LayerRange>& split, std::uint32_t layers) {
  std::uint32_t next = 0;
  for (const LayerRange& range : split) {
    if (range.begin != next || range.end <= range.begin) return false;
    next = range.end;
  }
  return next == layers;
}

}  // namespace

Result<ReceiptModel> check_model(const model::GgufFile& file, const std::string& path,
                                 const model::ModelSpec& spec,
                                 const std::vector<ledger::Receipt>& receipts) {
  const Hash256 program = receipts.front().program;
  for (const ledger::Receipt& receipt : receipts) {
    if (receipt.program == program) continue;
    return another("the receipts are of more than one model or program");
  }
  TRY(const Known known, known_as(file, program));
  if (known == Known::kNot) {
    return another("the receipts are of another model file than " + path +
                   ", or of another version of this program than " + receipt_build());
  }
  if (!holds_all(split_of(receipts), spec.layers)) {
    return another("the receipts' stages do not hold the model's " + std::to_string(spec.layers) +
                   " layers, each once");
  }
  return ReceiptModel{std::nullopt, known == Known::kByHeader};
}

Result<Reexecuted> reexecute(const ReexecuteOptions& options, const client::SavedAnswer& saved,
                             const ledger::AnswerName& name,
                             const std::vector<ledger::Receipt>& receipts) {
  const auto begun = SteadyClock::now();
  Reexecuted out;
  auto body = http::parse_json(saved.request);
  if (!body.ok()) return refused(body.error());
  std::string model = options.model;
  if (model.empty() && body->contains("model") && (*body)["model"].is_string()) {
    model = (*body)["model"];
  }
  REQUIRE(!model.empty(), "the request names no model; give its file with --model");
  TRY(const auto path, resolve_model(model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const ReceiptModel of_file, check_model(*file, path.string(), spec, receipts));
  out.difference = of_file.difference;
  if (out.difference) return out;
  TRY(const Prepared prepared,
      prepare(options, *file, *body, saved.created.value_or(ledger::asked_at(name))));
  const std::map<std::uint32_t, Receipts> choices = by_choice(receipts);
  out.difference = check_prepared(prepared, saved, name, choices);
  out.choices = prepared.choices();
  ProgressLines lines(out.choices);
  const node::RecomputeEvents events{
      [] { return interrupted(); },
      [&lines](std::uint64_t done, std::uint64_t of) { lines.show(done, of); }};
  Machine machine(options, file, spec);
  if (!out.difference) TRY_VOID(machine.open());
  for (auto one = choices.begin(); one != choices.end() && !out.difference; ++one) {
    const auto& [choice, of] = *one;
    const ChoiceClaim claim = claim_of(prepared, saved, choice, of);
    const auto prompt = static_cast<std::uint32_t>(claim.prompt.size());
    const std::uint32_t fed = of.back().first_position + of.back().positions;
    TRY(node::LocalRunner* const runner, machine.runner(split_of(of), std::max(prompt, fed) + 1));
    lines.begin(choice);
    TRY(node::ChoiceChecked found, node::check_choice(*runner, claim, events));
    out.positions += found.positions;
    out.difference = std::move(found.difference);
    const auto shown = saved.choices.find(choice);
    if (!out.difference && shown != saved.choices.end()) {
      out.difference = check_shown(prepared, claim, shown->second, found.tokens);
    }
  }
  if (out.difference && out.difference->what == Differs::kStage && of_file.by_header) {
    out.difference->text += "; or " + path.string() +
                            " may have other weights: the server made no manifest of its model, so "
                            "these receipts identify the model by its header alone";
  }
  out.seconds = std::chrono::duration<double>(SteadyClock::now() - begun).count();
  return out;
}

}  // namespace hearth::cli
