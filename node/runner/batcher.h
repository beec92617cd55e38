// Batcher: forms the steps of a pipeline on its first stage, which gets sampled tokens directly
// from the last stage and starts the next step without the coordinator.
//
// Continuous batching: a sequence joins at the next step after it was submitted and leaves at the
// step after its end. As many steps travel at once as keep the pipeline busy (placement/steps.h);
// decode rows are shared evenly between them; prompt chunks fill the rest of a step's rows and
// never delay a decode row. While answers are generated, the target for the time between two tokens
// limits the chunks (prompt_pace.h).
//
// The oldest and the shortest waiting prompt take turns, step by step: a short one never waits for
// another client's long one, and the oldest has every other step. Background and interactive
// prompts take turns in the same way, so each waits for at most its own length of the other kind.
//
// Speculative decoding: behind a sequence's newest token a step may verify drafts of the next ones
// (Leviathan et al., arXiv 2211.17192; here a draft is accepted when the sampler draws the same
// token, so drafts never change a token). A step with prompt rows verifies no drafts. After a
// rejected draft the sequence's next step truncates.
//
// A step that would have no rows verifies further drafts behind those under way (PipeInfer, arXiv
// 2407.11798), so that a lone sequence keeps several stages busy. When the earlier drafts are
// rejected, everything sent behind them is void.
//
// With a draft model, a lone sequence may wait for drafts before its next step: next_ask() gives
// the ask for the model, and on_drafts() takes its answer. Or the step leaves at once, and the
// drafts follow in further steps while the model makes more: the faster of both is chosen. At most
// one ask is under way. The first one only reads, because the model may have to be loaded, and no
// sequence waits for that.
//
// A plain state machine: no clock, no threads, no I/O.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "node/runner/draft_ask.h"
#include "node/runner/draft_asks.h"
#include "node/runner/draft_policy.h"
#include "node/runner/prompt_pace.h"
#include "node/runner/token_lookup.h"
#include "placement/steps.h"
#include "proto/step.h"

namespace hearth::node {

struct BatcherOptions {
  Epoch epoch;
  std::uint32_t batch_rows = 512;       // rows of one step at most
  std::uint32_t prefill_rows = 128;     // prompt rows of one step at most
  std::uint32_t batches_in_flight = 2;  // steps sent and not yet answered, at most
  // Maximum drafts of a sequence in one step, up to limits::kDraftRows; 0: no drafts.
  std::uint32_t draft_rows = 0;
  // For tests: drafts of the token at `position` and of later ones, instead of a lookup; all are
  // sent.
  using Draft = std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)>;
  Draft draft = {};
  // Target for the time between two tokens of an answer while prompts are computed; nothing: the
  // default.
  std::optional<Duration> itl_target = {};
  bool draft_model = false;  // there is one to ask; it is asked only with draft_rows above 0
  // For tests: the number of drafts to ask for after every token, and whether the step leaves
  // before they are made. Nothing: as is fastest.
  std::optional<ModelDrafts::Plan> draft_model_plan = {};
  // Of the pipeline's steps: the batcher has as many in flight as their rows need. Nothing: always
  // batches_in_flight.
  std::optional<placement::StepTimes> times = {};
};

