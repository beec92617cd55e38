// What the referee takes of a machine: referee_memory MODEL [POSITIONS [THREADS]] computes a
// request of so many random tokens, the last eighth of them an answer, as the coordinator computes
// one in dispute, and prints the peak of the process's memory beside what all of the model would
// take.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/limits.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/stage_memory.h"
#include "node/proof/recompute.h"
#include "proto/split.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

ledger::RefereeCase random_case(const model::ModelSpec& spec, std::uint32_t positions) {
  ledger::RefereeCase out;
  out.split = split_layers(spec.layers, std::min(4U, spec.layers));
  std::mt19937 random(1);
  const std::uint32_t prompt = std::max(1U, positions - positions / 8);
  for (std::uint32_t i = 0; i <= positions; ++i) {
    const auto token = static_cast<TokenId>(random() % spec.vocabulary);
    (i < prompt ? out.prompt : out.answer).push_back(token);
  }
  out.positions = positions;
  out.sampling.max_tokens = positions - prompt + 1;
  return out;
}

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(limits::kGiB);
}

Status run(const std::string& path, std::uint32_t positions, std::uint32_t threads) {
  TRY(const auto file, model::GgufFile::open(path));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  node::EngineOptions whole;
  whole.layers = {0, spec.layers};
  TRY(const node::StageMemory memory, node::stage_memory(*file, spec, whole));
  node::RefereeOptions options;
  options.threads = threads;
  options.with_true_answer = false;
  const auto begun = Clock::now();
  TRY(const auto found, node::compute_case(path, random_case(spec, positions), options, {}));
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  std::printf("layers %u, hidden %u, vocabulary %u, file %.2f GiB\n", spec.layers, spec.hidden,
              spec.vocabulary, gib(file->file_bytes()));
  std::printf("all weights in memory %.2f GiB\n", gib(memory.weights));
  std::printf("referee: %u positions, %zu sampled, peak memory %.2f GiB, %.1f s on %u threads\n",
              positions, found.sampled.size(), gib(std::uint64_t(used.ru_maxrss) * 1024), seconds,
              threads);
  return ok_status();
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "referee_memory MODEL [POSITIONS [THREADS]]\n");
    return 2;
  }
  const auto number = [&](int at, std::uint32_t usual) {
    return argc > at ? static_cast<std::uint32_t>(std::strtoul(argv[at], nullptr, 10)) : usual;
  };
  const hearth::Status done = hearth::run(argv[1], number(2, 512), number(3, 1));
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}
