// What a group gains: tokens a second of one stream, of a group of ranks with one thread each and
// of one engine with one thread, in turns. Ranks are threads with real links over loopback. Prints
// medians, the ratio and whether the tokens are equal. Asserts nothing.
//
//   bench_ranks MODEL [RANKS [ROUNDS [TOKENS]]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "node/engine/engine.h"
#include "node/ranks/rank_links.h"
#include "proto/step.h"

namespace {

using namespace hearth;
using namespace hearth::node;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kPrompt = 16;
constexpr SequenceId kSequence{1};
constexpr std::uint32_t kPages = 32;

template <typename T>
T need(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}
void need(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

EngineOptions options_of(const model::ModelSpec& spec) {
  EngineOptions options;
  options.layers = {0, spec.layers};
  options.kv_budget_bytes = 256 << 20;
  return options;
}

StepBatch prompt() {
  StepBatch batch;
  batch.epoch = Epoch(1);
  batch.opens.push_back({kSequence, kPrompt, false, {}});
  batch.opens[0].sampling.temperature = 0.0F;
  batch.opens[0].sampling.max_tokens = 1'000;
  for (Position i = 0; i < kPrompt; ++i) {
    const std::uint8_t flags = i + 1 == kPrompt ? BatchRow::kSample : 0;
    batch.rows.push_back({kSequence, i, static_cast<TokenId>(100 + 7 * i), flags});
  }
  return batch;
}

struct Told {
  std::vector<TokenId> tokens;
  double per_second = 0.0;
};

// A prompt, then so many tokens, which alone are timed.
template <typename StepOf>
Told tell(int tokens, const StepOf& step) {
  Told told;
  StepBatch batch = prompt();
  Steady::time_point begun;
  for (int i = 0; i <= tokens; ++i) {
    batch.epoch = Epoch(1);
    const StepResult result = step(batch);
    if (i == 0) begun = Steady::now();
    told.tokens.push_back(result.tokens.at(0).token);
    batch = {};
    batch.rows.push_back(
        {kSequence, kPrompt + static_cast<Position>(i), told.tokens.back(), BatchRow::kSample});
  }
  const std::chrono::duration<double> took = Steady::now() - begun;
  told.per_second = tokens / took.count();
  batch = {};
  batch.epoch = Epoch(1);
  batch.releases = {kSequence};
  (void)step(batch);
  return told;
}

// The ranks but rank 0 follow it on threads of their own, until they are told to leave.
class Group {
 public:
  Group(std::shared_ptr<const model::GgufFile> file, const model::ModelSpec& spec,
        std::uint32_t ranks)
      : groups_(ranks), engines_(ranks) {
    auto book = std::make_shared<RosterBook>(cluster_.public_key());
    Roster roster;
    std::vector<SecretKey> keys;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      keys.push_back(SecretKey::generate());
      roster.entries.push_back({keys.back().public_key(), name(rank), Role::kWorker, {}});
    }
    if (!book->offer(need(sign_roster(roster, cluster_))).ok()) std::exit(1);
    assignment_.epoch = Epoch(1);
    const auto shares = need(divide(spec, std::vector<std::uint32_t>(ranks, 1)));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      TcpOptions tcp;
      tcp.listen_address = "127.0.0.1:0";
      tcp.identity = need(TlsIdentity::make(keys[rank]));
      tcp.roster = book;
      Hello hello;
      hello.node = name(rank);
      links_.push_back(std::make_unique<RankLinks>(tcp, hello));
      assignment_.group.push_back({name(rank), need(links_.back()->listen()), 1});
      groups_[rank] = {shares, rank, links_.back().get(), kPages};
      EngineOptions options = options_of(spec);
      options.group = &groups_[rank];
      engines_[rank] = need(Engine::load(file, spec, options));
    }
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      threads_.emplace_back([this, rank] { follow(rank); });
    }
    join(0);
  }
  ~Group() {
    links_[0]->leave();
    for (std::thread& thread : threads_) thread.join();
  }
  StepResult step(StepBatch& batch) {
    need(links_[0]->send_batch(encode(batch)));
    StepResult result;
    need(engines_[0]->step(batch, result));
    return result;
  }

 private:
  static std::string name(std::uint32_t rank) { return "rank-" + std::to_string(rank); }
  void join(std::uint32_t rank) {
    Assignment own = assignment_;
    own.rank = rank;
    need(links_[rank]->join(own, {}));
  }
  void follow(std::uint32_t rank) {
    join(rank);
    while (true) {
      const auto payload = links_[rank]->next_batch();
      if (!payload.ok()) return;  // rank 0 has left
      if (!*payload) continue;
      StepBatch batch = need(decode_step_batch(**payload, engines_[rank]->input_shape()));
      StepResult result;
      need(engines_[rank]->step(batch, result));
    }
  }

  SecretKey cluster_ = SecretKey::generate();
  Assignment assignment_;
  std::vector<RankGroup> groups_;
  std::vector<std::unique_ptr<RankLinks>> links_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::thread> threads_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  const int ranks = number(2, 2);
  const int rounds = number(3, 5);
  const int tokens = number(4, 64);
  if (ranks < 2 || rounds < 1 || tokens < 1) return 2;
  const auto file = need(model::GgufFile::open(argv[1]));
  const model::ModelSpec spec = need(model::ModelSpec::read(*file));
  const auto alone = need(Engine::load(file, spec, options_of(spec)));
  Group group(file, spec, static_cast<std::uint32_t>(ranks));
  std::vector<double> one;
  std::vector<double> all;
  bool equal = true;
  for (int round = 0; round < rounds; ++round) {
    const Told told = tell(tokens, [&](StepBatch& batch) {
      StepResult result;
      need(alone->step(batch, result));
      return result;
    });
    const Told together = tell(tokens, [&](StepBatch& batch) { return group.step(batch); });
    equal = equal && told.tokens == together.tokens;
    one.push_back(told.per_second);
    all.push_back(together.per_second);
    std::printf("round %d  one engine %7.1f tokens/s  %d ranks %7.1f tokens/s\n", round + 1,
                told.per_second, ranks, together.per_second);
  }
  std::printf(
      "%u processors, medians of %d rounds of %d tokens: one engine %.1f, %d ranks %.1f, "
      "%.2f times; tokens %s\n",
      std::thread::hardware_concurrency(), rounds, tokens, median(one), ranks, median(all),
      median(all) / median(one), equal ? "equal" : "DIFFER");
}
