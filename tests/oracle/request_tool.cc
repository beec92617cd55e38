// Runs requests over a GGUF file through the whole pipeline, a stage a layer, for comparison with
// the second implementation of the canonical function (canonical/).
//
//   request_tool FILE.gguf < requests
//
// Input: a JSON object a line. Output: a JSON object a line, with the tokens and the hashes of
// every boundary; log probabilities as the bits of their fp32 numbers.
#include <bit>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf/gguf.h"
#include "node/runner/local_runner.h"

namespace {

using hearth::FinishReason;
using hearth::Result;
using hearth::TokenId;
using hearth::node::LocalRunner;
using nlohmann::json;

hearth::SamplingParams sampling_of(const json& request) {
  hearth::SamplingParams sampling;
  sampling.temperature = request.at("temperature").get<float>();
  sampling.top_k = request.at("top_k").get<std::uint32_t>();
  sampling.top_p = request.at("top_p").get<float>();
  sampling.min_p = request.at("min_p").get<float>();
  sampling.repetition_penalty = request.at("repetition").get<float>();
  sampling.presence_penalty = request.at("presence").get<float>();
  sampling.frequency_penalty = request.at("frequency").get<float>();
  sampling.seed = request.at("seed").get<std::uint64_t>();
  sampling.max_tokens = request.at("max_tokens").get<std::uint32_t>();
  sampling.stop_tokens = request.at("stop").get<std::vector<TokenId>>();
  for (const json& entry : request.at("bias")) {
    const float bias =
        entry.at(1).is_null() ? -std::numeric_limits<float>::infinity() : entry.at(1).get<float>();
    sampling.logit_bias.emplace_back(entry.at(0).get<TokenId>(), bias);
  }
  if (!request.at("top_logprobs").is_null()) {
    sampling.logprobs = true;
    sampling.top_logprobs = request.at("top_logprobs").get<std::uint32_t>();
  }
  return sampling;
}

json token_json(const hearth::SampledToken& token) {
  constexpr const char* kFinish[] = {"", "stop", "length", "error"};
  json top = json::array();
  for (const auto& entry : token.top) {
    top.push_back({entry.token, std::bit_cast<std::uint32_t>(entry.logprob)});
  }
  return {{"position", token.position},
          {"token", token.token},
          {"finish", kFinish[static_cast<int>(token.finish)]},
          {"error", static_cast<int>(token.error)},
          {"logprob", std::bit_cast<std::uint32_t>(token.logprob)},
          {"top", std::move(top)}};
}

Result<json> answer(LocalRunner& runner, std::uint64_t id, const json& request) {
  auto prompt = request.at("prompt").get<std::vector<TokenId>>();
  hearth::SequenceOpen open;
  open.sequence = hearth::SequenceId(id);
  open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  open.report_hashes = true;
  open.sampling = sampling_of(request);
  open.embedding = request.at("embedding").get<std::uint32_t>();
  TRY_VOID(hearth::validate(open.sampling, runner.spec().vocabulary));
  json tokens = json::array();
  json embedding = json::array();
  json hashes = json::array();
  LocalRunner::Events events;
  events.on_token = [&](const auto& token) { tokens.push_back(token_json(token)); };
  events.on_hash = [&](const auto& hash) {
    hashes.push_back(
        {hash.position, hash.layers.begin, hash.layers.end, hash.in.hex(), hash.out.hex()});
  };
  events.on_embedding = [&](const auto& told) {
    for (const float value : told.values) embedding.push_back(std::bit_cast<std::uint32_t>(value));
  };
  TRY_VOID(runner.submit(open, std::move(prompt), events));
  for (bool more = true; more;) {
    TRY(more, runner.step());
  }
  return json{{"tokens", std::move(tokens)},
              {"hashes", std::move(hashes)},
              {"embedding", std::move(embedding)}};
}

Result<std::unique_ptr<LocalRunner>> load(const std::string& path) {
  TRY(const auto file, hearth::model::GgufFile::open(path));
  TRY(const auto spec, hearth::model::ModelSpec::read(*file));
  hearth::node::LocalOptions options;
  options.stages = spec.is_whole() ? 1 : spec.layers;
  return LocalRunner::load(file, options);
}

int fail(const hearth::Error& error) {
  std::cerr << error.message << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: request_tool FILE.gguf < requests\n";
    return 2;
  }
  const auto runner = load(argv[1]);
  if (!runner.ok()) return fail(runner.error());
  std::string line;
  for (std::uint64_t id = 1; std::getline(std::cin, line); ++id) {
    const json request = json::parse(line, nullptr, false);
    if (request.is_discarded()) return 2;
    const auto result = answer(**runner, id, request);
    if (!result.ok()) return fail(result.error());
    std::cout << result->dump() << "\n";
  }
  return 0;
}
