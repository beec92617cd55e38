// Batcher: forms the steps of a pipeline on its first stage, where sampled tokens come back
// directly from the last one, so that the next step starts without asking anybody.
//
// Continuous batching: a sequence joins at the next step after it was submitted and leaves at the
// step after its end. At most `batches_in_flight` steps travel at once (stages + 1); decode rows
// are shared evenly between them, so that no cohort outgrows the others; prompt chunks fill
// what is left of a step's rows and never delay a decode row. While answers are generated, chunks
// are as long as the target for the time between two tokens allows (prompt_pace.h).
//
// Of the prompts that wait, the oldest and the shortest take turns, step by step: a short one never
// waits for a long one of another client, and the oldest has every other step. Prompts in the
// background and the others take turns likewise: neither waits for more than its own length of the
// other kind.
//
// Speculative decoding: behind a sequence's newest token a step may verify drafts of the next ones
// (Leviathan et al., arXiv 2211.17192; here a draft is accepted where the sampler drew it, so no
// token depends on what is drafted). A step that carries a prompt verifies none. Where drafts were
// wrong, the sequence's next step truncates.
//
// A step that would have no rows verifies what is expected behind drafts that are still under way
// (PipeInfer, arXiv 2407.11798), so that a lone sequence keeps several stages busy. Where those
// drafts turn out wrong, nothing counts that was sent behind them.
//
// Where there is a draft model, a lone sequence may wait for its drafts before its next step; then
// next_ask() says what the model is to be asked, and on_drafts() takes the answer. One ask is under
// way at most.
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
#include "node/runner/draft_policy.h"
#include "node/runner/prompt_pace.h"
#include "node/runner/token_lookup.h"
#include "proto/step.h"

namespace hearth::node {

struct BatcherOptions {
  Epoch epoch;
  std::uint32_t batch_rows = 512;       // rows of one step at most
  std::uint32_t prefill_rows = 128;     // prompt rows of one step at most
  std::uint32_t batches_in_flight = 2;  // steps sent and not yet answered
  // Drafts of a sequence in one step at most, up to limits::kDraftRows; 0: none.
  std::uint32_t draft_rows = 0;
  // For tests: drafts of the token at `position` and those behind it, in place of a lookup; all are
  // sent.
  using Draft = std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)>;
  Draft draft = {};
  // For the time between two tokens of an answer while prompts are computed; nothing: the default.
  std::optional<Duration> itl_target = {};
  bool draft_model = false;  // next_ask() may ask one
  // For tests: asked for behind every token, in place of what is worth its time; 0: not.
  std::uint32_t draft_model_count = 0;
};

