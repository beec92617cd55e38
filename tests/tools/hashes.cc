#include "tests/tools/hashes.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/models/models.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/worker/device.h"
#include "kernels/canonical.h"
#include "model/text/tokenizer.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"
#include "proto/split.h"

namespace hearth::cli {
namespace {

// Boundary b lies before layer b: 0 is the token read, the number of layers the token said.
using Boundary = std::map<Position, Hash256>;
struct Run {
  std::uint32_t prompt_tokens = 0;
  std::vector<TokenId> generated;
  std::map<std::uint32_t, Boundary> boundaries;
};

Hash256 digest_of(const Boundary& boundary) {
  Blake2b digest;
  for (const auto& [position, hash] : boundary) digest.update(hash.bytes);
  return digest.finish();
}

Hash256 digest_of(const Run& run) {
  Blake2b digest;
  for (const auto& [index, boundary] : run.boundaries) digest.update(digest_of(boundary).bytes);
  return digest.finish();
}

Result<std::vector<TokenId>> prompt_of(const HashesOptions& options, const model::GgufFile& file,
                                       const model::ModelSpec& spec) {
  if (!options.prompt.empty()) {
    TRY(const auto tokenizer, model::Tokenizer::load(file));
    return tokenizer->encode(options.prompt, model::SpecialTokens::kText, true);
  }
  std::vector<TokenId> tokens(options.tokens);
  for (std::uint32_t i = 0; i < options.tokens; ++i) {
    tokens[i] = static_cast<TokenId>((i * 7919ULL + 104729ULL) % spec.vocabulary);
  }
  return tokens;
}

Result<std::unique_ptr<node::LocalRunner>> load(const HashesOptions& options,
                                                std::shared_ptr<const model::GgufFile> file,
                                                const model::ModelSpec& spec, node::Device* device,
                                                std::size_t positions) {
  node::LocalOptions local;
  local.stages = options.stages > 0 ? options.stages : spec.layers;
  local.threads =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(positions, spec.context));
  local.sequences = 1;
  local.kv_budget_bytes =
      node::kv_budget_of(spec, {0, spec.layers}, pages_for(most, kernels::kPageTokens), 1);
  TRY(local.kernels, kernels::select_kernels());
  if (device != nullptr) local.devices = {device};
  const std::string isa(device != nullptr ? device->name() : local.kernels->name);
  std::fprintf(stderr, "%s, %u threads, %u stages\n", isa.c_str(), local.threads, local.stages);
  return node::LocalRunner::load(std::move(file), local);
}

Result<Run> run_of(const HashesOptions& options) {
  TRY(const auto path, resolve_model(options.model));
  TRY(const auto file, model::GgufFile::open(path.string()));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(std::vector<TokenId> prompt, prompt_of(options, *file, spec));
  TRY(const auto device, open_device(options.device, *file, spec, whole_model(spec), {}));
  TRY(const auto runner, load(options, file, spec, device.get(), prompt.size() + options.generate));
  Run run;
  run.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  SequenceOpen open;
  open.sequence = SequenceId(1);
  open.prompt_tokens = run.prompt_tokens;
  open.report_hashes = true;
  open.sampling.temperature = 0.8F;  // sampling is part of the function
  open.sampling.seed = 1;
  open.sampling.max_tokens = options.generate;
  Status failed = ok_status();
  node::LocalRunner::Events events;
  events.on_token = [&](const SampledToken& token) {
    if (token.finish == FinishReason::kError) {
      failed =
          Error{token.error, "the engine failed at position " + std::to_string(token.position)};
    } else {
      run.generated.push_back(token.token);
    }
  };
  events.on_hash = [&](const RowHash& hash) {
    run.boundaries[hash.layers.begin].emplace(hash.position, hash.in);
    run.boundaries[hash.layers.end].emplace(hash.position, hash.out);
  };
  TRY_VOID(runner->submit(open, std::move(prompt), events));
  for (bool more = true; more;) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    TRY(more, runner->step());
  }
  TRY_VOID(std::move(failed));
  return run;
}

nlohmann::ordered_json json_of(const HashesOptions& options, const Run& run) {
  nlohmann::ordered_json json;
  json["canonical"] = kernels::kCanonicalVersion;
  json["prompt_tokens"] = run.prompt_tokens;
  json["generated"] = run.generated;
  json["boundaries"] = nlohmann::json::array();
  for (const auto& [index, boundary] : run.boundaries) {
    nlohmann::ordered_json one;
    one["layer"] = index;
    one["digest"] = digest_of(boundary).hex();
    if (options.each) {
      for (const auto& [position, hash] : boundary) one["hashes"].push_back(hash.hex());
    }
    json["boundaries"].push_back(std::move(one));
  }
  json["digest"] = digest_of(run).hex();
  return json;
}

void print(const HashesOptions& options, const Run& run) {
  std::printf("canonical %u, %u prompt tokens\n", kernels::kCanonicalVersion, run.prompt_tokens);
  std::printf("generated");
  for (const TokenId token : run.generated) std::printf(" %d", token);
  std::printf("\n");
  for (const auto& [index, boundary] : run.boundaries) {
    if (options.each) {
      for (const auto& [position, hash] : boundary) {
        std::printf("layer %u position %u %s\n", index, position, hash.hex().c_str());
      }
    }
    std::printf("layer %u %s\n", index, digest_of(boundary).hex().c_str());
  }
  std::printf("digest %s\n", digest_of(run).hex().c_str());
}

}  // namespace

int run_hashes(const HashesOptions& options) {
  catch_interrupts();
  const auto run = run_of(options);
  if (!run.ok()) return fail(run.error());
  if (options.json) {
    std::printf("%s\n", json_of(options, *run).dump(2).c_str());
  } else {
    print(options, *run);
  }
  return kExitDone;
}

void add_hashes(CLI::App& app, Action& action) {
  auto o = std::make_shared<HashesOptions>();
  CLI::App* verb = app.add_subcommand(
      "hashes", "The canonical hashes of a fixed run: equal on every machine, thread and split");
  verb->add_option("model", o->model, "file or pulled name")->required();
  CLI::Option* prompt = verb->add_option("-p,--prompt", o->prompt, "a prompt's text")
                            ->check(text_within(limits::kTextBytes));
  verb->add_option("--tokens", o->tokens, "instead of a prompt, so many fixed token ids")
      ->check(whole_number(1, limits::kModelContext))
      ->excludes(prompt)
      ->capture_default_str();
  verb->add_option("-n,--n-gen", o->generate, "tokens to generate, temperature 0.8, seed 1")
      ->check(whole_number(1, limits::kModelContext))
      ->capture_default_str();
  verb->add_option(
          "--stages", o->stages,
          "split the layers over as many engines and hash between them (0: at every layer)")
      ->check(whole_number(0, limits::kStages))
      ->capture_default_str();
  verb->add_option("-t,--threads", o->threads, "compute threads (0: all cores)")
      ->check(whole_number(0, limits::kComputeThreads))
      ->capture_default_str();
  verb->add_option("--device", o->device, "device")->check(device_text())->capture_default_str();
  verb->add_flag("--each", o->each, "print every hash, not only one digest of each boundary");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, &action] { action = [o] { return run_hashes(*o); }; });
}

}  // namespace hearth::cli
