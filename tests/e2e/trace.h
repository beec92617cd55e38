// What a run of the pipeline leaves behind: the tokens and logits of each sequence, the hash at
// every stage boundary, and the keys and values of every layer. Two runs of the same requests must
// leave the same, however they were computed.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "node/runner/local_runner.h"

namespace hearth::node {

struct Request {
  SequenceId id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
};

struct Trace {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;
  // (layer boundary, position) -> hash; boundary 0 is the token read, the last one the token said.
  std::map<std::pair<std::uint32_t, Position>, Hash256> boundaries;
  std::map<Position, Hash256> logits;  // of the rows that were sampled, all of them to the bit
  std::vector<Hash256> kv;             // of every layer, at the end
  bool finished = false;
};
using Traces = std::map<std::uint64_t, Trace>;

struct RunPlan {
  LocalOptions options;
  bool one_by_one = false;         // each request waits for the end of the one before
  std::uint32_t join_every = 0;    // steps between two requests; 0: all join at once
  std::vector<Request> strangers;  // run as well, and not traced
  bool observed = true;            // whether logits are traced
};

// Hashes the logits of the traced sequences' sampled rows.
class LogitsRecorder final : public LogitsObserver {
 public:
  // Not while the runner steps.
  void trace(const Request& request, Trace* trace) {
    entries_[request.id.value] = {static_cast<Position>(request.prompt.size() - 1), trace};
  }
  bool wants(SequenceId sequence, Position position) const override {
    const auto entry = entries_.find(sequence.value);
    return entry != entries_.end() && position >= entry->second.first_sampled;
  }
  void on_logits(SequenceId sequence, Position position, std::span<const float> logits) override {
    const Hash256 hash = blake2b(std::as_bytes(logits));
    const std::lock_guard lock(mutex_);
    entries_.at(sequence.value).trace->logits[position] = hash;
  }

 private:
  struct Entry {
    Position first_sampled = 0;
    Trace* trace = nullptr;
  };
  std::map<std::uint64_t, Entry> entries_;
  std::mutex mutex_;  // of the traces' maps
};

inline void record(Trace& trace, const RowHash& hash) {
  const auto put = [&](std::uint32_t boundary, const Hash256& value) {
    const auto [at, fresh] = trace.boundaries.emplace(std::pair{boundary, hash.position}, value);
    EXPECT_TRUE(fresh || at->second == value) << "two stages disagree at boundary " << boundary;
  };
  put(hash.layers.begin, hash.in);
  put(hash.layers.end, hash.out);
}

inline void submit(LocalRunner& runner, const Request& request, Trace* trace) {
  LocalRunner::Events events;
  if (trace != nullptr) {
    events.on_token = [trace, &runner](const SampledToken& token) {
      EXPECT_NE(token.finish, FinishReason::kError);
      trace->tokens.push_back(token.token);
      trace->logprobs.push_back({token.token, token.logprob});
      trace->finished = token.finish != FinishReason::kNone;
      if (!trace->finished) return;
      auto kv = runner.kv_hashes(token.sequence);
      EXPECT_TRUE(kv.ok()) << (kv.ok() ? "" : kv.error().message);
      if (kv.ok()) trace->kv = std::move(*kv);
    };
    events.on_hash = [trace](const RowHash& hash) { record(*trace, hash); };
  }
  SequenceOpen open;
  open.sequence = request.id;
  open.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  open.report_hashes = trace != nullptr;
  open.sampling = request.sampling;
  const Status status = runner.submit(open, request.prompt, events);
  ASSERT_TRUE(status.ok()) << status.error().message;
}

inline bool step(LocalRunner& runner) {
  const auto more = runner.step();
  EXPECT_TRUE(more.ok()) << (more.ok() ? "" : more.error().message);
  return more.ok() && *more;
}

inline Traces run_plan(const std::shared_ptr<const model::GgufFile>& file, const RunPlan& plan,
                       const std::vector<Request>& requests) {
  Traces traces;
  LogitsRecorder recorder;
  LocalOptions options = plan.options;
  options.logits = plan.observed ? &recorder : nullptr;
  auto loaded = LocalRunner::load(file, options);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  if (!loaded.ok()) return traces;
  LocalRunner& runner = **loaded;
  for (const Request& stranger : plan.strangers) submit(runner, stranger, nullptr);
  for (const Request& request : requests) {
    Trace& trace = traces[request.id.value];
    recorder.trace(request, &trace);
    submit(runner, request, &trace);
    for (std::uint32_t i = 0; i < plan.join_every; ++i) step(runner);
    while (plan.one_by_one && step(runner)) {
    }
  }
  while (step(runner)) {
  }
  return traces;
}

// `base` has every boundary that `traces` can have.
inline void expect_same(const Traces& traces, const Traces& base, std::uint32_t stages,
                        const std::string& what) {
  ASSERT_EQ(traces.size(), base.size()) << what;
  for (const auto& [id, trace] : traces) {
    const Trace& wanted = base.at(id);
    EXPECT_TRUE(trace.finished) << what;
    EXPECT_EQ(trace.tokens, wanted.tokens) << what << ", sequence " << id;
    EXPECT_EQ(trace.logprobs, wanted.logprobs) << what << ", sequence " << id;
    EXPECT_EQ(trace.logits.size(), trace.tokens.size()) << what << ", sequence " << id;
    EXPECT_EQ(trace.logits, wanted.logits) << what << ", sequence " << id;
    EXPECT_FALSE(trace.kv.empty()) << what;
    EXPECT_EQ(trace.kv, wanted.kv) << what << ", sequence " << id;
    std::set<std::uint32_t> all;  // boundaries of the base
    for (const auto& [place, hash] : wanted.boundaries) all.insert(place.first);
    EXPECT_EQ(trace.boundaries.size() * all.size(), wanted.boundaries.size() * (stages + 1))
        << what;
    for (const auto& [place, hash] : trace.boundaries) {
      const auto found = wanted.boundaries.find(place);
      ASSERT_NE(found, wanted.boundaries.end()) << what << ", position " << place.second;
      ASSERT_EQ(hash, found->second) << what << ", sequence " << id << ", boundary " << place.first
                                     << ", position " << place.second;
    }
  }
}

}  // namespace hearth::node
