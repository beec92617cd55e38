// ModelSwitch: the Coordinator of a server with several models, of which the workers hold one at a
// time. It keeps the requests for the others until their model has its turn, and then replaces the
// coordinator of one model by that of the next.
//
// Turns. A loaded model stays while no request waits for another one. Once one waits, the loaded
// model takes new requests for as long as its loading took (kLeastTurn to kMostTurn). Then new
// requests wait, the running ones finish with their receipts, and the model is unloaded. The next
// model is the one whose oldest request has waited longest. So no running request ends for another
// model, every requested model gets its turn, and alternating clients spend at most half of the
// swarm's time on loading, if a load takes at most kMostTurn.
//
// A model that does not fit these workers is refused before anything is unloaded. When loading
// fails, the waiting requests end and the model is refused for kFailedFor.
//
// At most limits::kWaitingSequences wait for all models together. As in the scheduler's queue, an
// API key has at most twice as many as there are free places.
//
// Everything on the main thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

class ModelSwitch final : public Coordinator {
 public:
  static constexpr Duration kLeastTurn = std::chrono::seconds(1);
  static constexpr Duration kMostTurn = std::chrono::seconds(60);
  // A load fails after this time without visible progress: while no pipeline may form, and while
  // one may.
  static constexpr Duration kIdlePatience = std::chrono::seconds(60);
  static constexpr Duration kLoadPatience = std::chrono::minutes(10);
  static constexpr Duration kFailedFor = std::chrono::seconds(30);
  static constexpr Duration kTellEvery = std::chrono::seconds(1);

  struct Model {
    std::string name;
    std::uint32_t context = 0;
  };
  struct Options {
    std::vector<Model> models;  // by number; the first one is loaded at once
    // Makes the coordinator of a model, with epochs and sequence ids from `begin` on, and makes the
    // workers open that model. The previous coordinator is destroyed before.
    std::function<std::unique_ptr<Coordinator>(std::uint32_t model, Next begin)> load;
    // Why a model does not fit the workers of this status, with the needed and available memory.
    // Empty, or null: it may fit.
    std::function<std::string(std::uint32_t model, const SwarmStatus& now)> why_no_room = {};
    // Bytes of the current model's file hashed for its manifest. Null: no hashing.
    std::function<std::uint64_t()> hashed = {};
  };

  ModelSwitch(Options options, const Clock& clock);
  ~ModelSwitch() override;

  void on_timer() override;
  using Coordinator::submit;
  SubmitAnswer submit(std::vector<Submission> sequences) override;
  void cancel(SequenceId sequence) override;
  void stop(SequenceId sequence, Position position) override;
  SwarmStatus status() const override;
  void publish_roster(Bytes roster) override;
  void publish_model(const Hash256& model) override { coordinator_->publish_model(model); }
  Status order(const std::string& node, const std::optional<Away>& away) override {
    return coordinator_->order(node, away);
  }
  Result<std::string> route(const std::string& from, const std::string& to) override {
    return coordinator_->route(from, to);
  }
  bool wind_down(bool wanted) override { return coordinator_->wind_down(wanted); }
  void retire() override { coordinator_->retire(); }
  Next next() const override { return coordinator_->next(); }

  std::uint32_t current() const { return current_; }  // model that the workers have or load

 private:
  class Held;
  // The sequences of one request.
  struct Waiting {
    std::vector<std::shared_ptr<Held>> sequences;
    std::string owner;
    TimePoint since{};
    std::optional<LoadProgress> told = {};
    TimePoint told_at{};
  };
  struct Entry {
    std::deque<Waiting> waiting = {};
    std::string why_failed = {};
    TimePoint failed_until{};
  };
  // The signs of progress while a model loads.
  struct Signs {
    std::size_t workers = 0;
    std::uint64_t bytes = 0;
    std::uint64_t hashed = 0;
    std::string missing = {};
    friend bool operator==(const Signs&, const Signs&) = default;
  };

  SubmitAnswer hold(std::uint32_t model, std::vector<Submission> sequences);
  Status check_hold(std::uint32_t model, const std::vector<Submission>& sequences);
  void load(std::uint32_t model);
  void watch_loading();
  void fail_loading(const std::string& why);
  void take_turns();
  void release(std::uint32_t model);
  void tell_progress();
  LoadProgress progress_of(std::uint32_t model) const;
  // The model, other than the current one, whose oldest request has waited longest.
  std::optional<std::uint32_t> next_model() const;
  std::size_t waiting() const;
  std::size_t waiting_of(const std::string& owner) const;
  const char* state_of(std::uint32_t model, bool ready) const;

  const Options options_;
  const Clock& clock_;
  std::vector<Entry> entries_;  // by model
  std::unique_ptr<Coordinator> coordinator_;
  std::uint32_t current_ = 0;
  std::optional<std::uint32_t> served_;  // the latest ready model
  bool is_loading_ = true;
  bool is_closing_ = false;  // new requests for the current model wait for its next turn
  TimePoint load_began_{};
  TimePoint turn_until_{};  // end of a ready model's turn
  Signs signs_ = {};
  TimePoint changed_at_{};  // time of the last change of the signs
  LoadProgress loading_ = {};
  Bytes roster_;
  SwarmStatus totals_;  // of earlier coordinators; only its *_total counters
  std::uint64_t next_held_ = 1;
  // Sequences that wait or have waited, and have not ended.
  std::map<SequenceId, std::shared_ptr<Held>> held_;
};

}  // namespace hearth::coordinator
