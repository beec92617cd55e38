// ModelSwitch: the Coordinator of a server with several models. One of them, the current one, has
// the workers that joined. Others are loaded beside it, each with workers of its own, where
// `load_beside` finds room. Requests for a model that is not loaded are kept until it is.
//
// Beside. A model that fits is loaded as soon as a request names it, and stays until another model
// needs its room. Then the model that was idle longest is unloaded; if that is the current one, the
// other model takes its place. While a model waits for room, no model whose requests are younger
// takes that room.
//
// Turns. A model that does not fit beside takes the place of the current one, which stays while no
// request waits for its place. Once one waits, the current model takes new requests for as long as
// its loading took (kLeastTurn to kMostTurn). Then new requests wait, the running ones finish with
// their receipts, and the model is unloaded. The next model is the one whose oldest request has
// waited longest. So no running request ends for another model, every requested model gets its
// turn, and alternating clients spend at most half of the swarm's time on loading, if a load takes
// at most kMostTurn. What is beside the current model is unloaded with it, and has such a turn
// before it makes room for another one.
//
// A model that does not fit these workers, or whose file is gone, is refused before anything is
// unloaded. When loading fails, the waiting requests end and the model is refused for kFailedFor.
// When loading beside fails, the model is not loaded beside for that time.
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
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

// Whether a model can be loaded beside the loaded ones.
enum class RoomBeside : std::uint8_t {
  kNow,
  kSoon,       // room is about to become free
  kTaken,      // by models that are beside the current one
  kImpossible  // with the current one loaded
};

class ModelSwitch final : public Coordinator {
 public:
  static constexpr Duration kLeastTurn = std::chrono::seconds(1);
  static constexpr Duration kMostTurn = std::chrono::seconds(60);
  // A load fails after this time without visible progress: while no pipeline may form, and while
  // one may.
  static constexpr Duration kIdlePatience = std::chrono::seconds(60);
  static constexpr Duration kLoadPatience = std::chrono::minutes(10);
  // What a lost worker had done counts again as progress so many times in one load.
  static constexpr std::uint32_t kMostSetbacks = 8;
  static constexpr Duration kFailedFor = std::chrono::seconds(30);
  static constexpr Duration kTellEvery = std::chrono::seconds(1);

  struct Model {
    std::string name;
    std::uint32_t context = 0;
  };
  struct Options {
    std::vector<Model> models;  // by number; the first one is loaded at once
    std::uint32_t most_loaded = limits::kServedModels;
    // Makes the coordinator of the current model, and makes the workers open that model. The
    // previous one is destroyed before.
    std::function<std::unique_ptr<Coordinator>(std::uint32_t model)> load;
    // Why a model does not fit the workers of this status, with the needed and available memory.
    // Empty, or null: it may fit.
    std::function<std::string(std::uint32_t model, const SwarmStatus& now)> why_no_room = {};
    // Why the file of a model cannot be loaded now. Empty, or null: it can.
    std::function<std::string(std::uint32_t model)> why_no_file = {};
    // Whether a model fits beside the others, with `now` of the current one. Null: none does.
    std::function<RoomBeside(std::uint32_t model, const SwarmStatus& now)> room_beside = {};
    // Whether a model fits in place of the current one, with those that are beside it. Null: none
    // does.
    std::function<bool(std::uint32_t model, const SwarmStatus& now)> fits_in_place = {};
    // Makes the coordinator of a model and starts workers of its own; and ends these workers, after
    // the coordinator is destroyed.
    std::function<Result<std::unique_ptr<Coordinator>>(std::uint32_t model)> load_beside = {};
    std::function<void(std::uint32_t model)> unload_beside = {};
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
  // Of the current model.
  void publish_model(const Hash256& model) override;
  Status order(const std::string& node, const std::optional<Away>& away) override;
  Result<std::string> route(const std::string& from, const std::string& to) override;
  bool wind_down(bool wanted) override;
  void retire() override;

  std::uint32_t current() const { return current_; }  // model that joined workers have or load

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
    TimePoint not_beside_until{};
    bool waits_for_room = false;  // beside the current model; otherwise for its turn
    bool is_in_place = false;     // for its turn, in which what is beside stays
  };
  // The signs of progress while a model loads.
  struct Signs {
    std::size_t workers = 0;
    std::uint64_t bytes = 0;
    std::uint64_t hashed = 0;
    std::string missing = {};
  };
  // Which signs a load has shown. A worker that ends while it loads, and is started again, shows
  // the same ones again.
  class Progress {
   public:
    bool is_new(const Signs& now);

   private:
    std::size_t workers_ = 0;  // latest
    std::size_t workers_most_ = 0;
    std::uint64_t bytes_most_ = 0;
    std::uint64_t hashed_most_ = 0;
    std::set<std::string> missing_;
    std::uint32_t setbacks_ = 0;
  };
  struct Loaded {
    std::unique_ptr<Coordinator> coordinator;
    bool is_loading = true;
    bool is_closing = false;  // it is to be unloaded; new requests for it wait
    bool may_come = true;     // while it loads: a pipeline may form without help
    TimePoint load_began{};
    TimePoint turn_until{};  // of a ready model
    TimePoint asked_at{};    // the latest submission
    TimePoint used_at{};     // when a request last ran
    Progress progress = {};
    TimePoint changed_at{};  // time of the last progress
    LoadProgress loading = {};
    bool takes() const { return !is_loading && !is_closing; }
  };

  SubmitAnswer hold(std::uint32_t model, std::vector<Submission> sequences);
  Status check_hold(std::uint32_t model, const std::vector<Submission>& sequences);
  Loaded& put(std::uint32_t model, std::unique_ptr<Coordinator> coordinator);
  void load(std::uint32_t model);
  void unload(std::uint32_t model);
  void watch_loading(std::uint32_t model);
  static Duration patience_of(const Loaded& one);
  void fail_loading(const std::string& why);
  void fail_beside(std::uint32_t model, const std::string& why);
  void take_turns();
  void note_use();
  void find_room();
  bool find_room_for(std::uint32_t model, bool is_first);
  bool may_take_place(std::uint32_t model, const SwarmStatus& now) const;
  bool close_one();
  void drain();
  void release(std::uint32_t model);
  void tell_progress();
  LoadProgress progress_of(std::uint32_t model) const;
  // The models for which requests wait and that are not loaded; the oldest request's first.
  std::vector<std::uint32_t> wanted() const;
  // Of these, the first one that waits for its turn.
  std::optional<std::uint32_t> next_model() const;
  std::size_t waiting() const;
  std::size_t waiting_of(const std::string& owner) const;
  const char* state_of(std::uint32_t model, bool ready) const;
  Coordinator& current_coordinator() const { return *loaded_.at(current_).coordinator; }
  // Of a node: the coordinator that knows it, or the current model's.
  Coordinator& of_node(const std::string& node) const;

  const Options options_;
  const Clock& clock_;
  std::vector<Entry> entries_;              // by model
  std::map<std::uint32_t, Loaded> loaded_;  // by model, the current one among them
  std::uint32_t current_ = 0;
  std::optional<std::uint32_t> served_;  // the latest current model that was ready
  TimePoint noted_at_{};                 // when used_at was last brought up to date
  Bytes roster_;
  SwarmStatus totals_;  // of earlier coordinators; only its *_total counters
  std::uint64_t next_held_ = 1;
  // Sequences that wait or have waited, and have not ended.
  std::map<SequenceId, std::shared_ptr<Held>> held_;
};

}  // namespace hearth::coordinator
