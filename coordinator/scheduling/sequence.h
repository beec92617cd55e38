// Sequence: one choice of a request in the coordinator, and the rules that its tokens must keep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/scheduling/prefix_map.h"
#include "proto/step.h"

namespace hearth::coordinator {

// The id of a policy's prefix cache scope for workers; nothing without a scope.
std::optional<Hash256> cache_scope(const Hash256& secret, const RequestPolicy& policy);

struct Sequence {
  SequenceId id;
  GenerateRequest request;
  std::shared_ptr<SequenceEvents> events;
  std::uint32_t prompt_tokens = 0;

  Epoch epoch;              // of its pipeline; 0 while it waits
  bool receipts = false;    // its pipeline makes receipts for it
  std::uint32_t pages = 0;  // reserved on that pipeline
  std::vector<TokenId>
      answer;  // its tokens so far; with the prompt, all that another pipeline needs
  std::optional<Hash256> scope;       // of the prefix cache
  PrefixChain chain;                  // of its tokens, extended on demand
  std::uint32_t cached = 0;           // positions of its prompt that were not computed
  std::optional<TimePoint> token_at;  // time of its last token on its present pipeline
  bool admitted = false;              // it has run, and on_admitted was sent
  bool answered = false;              // a token with a finish came; no other may follow
  bool ended = false;                 // its last event was sent, or no event is wanted
  bool released = false;              // its KV is free on every stage
  bool charged = false;               // its owner was charged for all allowed tokens

  // Hashes of its rows, by position and stage, and the last token while it waits for them.
  std::map<std::pair<Position, std::uint32_t>, RowHash> hashes;
  std::optional<SampledToken> held;
  TimePoint held_until{};
  std::optional<Position> stopped;  // stopped here: only hashes of earlier positions are wanted

  // While it waits for another pipeline, after the loss of its own.
  bool lost = false;  // one that it ran on, before
  TimePoint lost_at{};
  TimePoint resume_by{};        // it ends at this time, unless a pipeline is forming
  bool embedded = false;        // its embedding has come
  std::uint32_t fruitless = 0;  // pipelines lost since its last token
  // Tokens of its answer that the pipeline repeats to get the hashes of their rows.
  std::uint32_t again = 0;

  std::uint64_t tokens_wanted() const {
    return std::uint64_t{prompt_tokens} + request.sampling.max_tokens;
  }
  std::uint64_t tokens_known() const { return std::uint64_t{prompt_tokens} + answer.size(); }
  // Keeps the token. A repeated one must be the same as before. kInvalidInput when this cannot be
  // the sequence's next token.
  Status take(const SampledToken& token);
  // Takes the number of cached positions, once, before the first token; at most `most` count. True:
  // on_cached is to be sent. Pages that an interrupted sequence itself left do not count.
  Result<bool> take_cached(std::uint32_t positions, std::uint32_t most);
  // Its pipeline and its KV are lost: it waits again. `failed`: false when an owner took a machine.
  void interrupt(TimePoint now, Duration patience, bool failed);
  // The chain over all its tokens; empty without a scope.
  const PrefixChain& known_chain();
  SequenceOpen open() const;
  // The message to the first stage: prompt and answer so far.
  SubmitMessage submit() const;
  // kInvalidInput for a position that the sequence cannot have, or a duplicate.
  Status add_hash(const RowHash& hash);
  // Whether the last token or a stopped sequence waits for hashes.
  bool waits_for_hashes() const { return held || stopped; }
  // Whether the hashes of every row up to the last token have arrived from every stage.
  bool hashes_complete(std::uint32_t stages) const;
  std::vector<RowHash>
  sorted_hashes();  // moves them out; of a stopped sequence, those before its end
};

}  // namespace hearth::coordinator
