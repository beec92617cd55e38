// DisputeDesk: the coordinator's part in the game of a dispute (ledger/PROTOCOL.md, 4, "Game"). It
// gives both sides the disputed request once more, so that they know what came in, has them trace
// it, orders their moves, and asks one of them for what the found value is computed from. What
// comes of it is a file that shows who was wrong to whoever reads it, or why there is none: nobody
// is found guilty here.
//
// Each move is checked by ledger/dispute_game.h, with its deadlines; a node that declines, leaves
// or says nothing ends the game. One is played at a time, kWaiting wait for it. Any bytes may come
// from a node. A plain state machine: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/proof/audit_case.h"
#include "ledger/dispute.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

// What a dispute needs of the model, which no coordinator computes. Called on the desk's thread.
struct DisputeTools {
  struct Found {
    bool decided = false;
    std::array<bool, ledger::kDisputeSides> wrong{};
    std::string why;
  };
  std::string build;  // of the receipts' program
  std::function<Result<ledger::TraceShape>(LayerRange layers, std::uint32_t prompt)> shape;
  // Who a file says is wrong, to one who has the model or to one who has nothing else.
  std::function<Result<Found>(const ledger::DisputeFile& file, bool with_model)> check;
};

// What is to be played, of signatures that the log has.
struct DisputeTable {
  struct Side {
    std::string node;
    std::shared_ptr<const ReceiptPipeline> pipeline;  // in which it computes
  };
  ledger::DisputeCase said;  // but its shape
  Hash256 model;
  std::array<Side, ledger::kDisputeSides> sides;  // by ledger::DisputeSide
  AuditRun run;                                   // the claimed tokens, fed; its name is the desk's
  ledger::DisputeSide witness = ledger::DisputeSide::kWorker;  // is asked for evidence first
};

struct DisputePlayed {
  std::uint64_t entry = 0;
  std::string why;  // who is wrong and where, or why that is not known
  bool decided = false;
  std::array<bool, ledger::kDisputeSides> wrong{};  // where decided
  Bytes file;                                       // ledger/dispute.h, where decided; else empty
  bool needs_model = false;                         // the file shows it only with the model's own
};

class DisputeDesk {
 public:
  static constexpr std::size_t kWaiting = 4;
  // To keep what comes in; to have it computed and to trace it; to show a part of the evidence, and
  // once more.
  static constexpr Duration kKeepPatience = std::chrono::seconds(30);
  static constexpr Duration kTracePatience = std::chrono::minutes(5);
  static constexpr Duration kPartPatience = std::chrono::seconds(30);
  // A worker may say no more than limits::kControlSessionBytesPerSecond.
  static constexpr Duration kPartPause = std::chrono::seconds(2);
  static constexpr std::size_t kPartsAtOnce = 3;
  static constexpr std::size_t kPastRuns = 16;

  explicit DisputeDesk(const Clock& clock) : clock_(clock) {}

  void set_tools(DisputeTools tools) { tools_ = std::move(tools); }
  // Why it cannot be played, or nothing: then take_played() will have it.
  std::optional<std::string> begin(DisputeTable table);

  // Also of one that is over, which may go on for a while.
  bool is_run(const ledger::RequestId& request) const;
  void over(const ReceiptRequest& request);
  void give_up(const ledger::RequestId& run, const std::string& why);
  void take(const std::string& node, const control::v1::DisputeMove& move);
  void lose(const std::string& node);
  void on_timer();

  struct Message {
    std::string node;
    control::v1::DisputeOrder body;
  };
  std::vector<AuditRun> take_runs() { return std::exchange(to_run_, {}); }
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }
  std::vector<DisputePlayed> take_played() { return std::exchange(played_, {}); }

 private:
  enum class State { kKeeping, kTracing, kPlaying, kShowing };
  struct Game {
    Game(DisputeTable given, ledger::CheckedCase checked)
        : table(std::move(given)), of(std::move(checked)) {}
    DisputeTable table;
    ledger::CheckedCase of;
    std::uint64_t entry = 0;
    State state = State::kKeeping;
    TimePoint at{};  // when it came to its state, or asked for a part
    std::array<bool, ledger::kDisputeSides> done{};  // of this state
    std::array<ledger::RequestId, ledger::kDisputeSides> runs{};
    std::optional<ledger::DisputeGame> game;
    std::vector<ledger::DisputeMove> moves;  // in the order in which they came
    std::array<std::optional<control::v1::DisputeMoved>, ledger::kDisputeSides> latest;
    ledger::DisputeSide witness = ledger::DisputeSide::kWorker;
    bool asked_both = false;  // for evidence
    bool asked_again = false;
    bool part_due = false;  // to be asked for, after a pause
    std::uint64_t total = 0;
    Bytes shown;
  };

  void start(DisputeTable table, ledger::CheckedCase of);
  void next();
  void run(Game& one);
  void take_moved(std::size_t side, const control::v1::DisputeMoved& moved);
  void take_shown(std::size_t side, const control::v1::DisputeShown& shown);
  void order_moves(bool again);
  void found();
  void ask_part();
  void take_evidence();
  void other_witness(const std::string& why);
  void finish(const std::optional<ledger::DisputeEvidence>& evidence);
  void end(const std::string& why);
  void end(DisputePlayed played);
  control::v1::DisputeOrder& order(std::size_t side);
  std::uint64_t now_ms() const;

  const Clock& clock_;
  DisputeTools tools_;
  std::optional<Game> game_;
  std::deque<std::pair<DisputeTable, ledger::CheckedCase>> waiting_;
  std::map<ledger::RequestId, std::size_t> runs_;  // of the game's sides
  std::deque<ledger::RequestId> past_runs_;        // the latest kPastRuns
  std::vector<AuditRun> to_run_;
  std::vector<Message> messages_;
  std::vector<DisputePlayed> played_;
};

}  // namespace hearth::coordinator