class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);

  // kInvalidInput: unknown epoch, a sequence id seen before, no prompt, or as many
  // tokens as the sequence may have in all.
  Status submit(SubmitMessage message);
  // Unknown or ended sequences are ignored: a cancel races with the end by nature.
  void cancel(SequenceId sequence);
  // The answer to the oldest step. `took`: since the step left, or since the answer before it where
  // that came later. kInvalidInput when it answers another step, names a sequence or position that
  // this step did not sample, or goes on behind a draft that was not drawn.
  Status on_tokens(const StepTokens& tokens, Duration took = {});
  // The next step, when one may start and there is something to do. Call until empty.
  std::optional<StepBatch> next();
  // What a draft model is to be asked now. Empty without one.
  std::optional<DraftAsk> next_ask() { return std::exchange(ask_, std::nullopt); }
  // The answer to the ask, whatever became of its sequence meanwhile. `took`: as of on_tokens(); of
  // an ask without drafts, what passed for nothing else.
  void on_drafts(DraftAnswer answer, Duration took = {});

  std::uint32_t sequences() const { return static_cast<std::uint32_t>(sequences_.size()); }
  std::uint32_t steps_in_flight() const { return static_cast<std::uint32_t>(in_flight_.size()); }

 private:
  // The ids of an epoch, as intervals: a coordinator counts them up, so there are few. Where
  // several pipelines share the count every id may be an interval of its own: the lowest are
  // forgotten, so that only the newest ones are known to have been here. A repeated id that still
  // runs is found among the sequences; one that is over and forgotten does no harm on any stage.
  class SeenIds {
   public:
    bool insert(std::uint64_t id);

   private:
    std::map<std::uint64_t, std::uint64_t> begins_;  // first id of an interval -> its last id
  };

  // What is expected behind a sequence's newest token.
  struct Drafts {
    DraftKind kind = DraftKind::kLookup;
    std::vector<TokenId> tokens;
    std::vector<double> odds;  // of each, that it is right where those before it are
    Position first = 0;        // of tokens
    std::size_t sent = 0;      // of tokens, from the first on
    std::size_t left() const { return tokens.size() - sent; }
  };

  struct Sequence {
    SequenceOpen open;
    std::vector<TokenId> tokens;  // the submit's, given back once their last chunk has left
    std::uint32_t submitted = 0;  // of them
    Position next = 0;            // position of the next row to send
    TokenId token = 0;            // of that row, once all that were submitted are sent
    bool opened = false;          // some step carried its open
    bool background = false;
    // At its newest token: the clock of answers, and the step that drew it.
    std::optional<std::pair<Duration, std::uint64_t>> told;
    // Of sequences that are drafted:
    TokenLookup lookup;  // of all tokens that were sent or drawn
    DraftOdds odds;
    Drafts drafts;
    std::optional<Position> truncate;  // rows from here on were wrong
    std::uint32_t drafting = 0;        // steps in flight with drafts of it that may be right
    std::uint32_t model_read = 0;      // of its tokens, that the draft model has read
    bool no_model = false;             // the draft model cannot draft for it
    std::optional<Duration> alone;     // the clock of answers at its newest token, while it is
    bool cancelled = false;            // while there are such
    bool decoding() const { return next >= submitted; }
    // Of the rows that were submitted the last one, and where hashes are wanted each that has been
    // sampled before: what a row says is part of its hash.
    bool samples_next() const {
      return next + 1 == submitted || (open.report_hashes && next + 1 >= open.prompt_tokens);
    }
  };

  // Sampled rows of one sequence in one step.
  struct Samples {
    SequenceId sequence;
    Position first = 0;       // of their tokens
    std::uint32_t count = 0;  // of rows that are no drafts; 0: all go on behind an earlier step's
    std::vector<TokenId> drafts;
    bool void_now = false;  // drafts before them were wrong, or the sequence is over
    std::size_t most() const { return count + drafts.size(); }
    Position end() const { return first + static_cast<Position>(most()); }
  };

  struct StepInFlight {
    StepId step;
    std::vector<Samples> samples;
    std::uint32_t rows = 0;
    bool timed = true;  // nothing travelled with it but newest tokens and drafts behind them
    std::uint32_t prompt_rows = 0;  // of its rows
    std::uint32_t pace = 0;         // the round that held when it left
    bool paced = false;             // it has as much of prompts as the pace allows
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
  // Whatever they cost.
  bool sends_all_drafts() const { return options_.draft || options_.draft_model_count > 0; }
  bool may_draft(const Sequence& sequence) const {
    return options_.draft_rows > 0 && sequence.open.drafts;
  }
  // The tokens of a sequence in the answer to a step, and what they answer.
  struct Answered {
    std::span<const SampledToken> tokens;
    const Samples* samples = nullptr;
  };
  Result<std::vector<Answered>> check(const StepInFlight& step, const StepTokens& tokens) const;
  bool may_answer(const Samples& samples) const;
  void take(const Answered& answered, std::span<const TokenId> forced);
  void add_token(Sequence& sequence, TokenId token);
  void rate_drafts(Sequence& sequence, std::span<const SampledToken> tokens);
  void time_answer(Sequence& sequence, std::size_t tokens);
  bool ask_model(Sequence& sequence);
  void put_ask(const Sequence& sequence, std::uint32_t count);
  void draft(Sequence& sequence, std::span<const TokenId> forced);
  void draft_further(Sequence& sequence, Position first);
  Drafts drafts_of(const Sequence& sequence, std::span<const TokenId> tokens, DraftKind kind,
                   std::uint32_t matched, Position first) const;
  std::size_t draft_room(const Sequence& sequence, Position first) const;
  bool goes_on(const Sequence& sequence, const Answered& answered) const;
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
  // Not wholly sent, oldest first: those that somebody watches, and those in the background.
  std::array<std::deque<SequenceId>, 2> prompts_;
  bool background_first_ = false;         // in the next step that has both
  std::array<bool, 2> shortest_first_{};  // of the prompts of a kind, in its next step
  std::deque<SequenceId> returned_;       // their token is back, in the order of its coming
  std::deque<SequenceOpen> cancelled_;    // before their first row: opened and released in one step
  std::deque<Release> releases_;
  std::deque<StepInFlight> in_flight_;
  StepCosts costs_;
  ModelDrafts model_drafts_;
  std::optional<DraftAsk> ask_;  // not handed out yet
  struct Asked {
    SequenceId sequence;
    std::uint32_t count = 0;  // above 0: the sequence waits for the answer
  };
  std::optional<Asked> asked_;
  PromptPace pace_;
  // What the answers took, one behind the other: while any sequence waits for a token, the time.
  Duration elapsed_{};
  // The newest of the answered steps that had a prompt, that had less of one than the pace allows,
  // and that left at another pace.
  std::uint64_t last_with_prompt_ = 0;
  std::uint64_t last_not_paced_ = 0;
  std::uint64_t last_other_pace_ = 0;
};

}  // namespace hearth::node