class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);

  // kInvalidInput: unknown epoch, a repeated sequence id, no prompt, or no room for another token
  // in the sequence.
  Status submit(SubmitMessage message);
  // Unknown or ended sequences are ignored: a cancel races with the end by nature.
  void cancel(SequenceId sequence);
  // The answer to the oldest step. `took`: since the step left, or since the previous answer if
  // that came later. kInvalidInput when it answers another step, names a sequence or position that
  // this step did not sample, or continues after a rejected draft.
  Status on_tokens(const StepTokens& tokens, Duration took = {});
  // The next step, if one may start and there is work. Call until it returns nothing.
  std::optional<StepBatch> next();
  // The next ask for the draft model, if there is one.
  std::optional<DraftAsk> next_ask();
  // The answer to the ask; its sequence may have ended meanwhile. `took`: since next_ask() gave the
  // ask out. `waited`: the part of it that delayed the sequence.
  void on_drafts(DraftAnswer answer, Duration took = {}, Duration waited = {});
  // The sequence that waits for drafts, if there is one, goes on without them. `took`: how long it
  // has waited.
  void stop_waiting(Duration took = {});
  // How long that sequence may wait; nothing: without a limit, or none waits.
  std::optional<Duration> patience() const;

  std::uint32_t sequences() const { return static_cast<std::uint32_t>(sequences_.size()); }
  std::uint32_t steps_in_flight() const { return static_cast<std::uint32_t>(in_flight_.size()); }

 private:
  // The ids of an epoch, as intervals: a coordinator counts them up, so there are few. When several
  // pipelines share the counter, every id may be its own interval, so only the newest are
  // remembered. A repeated id that still runs is found among the sequences; an ended and forgotten
  // id does no harm on any stage.
  class SeenIds {
   public:
    bool insert(std::uint64_t id);

   private:
    std::map<std::uint64_t, std::uint64_t> begins_;  // first id of an interval -> its last id
  };

  // The drafts after a sequence's newest token.
  struct Drafts {
    DraftKind kind = DraftKind::kLookup;
    std::vector<TokenId> tokens;
    std::vector<double> odds;  // of each: its chance to be right if those before it are
    Position first = 0;        // of tokens
    std::size_t sent = 0;      // of tokens, from the first on
    bool ahead = false;        // they follow a token that may be under way already
    // So many more the draft model makes behind these once they are sent; 0: none.
    std::uint32_t more = 0;
    std::size_t left() const { return tokens.size() - sent; }
    Position end() const { return first + static_cast<Position>(tokens.size()); }
    // `further`: what the model made behind these.
    void append(const Drafts& further);
  };

  struct Samples;
  // The tokens of a sequence in the answer to a step, and the samples that they answer.
  struct Answered {
    std::span<const SampledToken> tokens;
    const Samples* samples = nullptr;
  };

  struct Sequence {
    SequenceOpen open;
    std::vector<TokenId> tokens;  // as submitted; freed once their last chunk has left
    std::uint32_t submitted = 0;  // of them
    Position next = 0;            // position of the next row to send
    TokenId token = 0;            // of that row, once all that were submitted are sent
    bool opened = false;          // a step has carried its open
    bool background = false;
    // For its newest token: elapsed_ at its arrival, and the step that drew it.
    std::optional<std::pair<Duration, std::uint64_t>> told;
    bool may_draft = false;
    // For sequences that may have drafts:
    TokenLookup lookup;  // of all tokens that were sent or drawn
    DraftOdds odds;
    Drafts drafts;
    std::optional<Position> truncate;  // rows from here on were rejected
    std::uint32_t drafting = 0;        // steps in flight with undecided drafts of it
    std::uint32_t model_read = 0;      // the first tokens of it that the draft model has read
    bool no_model = false;             // the draft model cannot draft for it
    // elapsed_ and waited_ together at its newest token, if it was alone then.
    std::optional<Duration> alone;
    bool cancelled = false;  // cancelled while `drafting` is not 0
    bool decoding() const { return next >= submitted; }
    bool goes_on(const Answered& answered) const;
    // True for the last submitted row. When hashes are wanted, also for each row that was sampled
    // before, because its token is part of its hash.
    bool samples_next() const {
      return next + 1 == submitted || (open.report_hashes && next + 1 >= open.prompt_tokens);
    }
  };

  // Sampled rows of one sequence in one step.
  struct Samples {
    SequenceId sequence;
    Position first = 0;       // of their tokens
    std::uint32_t count = 0;  // rows that are not drafts; 0: all continue an earlier step's drafts
    std::vector<TokenId> drafts;
    bool void_now = false;  // earlier drafts were rejected, or the sequence has ended
    std::size_t most() const { return count + drafts.size(); }
    Position end() const { return first + static_cast<Position>(most()); }
  };

  struct StepInFlight {
    StepId step;
    std::vector<Samples> samples;
    std::uint32_t rows = 0;
    bool timed = true;              // it carried only newest tokens and drafts after them
    std::uint32_t prompt_rows = 0;  // of its rows
    std::uint32_t pace = 0;         // the pace's round when it left
    bool paced = false;             // it has as many prompt rows as the pace allows
  };

  struct Release {
    SequenceId sequence;
    std::optional<Position> truncate;
  };

  std::uint32_t decoding() const;
  std::deque<SequenceId>::iterator next_prompt(std::deque<SequenceId>& waiting, bool shortest);
  void pace_prompts(const StepInFlight& step, Duration took);
  std::uint32_t prompt_room() const;
  void add_decode_rows(StepBatch& batch);
  void add_prompt_rows(StepBatch& batch, std::uint32_t room);
  std::uint32_t chunk(const Sequence& sequence, std::uint32_t left, bool first) const;
  bool add_prompt_rows(StepBatch& batch, std::size_t kind, std::uint32_t& left, std::uint32_t most);
  void add_ends(StepBatch& batch);
  void add_row(StepBatch& batch, Sequence& sequence, TokenId token, bool sample);
  // True if drafts are sent at any cost, for tests.
  bool sends_all_drafts() const { return options_.draft || options_.draft_model_plan; }
  Result<std::vector<Answered>> check(const StepInFlight& step, const StepTokens& tokens) const;
  bool may_answer(const Samples& samples) const;
  void take(const Answered& answered, std::span<const TokenId> forced);
  void add_token(Sequence& sequence, TokenId token);
  void rate_drafts(Sequence& sequence, std::span<const SampledToken> tokens);
  void time_answer(Sequence& sequence, std::size_t tokens);
  bool ask_model(Sequence& sequence);
  void ask(const Sequence& sequence, std::uint32_t count, bool waits);
  void draft(Sequence& sequence, std::span<const TokenId> forced);
  void draft_further(Sequence& sequence, Position first);
  Drafts drafts_of(const Sequence& sequence, std::span<const TokenId> tokens, DraftKind kind,
                   std::uint32_t matched, Position first) const;
  std::size_t draft_room(const Sequence& sequence, Position first) const;
  void void_drafts(SequenceId sequence);
  bool may_go_further() const;
  void add_further_drafts(StepBatch& batch);
  std::size_t further(const Sequence& sequence, std::size_t room) const;
  std::vector<std::uint32_t> share_drafts(const std::vector<SequenceId>& decoded) const;
  void add_drafts(StepBatch& batch, Sequence& sequence, std::uint32_t count);
  void end(SequenceId sequence);

  BatcherOptions options_;
  std::uint64_t next_step_ = 0;
  SeenIds seen_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  // Incompletely sent prompts, oldest first: the interactive ones, and those in the background.
  std::array<std::deque<SequenceId>, 2> prompts_;
  bool background_first_ = false;         // in the next step that has both
  std::array<bool, 2> shortest_first_{};  // of the prompts of a kind, in its next step
  std::deque<SequenceId> returned_;       // sequences whose token is back, in order of arrival
  std::deque<SequenceOpen> cancelled_;    // before their first row: opened and released in one step
  std::deque<Release> releases_;
  std::deque<StepInFlight> in_flight_;
  std::uint32_t most_in_flight_ = 1;  // now
  StepCosts costs_;
  ModelDrafts model_drafts_;
  DraftAsks asks_;
  bool model_loaded_ = false;  // the draft model has answered
  PromptPace pace_;
  // The sum of the answers' times: it runs while any sequence waits for a step's token.
  Duration elapsed_{};
  Duration waited_{};  // for drafts; prompts have no part in that
  // Numbers of the newest answered steps: with prompt rows; with fewer prompt rows than the pace
  // allows; that left at another pace.
  std::uint64_t last_with_prompt_ = 0;
  std::uint64_t last_not_paced_ = 0;
  std::uint64_t last_other_pace_ = 0;
};

}  // namespace hearth::node
