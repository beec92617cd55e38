// A CoordinatorPort over the real one-process pipeline, on a thread of its own, with the failures
// of a swarm on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "node/runner/local_runner.h"
#include "tests/unit/coordinator/http/routes/served_model.h"

namespace hearth::coordinator::http {

class LocalPort final : public CoordinatorPort {
 public:
  LocalPort() {
    node::LocalOptions options;
    options.stages = 2;
    options.kv_budget_bytes = 64 << 20;
    auto runner = node::LocalRunner::load(tiny_model().file, options);
    EXPECT_TRUE(runner.ok()) << (runner.ok() ? "" : runner.error().message);
    runner_ = std::move(*runner);
    thread_ = std::thread([this] { run(); });
  }
  ~LocalPort() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  // What the next submissions are answered with; kInvalidInput stands for none.
  std::atomic<ErrorCode> refuse_with{ErrorCode::kInvalidInput};
  // After so many tokens of some sequence its worker is "lost", once; 0: never.
  std::atomic<std::uint32_t> fail_after{0};
  std::atomic<bool> paused{false};  // nothing is computed
  std::atomic<bool> ready{true};
  std::atomic<std::uint32_t> cancelled{0};
  std::atomic<std::uint32_t> submitted{0};
  std::atomic<std::uint32_t> running{0};

  void submit(std::vector<Submission> sequences, std::function<void(SubmitAnswer)> done) override {
    post([this, sequences = std::move(sequences), done = std::move(done)]() mutable {
      SubmitAnswer answer;
      answer.bounds.positions = tiny_model().served.spec.context;
      answer.bounds.running = running;
      std::vector<SequenceId> ids;
      for (Submission& one : sequences) {
        answer.max_tokens.push_back(one.request.sampling.max_tokens);
        const Result<SequenceId> id = start(std::move(one.request), one.events);
        if (!id.ok()) {
          answer.sequences = id.error();
          break;
        }
        ids.push_back(*id);
      }
      if (answer.sequences.ok()) answer.sequences = ids;
      done(std::move(answer));
      for (const SequenceId id : ids) sequences_[id].events->on_admitted();
    });
  }
  void cancel(SequenceId id) override {
    post([this, id] {
      if (sequences_.erase(id) == 0) return;
      runner_->cancel(id);
      ++cancelled;
      --running;
    });
  }
  void stop(SequenceId id, Position position) override {
    post([this, id, position] {
      const auto found = sequences_.find(id);
      if (found == sequences_.end()) return;
      std::vector<RowHash> hashes = std::move(found->second.hashes);
      std::erase_if(hashes, [&](const RowHash& hash) { return hash.position >= position; });
      sort_hashes(hashes);
      found->second.events->on_hashes(std::move(hashes));
      sequences_.erase(found);
      runner_->cancel(id);
      --running;
    });
  }
  void status(std::function<void(SwarmStatus)> done) override {
    post([this, done = std::move(done)] {
      SwarmStatus status;
      status.ready = ready;
      status.stages_wanted = 2;
      status.running = running;
      PipelineStatus pipeline;
      pipeline.state = "serving";
      pipeline.kv_pages = 4096;
      pipeline.kv_page_tokens = 1;
      if (ready) status.pipelines.push_back(pipeline);
      done(status);
    });
  }

 private:
  struct Sequence {
    std::shared_ptr<SequenceEvents> events;
    std::vector<RowHash> hashes;
    std::uint32_t tokens = 0;
  };

  static void sort_hashes(std::vector<RowHash>& hashes) {
    std::sort(hashes.begin(), hashes.end(), [](const RowHash& a, const RowHash& b) {
      return std::pair(a.position, a.stage) < std::pair(b.position, b.stage);
    });
  }
  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_all();
  }

  Result<SequenceId> start(GenerateRequest request, const std::shared_ptr<SequenceEvents>& events) {
    if (refuse_with != ErrorCode::kInvalidInput) return Error{refuse_with, "refused by the test"};
    const SequenceId id(++last_id_);
    SequenceOpen open;
    open.sequence = id;
    open.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    open.report_hashes = request.report_hashes;
    open.sampling = std::move(request.sampling);
    if (request.score_prompt) open.scored = request.prompt;
    open.embedding = request.embedding;
    node::LocalRunner::Events callbacks;
    callbacks.on_score = [this, id](const SampledToken& score) {
      const auto it = sequences_.find(id);
      if (it != sequences_.end()) it->second.events->on_scores({score});
    };
    callbacks.on_embedding = [this, id](const PromptEmbedding& embedding) {
      const auto it = sequences_.find(id);
      if (it != sequences_.end()) it->second.events->on_embedding(embedding.values);
    };
    callbacks.on_token = [this, id](const SampledToken& token) { on_token(id, token); };
    callbacks.on_hash = [this, id](const RowHash& hash) {
      const auto it = sequences_.find(id);
      if (it != sequences_.end()) it->second.hashes.push_back(hash);
    };
    request.prompt.insert(request.prompt.end(), request.answer.begin(), request.answer.end());
    TRY_VOID(runner_->submit(open, std::move(request.prompt), std::move(callbacks)));
    sequences_[id].events = events;
    ++submitted;
    ++running;
    return id;
  }

  void on_token(SequenceId id, const SampledToken& token) {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) return;
    Sequence& sequence = it->second;
    if (fail_after > 0 && sequence.tokens >= fail_after) {
      fail_after = 0;
      ended_.push_back(id);
      sequence.events->on_error({ErrorCode::kUnavailable, "worker attic was lost"});
      return;
    }
    ++sequence.tokens;
    if (token.finish != FinishReason::kNone) {
      sort_hashes(sequence.hashes);
      if (!sequence.hashes.empty()) sequence.events->on_hashes(std::move(sequence.hashes));
      ended_.push_back(id);
    }
    sequence.events->on_token(token);
  }

  void run() {
    bool busy = false;
    while (true) {
      std::deque<std::function<void()>> tasks;
      {
        std::unique_lock lock(mutex_);
        const auto awake = [this] { return stop_ || !tasks_.empty(); };
        if (!busy) wake_.wait_for(lock, std::chrono::milliseconds(20), awake);
        if (stop_) return;
        tasks.swap(tasks_);
      }
      for (auto& task : tasks) task();
      if (paused) {
        busy = false;
        continue;
      }
      const auto stepped = runner_->step();
      busy = stepped.ok() && *stepped;
      for (const SequenceId id : std::exchange(ended_, {})) {
        if (sequences_.erase(id) == 0) continue;
        runner_->cancel(id);
        --running;
      }
    }
  }

  std::unique_ptr<node::LocalRunner> runner_;
  std::map<SequenceId, Sequence> sequences_;
  std::vector<SequenceId> ended_;
  std::uint64_t last_id_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hearth::coordinator::http
