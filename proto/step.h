// StepBatch: the one batch type. The first stage fills it, every stage rewrites its activations,
// the last one turns it into StepTokens. Its encoding is the wire format; nothing is translated
// between scheduler, wire, engine and hash.
//
// Life of a sequence inside one epoch, all in order on one ring of links:
//   SubmitMessage (coordinator -> first stage)  opens it with its prompt, and its answer so far
//   StepBatch.opens                             tells every stage that it exists
//   StepBatch.rows                              prompt chunks, then one row a generated token,
//                                               and behind it rows of drafted ones
//   StepTokens.tokens (last -> first, coordinator)  the token sampled at a row; `finish` ends it.
//                                               Rows behind a rejected draft have none
//   StepBatch.truncates                         drops the rows of rejected drafts on every stage
//   StepBatch.releases                          frees its KV on every stage, after its last row
//   StepTokens.released                         tells the coordinator that the KV is free
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth {

// Part of the proved function: the sampler sees these, the history and the logits, nothing else.
// Defaults are OpenAI's. Semantics and order of application: kernels/CANONICAL.md.
struct SamplingParams {
  float temperature = 1.0F;         // 0 = greedy; [0, 100]
  std::uint32_t top_k = 0;          // 0 = off
  float top_p = 1.0F;               // (0, 1]; 1 = off
  float min_p = 0.0F;               // [0, 1]; 0 = off
  float repetition_penalty = 1.0F;  // (0, 100]; over prompt and generated tokens
  float presence_penalty = 0.0F;    // [-100, 100]; over generated tokens
  float frequency_penalty = 0.0F;   // [-100, 100]; over generated tokens
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;  // [-100, 100]; -infinity = never
  std::uint32_t max_tokens = 16;                      // generated tokens, at least 1
  std::vector<TokenId> stop_tokens;  // end of generation; empty = run to max_tokens
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;  // alternatives reported a token, at most limits::kTopLogprobs
  Bytes grammar;  // the encoded form of a grammar that masks the tokens; empty: none
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// The data with which stages make the receipts of a request (ledger/PROTOCOL.md, 2).
struct ReceiptOrder {
  std::array<std::byte, 16> request{};
  Hash256 salt;
  friend bool operator==(const ReceiptOrder&, const ReceiptOrder&) = default;
};

struct SequenceOpen {
  SequenceId sequence;
  std::uint32_t prompt_tokens = 0;
  bool report_hashes = false;  // every stage reports a RowHash for every row
  SamplingParams sampling;
  std::optional<ReceiptOrder> receipt = {};  // every stage makes them
  // For the first stage only: interactive prompts do not wait for this prompt.
  bool background = false;
  // The prompt, when the last stage scores its tokens (StepTokens::scores) and every prompt row has
  // logits; else empty. At most limits::kScoredTokens.
  std::vector<TokenId> scored = {};
  // The prefix cache's scope: stages reuse KV pages of earlier sequences of this scope and keep
  // this one's. Without a scope the sequence shares nothing.
  std::optional<Hash256> scope = {};
  bool drafts = true;  // allows drafts, which never change the tokens
  // Values of the prompt's embedding, which the last stage sends (StepTokens::embeddings); 0: none.
  // At most the model's hidden size, and limits::kEmbeddingValues.
  std::uint32_t embedding = 0;
  friend bool operator==(const SequenceOpen&, const SequenceOpen&) = default;
};

// Drops a sequence's positions from `length` on, before the rows of the same batch: frees their KV,
// and the next row is at `length`. Prompts stay whole: length >= prompt_tokens.
struct SequenceTruncate {
  SequenceId sequence;
  Position length = 0;
  friend bool operator==(const SequenceTruncate&, const SequenceTruncate&) = default;
};

// Where a drafted token comes from.
enum class DraftKind : std::uint8_t {
  kLookup = 0,   // the tokens that followed earlier in prompt or answer
  kGrammar = 1,  // what the sequence's grammar forces
  kModel = 2,    // drawn by a draft model
};
inline constexpr std::size_t kDraftKinds = 3;
// The names of kinds in figures, by DraftKind.
inline constexpr std::array<std::string_view, kDraftKinds> kDraftKindNames = {"lookup", "grammar",
                                                                              "model"};

// One position of one sequence. Rows of a sequence are contiguous, positions ascending by one. Any
// number of them may be sampled. A draft's token is proposed before the row in front of it is
// sampled. When that row samples another token, the draft and all rows behind it count as never
// sent, and a truncation follows. Drafts are sampled rows behind a sampled row of the same step,
// and then all rows that follow.
struct BatchRow {
  static constexpr std::uint8_t kSample = 1;  // the last stage samples the next token here
  static constexpr std::uint8_t kFailed = 2;  // a stage left the numeric range or has no KV page;
                                              // the row is carried on as zeros and ends in kError
  static constexpr std::uint8_t kDraft = 4;
  static constexpr std::uint8_t kForced = 8;  // of a draft: DraftKind::kGrammar
  // For a row that is not a draft: no stage so far has computed it. Each took its result from an
  // earlier sequence of the scope.
  static constexpr std::uint8_t kCached = 8;
  static constexpr unsigned kReasonShift = 4;  // above it, of a failed row: its ErrorCode
  // Of a draft row that has not failed: its kind is DraftKind::kModel. From protocol 11 on.
  static constexpr std::uint8_t kModelled = 16;
  SequenceId sequence;
  Position position = 0;
  TokenId token = 0;
  std::uint8_t flags = 0;

  bool sampled() const { return (flags & kSample) != 0; }
  bool draft() const { return (flags & kDraft) != 0; }
  DraftKind kind() const {
    if ((flags & kForced) != 0) return DraftKind::kGrammar;
    return !failed() && (flags & kModelled) != 0 ? DraftKind::kModel : DraftKind::kLookup;
  }
  bool failed() const { return (flags & kFailed) != 0; }
  bool cached() const { return !draft() && (flags & kCached) != 0; }
  ErrorCode reason() const { return static_cast<ErrorCode>(flags >> kReasonShift); }
  // A row that has failed already keeps its first reason.
  void fail(ErrorCode why) {
    if (failed()) return;
    const unsigned reason = static_cast<unsigned>(why) << kReasonShift;
    flags = static_cast<std::uint8_t>((flags & ~kModelled) | kFailed | reason);
  }
  friend bool operator==(const BatchRow&, const BatchRow&) = default;
};

struct StepBatch {
  Epoch epoch;
  StepId step;                 // counts up by one within the epoch
  std::uint32_t boundary = 0;  // the layer that takes the rows next
  std::vector<SequenceOpen> opens;
  std::vector<SequenceTruncate> truncates;
  std::vector<SequenceId> releases;
  std::vector<BatchRow> rows;
  // The residual of every row, row-major: rows x hidden_size x 2 bytes (canonical fp16,
  // prescaled). Empty between the coordinator and the first stage's engine.
  Bytes activations;
  friend bool operator==(const StepBatch&, const StepBatch&) = default;
};

enum class FinishReason : std::uint8_t {
  kNone = 0,    // the sequence goes on
  kStop = 1,    // a stop token was sampled
  kLength = 2,  // max_tokens reached
  kError = 3,   // see SampledToken::error
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;  // natural log of the unmodified softmax
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct SampledToken {
  SequenceId sequence;
  Position position = 0;  // of the new token
  TokenId token = 0;
  FinishReason finish = FinishReason::kNone;
  ErrorCode error = ErrorCode::kNumeric;  // read only with kError
  float logprob = 0.0F;                   // read only when asked for
  std::vector<TokenLogprob> top;          // descending
  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

// The first rows of a sequence, which no stage computed.
struct CachedPrefix {
  SequenceId sequence;
  std::uint32_t positions = 0;
  friend bool operator==(const CachedPrefix&, const CachedPrefix&) = default;
};

// Drafts of one kind: how many were verified and how many accepted.
struct DraftCount {
  std::uint32_t drafted = 0;
  std::uint32_t accepted = 0;
  friend bool operator==(const DraftCount&, const DraftCount&) = default;
};
using DraftCounts = std::array<DraftCount, kDraftKinds>;  // by DraftKind

// The result of a sequence's drafts in a step, and the tokens that its grammar forces behind the
// last sampled one; at most limits::kDraftRows.
struct SequenceDrafts {
  SequenceId sequence;
  DraftCounts counts{};
  std::vector<TokenId> forced = {};
  friend bool operator==(const SequenceDrafts&, const SequenceDrafts&) = default;
};

// The embedding of a prompt, a vector of length 1 (kernels/CANONICAL.md, 10b).
struct PromptEmbedding {
  SequenceId sequence;
  std::vector<float> values;  // finite; SequenceOpen::embedding of them
  friend bool operator==(const PromptEmbedding&, const PromptEmbedding&) = default;
};

// The results of one step. The last stage sends one for every StepBatch, even without tokens.
// Tokens of a sequence are contiguous, with positions ascending by one, like their rows.
struct StepTokens {
  Epoch epoch;
  StepId step;
  std::vector<SampledToken> tokens;
  std::vector<SequenceId> released;
  // For scored prompts: each prompt token but the first, once, with its log probability, before or
  // with the sequence's first token. In the order of `tokens`. `finish` is ignored.
  std::vector<SampledToken> scores = {};
  // Sent with the first token of a sequence that has cached rows.
  std::vector<CachedPrefix> cached = {};
  std::vector<SequenceDrafts> drafts = {};  // of sequences that have drafts or forced tokens
  // For embedded prompts: once each, with the sequence's first token.
  std::vector<PromptEmbedding> embeddings = {};
  friend bool operator==(const StepTokens&, const StepTokens&) = default;
};

struct SubmitMessage {
  Epoch epoch;
  SequenceOpen open;
  std::vector<TokenId> prompt;  // followed by the answer so far after a lost pipeline
  friend bool operator==(const SubmitMessage&, const SubmitMessage&) = default;
};

struct CancelMessage {
  Epoch epoch;
  std::vector<SequenceId> sequences;
  friend bool operator==(const CancelMessage&, const CancelMessage&) = default;
};

// Hashes of the canonical bytes at a stage's two boundaries, for one position.
struct RowHash {
  SequenceId sequence;
  Position position = 0;
  std::uint32_t stage = 0;
  LayerRange layers;
  Hash256 in;
  Hash256 out;
  friend bool operator==(const RowHash&, const RowHash&) = default;
};

// The model's sizes, with which a decoder refuses a message that does not fit.
struct StepShape {
  std::uint32_t hidden_size = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  bool with_activations = false;  // false: activations must be empty
  bool keeps_state = false;       // of sequences, which then go back to no earlier position
};

// Layout: fields in the order of the structs, little-endian, no padding; each vector as a u32
// count, then its items; an open's choices (hashes, receipt, background, scored, scope, no drafts,
// embedding) are bits of one byte. Two sizes are not sent because the receiver computes them: the
// activations (rows x hidden_size x 2 bytes, to the end) and a SubmitMessage's prompt (likewise, 4
// bytes). The last list of StepTokens has the counts of a draft model's drafts. It is left
// out when it would be empty, because protocols before 11 do not know it.
Bytes encode(const StepBatch& batch);
Bytes encode(const StepTokens& tokens);
Bytes encode(const SubmitMessage& submit);
Bytes encode(const CancelMessage& cancel);

// As in a SequenceOpen; receipts commit to these bytes.
Bytes encode(const SamplingParams& params);
Result<SamplingParams> decode_sampling(ByteSpan bytes, std::uint32_t vocabulary);

// Decoders check every count against base/limits.h and the shape before they allocate, and every id
// and number against its range. They refuse extra bytes. Errors are kInvalidInput.
Result<StepBatch> decode_step_batch(ByteSpan bytes, const StepShape& shape);
Result<StepTokens> decode_step_tokens(ByteSpan bytes, const StepShape& shape);
Result<SubmitMessage> decode_submit(ByteSpan bytes, const StepShape& shape);
Result<CancelMessage> decode_cancel(ByteSpan bytes);

// Checks the range of every field; the error names field and limit. Decoders and the HTTP API use
// it.
Status validate(const SamplingParams& params, std::uint32_t vocabulary);
// The same for a whole SequenceOpen: 1 <= prompt_tokens, and prompt_tokens + max_tokens <= context.
Status validate(const SequenceOpen& open, const StepShape& shape);

}  // namespace hearth
