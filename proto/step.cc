#include "proto/step.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace hearth {
namespace {

constexpr std::size_t kRowBytes = 8 + 4 + 4 + 1;
constexpr std::size_t kTruncateBytes = 8 + 4;
constexpr std::size_t kTokenBytesMin = 8 + 4 + 4 + 1 + 1 + 4 + 4;
constexpr std::size_t kLogprobBytes = 4 + 4;
constexpr std::size_t kCachedBytes = 8 + 4;
constexpr std::size_t kFirstKinds = 2;  // kinds of drafts that every protocol knows
constexpr std::size_t kDraftsBytesMin = 8 + kFirstKinds * (4 + 4) + 4;
constexpr std::size_t kModelledBytes = 8 + 4 + 4;
constexpr std::size_t kEmbeddingBytesMin = 8 + 4 + 4;
constexpr std::uint8_t kKnownFlags =
    BatchRow::kSample | BatchRow::kFailed | BatchRow::kDraft | BatchRow::kForced;
static_assert(BatchRow::kCached == BatchRow::kForced, "no draft is cached: one bit serves both");
static_assert(BatchRow::kModelled == 1U << BatchRow::kReasonShift,
              "a row has no reason unless it failed: one bit serves both");
static_assert(kDraftKinds == kFirstKinds + 1, "each kind of drafts is written once");
// The byte behind an open's prompt_tokens.
constexpr std::uint8_t kReportHashes = 1;
constexpr std::uint8_t kMakeReceipt = 2;
constexpr std::uint8_t kBackground = 4;
constexpr std::uint8_t kScored = 8;
constexpr std::uint8_t kScoped = 16;
constexpr std::uint8_t kNoDrafts = 32;
constexpr std::uint8_t kEmbedding = 64;
constexpr std::uint8_t kOpenFlags =
    kReportHashes | kMakeReceipt | kBackground | kScored | kScoped | kNoDrafts | kEmbedding;

// Bits of the flags byte after the stop tokens; errors call it `logprobs`.
constexpr std::uint8_t kLogprobs = 1;
constexpr std::uint8_t kGrammar = 2;

static_assert(kRowBytes == sizeof(SequenceId::value) + sizeof(Position) + sizeof(TokenId) +
                               sizeof(BatchRow::flags),
              "kRowBytes counts every field of a row");
static_assert(kTruncateBytes == sizeof(SequenceId::value) + sizeof(Position),
              "kTruncateBytes counts every field of a truncate");
static_assert(kKnownFlags == (1U << BatchRow::kReasonShift) - 1,
              "every flag below the reason has a meaning");
static_assert(kKnownFlags < (1U << BatchRow::kReasonShift) &&
                  static_cast<unsigned>(ErrorCode::kNumeric) < (1U << (8 - BatchRow::kReasonShift)),
              "the flags and the reason of a row share one byte without overlap");
static_assert(kLogprobBytes == sizeof(TokenId) + sizeof(float),
              "kLogprobBytes counts every field of a log-probability");
static_assert(static_cast<int>(FinishReason::kError) == 3, "the error of tokens.finish names 3");
static_assert(kOpenFlags == 127, "the flags fill the lowest bits: every value up to 127 is valid");
static_assert(kCachedBytes == sizeof(CachedPrefix::sequence) + sizeof(CachedPrefix::positions),
              "kCachedBytes counts every field of a cached prefix");

// --- what the messages share ---

// A list: a u32 count, at most `limit`, then items of at least `item_bytes`, which the rest must be
// able to hold before anything is allocated; `read_item` gives the Result of the next one.
template <typename ReadItem>
auto read_list(ByteReader& reader, const char* field, std::size_t limit, std::size_t item_bytes,
               const ReadItem& read_item)
    -> Result<std::vector<std::decay_t<decltype(*read_item())>>> {
  const auto count = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), "the message ends before the count of ", field);
  REQUIRE(count <= limit, field, " has ", count, " entries; the limit is ", limit);
  REQUIRE(count <= reader.remaining() / item_bytes, field, " has ", count, " entries but only ",
          reader.remaining(), " bytes follow");
  std::vector<std::decay_t<decltype(*read_item())>> items;
  items.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(auto item, read_item());
    items.push_back(std::move(item));
  }
  return items;
}

template <typename Item, typename WriteItem>
void write_list(ByteWriter& writer, const std::vector<Item>& items, const WriteItem& write_item) {
  writer.write(static_cast<std::uint32_t>(items.size()));
  for (const Item& item : items) write_item(item);
}

Result<TokenId> read_token(ByteReader& reader, const char* field, std::uint32_t vocabulary) {
  const auto token = reader.read<TokenId>();
  REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < vocabulary, field, " is token ", token,
          "; the vocabulary has ", vocabulary);
  return token;
}

Result<Position> read_position(ByteReader& reader, const char* field, std::uint32_t context) {
  const auto position = reader.read<Position>();
  REQUIRE(position < context, field, " is ", position, "; the context has ", context, " positions");
  return position;
}

Status check_distinct(std::vector<SequenceId> sequences, const char* field) {
  std::sort(sequences.begin(), sequences.end());
  const auto twice = std::adjacent_find(sequences.begin(), sequences.end());
  REQUIRE(twice == sequences.end(), field, " names sequence ", twice->value, " twice");
  return ok_status();
}

// A list may name a sequence only once.
template <typename Item>
Status check_sequences(const std::vector<Item>& items, const char* field) {
  std::vector<SequenceId> ids;
  for (const Item& item : items) ids.push_back(item.sequence);
  return check_distinct(std::move(ids), field);
}

// Items of a sequence stand together, their positions ascending by one.
template <typename Item>
Status check_runs(const std::vector<Item>& items, const char* field) {
  std::vector<SequenceId> runs;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].sequence != items[i - 1].sequence) {
      runs.push_back(items[i].sequence);
      continue;
    }
    const std::uint64_t before = items[i - 1].position;
    REQUIRE(items[i].position == before + 1, field, " of sequence ", items[i].sequence.value,
            " go from position ", before, " to ", items[i].position);
  }
  return check_distinct(std::move(runs), field);
}

Result<std::vector<SequenceId>> read_sequences(ByteReader& reader, const char* field,
                                               std::size_t limit) {
  TRY(std::vector<SequenceId> sequences,
      read_list(reader, field, limit, sizeof(std::uint64_t),
                [&] { return Result<SequenceId>(SequenceId(reader.read<std::uint64_t>())); }));
  TRY_VOID(check_distinct(sequences, field));
  return sequences;
}

void write_sequences(ByteWriter& writer, const std::vector<SequenceId>& sequences) {
  write_list(writer, sequences, [&](SequenceId sequence) { writer.write(sequence.value); });
}

// The message is complete, without extra bytes.
Status check_consumed(const ByteReader& reader, const char* message) {
  REQUIRE(!reader.failed(), "a ", message, " message ends too early, after ", reader.offset(),
          " bytes");
  REQUIRE(reader.remaining() == 0, "a ", message, " message has ", reader.remaining(),
          " bytes after its end");
  return ok_status();
}

// --- an open ---

void write_sampling(ByteWriter& writer, const SamplingParams& params) {
  writer.write(params.temperature, params.top_k, params.top_p, params.min_p,
               params.repetition_penalty, params.presence_penalty, params.frequency_penalty,
               params.seed);
  write_list(writer, params.logit_bias,
             [&](const auto& bias) { writer.write(bias.first, bias.second); });
  writer.write(params.max_tokens);
  write_list(writer, params.stop_tokens, [&](TokenId token) { writer.write(token); });
  // A request without a grammar has the same bytes as in builds without grammars.
  const auto flags = static_cast<std::uint8_t>((params.logprobs ? kLogprobs : 0) |
                                               (params.grammar.empty() ? 0 : kGrammar));
  writer.write(flags, params.top_logprobs);
  if (params.grammar.empty()) return;
  writer.write(static_cast<std::uint32_t>(params.grammar.size()));
  writer.append(params.grammar);
}

Result<SamplingParams> read_sampling(ByteReader& reader, std::uint32_t vocabulary) {
  SamplingParams params;
  reader.read_into(params.temperature, params.top_k, params.top_p, params.min_p,
                   params.repetition_penalty, params.presence_penalty, params.frequency_penalty,
                   params.seed);
  using Bias = std::pair<TokenId, float>;
  TRY(params.logit_bias, read_list(reader, "logit_bias", limits::kLogitBias, kLogprobBytes, [&] {
        Bias bias;
        reader.read_into(bias.first, bias.second);
        return Result<Bias>(bias);
      }));
  params.max_tokens = reader.read<std::uint32_t>();
  TRY(params.stop_tokens, read_list(reader, "stop_tokens", limits::kStopTokens, sizeof(TokenId),
                                    [&] { return Result<TokenId>(reader.read<TokenId>()); }));
  const auto flags = reader.read<std::uint8_t>();
  REQUIRE(flags <= (kLogprobs | kGrammar), "logprobs is ", flags, "; it must be 0 to 3");
  params.logprobs = (flags & kLogprobs) != 0;
  params.top_logprobs = reader.read<std::uint32_t>();
  if ((flags & kGrammar) != 0) {
    const auto size = reader.read<std::uint32_t>();
    REQUIRE(size >= 1 && size <= limits::kGrammarBytes, "grammar has ", size,
            " bytes; it must have 1 to ", limits::kGrammarBytes);
    const ByteSpan bytes = reader.take(size);
    params.grammar.assign(bytes.begin(), bytes.end());
  }
  TRY_VOID(validate(params, vocabulary));
  return params;
}

void write_open(ByteWriter& writer, const SequenceOpen& open) {
  const auto flag = [](bool set, std::uint8_t bit) { return set ? bit : std::uint8_t{0}; };
  const auto flags = static_cast<std::uint8_t>(
      flag(open.report_hashes, kReportHashes) | flag(open.receipt.has_value(), kMakeReceipt) |
      flag(open.background, kBackground) | flag(!open.scored.empty(), kScored) |
      flag(open.scope.has_value(), kScoped) | flag(!open.drafts, kNoDrafts) |
      flag(open.embedding > 0, kEmbedding));
  writer.write(open.sequence.value, open.prompt_tokens, flags);
  if (open.receipt) {
    writer.append(open.receipt->request);
    writer.append(open.receipt->salt.bytes);
  }
  if (!open.scored.empty()) {
    write_list(writer, open.scored, [&](TokenId token) { writer.write(token); });
  }
  if (open.scope) writer.append(open.scope->bytes);
  if (open.embedding > 0) writer.write(open.embedding);
  write_sampling(writer, open.sampling);
}

Result<SequenceOpen> read_open(ByteReader& reader, const StepShape& shape) {
  SequenceOpen open;
  reader.read_into(open.sequence.value, open.prompt_tokens);
  const auto flags = reader.read<std::uint8_t>();
  REQUIRE(flags <= kOpenFlags, "report_hashes is ", flags, "; it must be 0 to ", kOpenFlags);
  open.drafts = (flags & kNoDrafts) == 0;
  open.report_hashes = (flags & kReportHashes) != 0;
  open.background = (flags & kBackground) != 0;
  if ((flags & kMakeReceipt) != 0) {
    ReceiptOrder& order = open.receipt.emplace();
    std::ranges::copy(reader.take(order.request.size()), order.request.begin());
    std::ranges::copy(reader.take(order.salt.bytes.size()), order.salt.bytes.begin());
  }
  if ((flags & kScored) != 0) {
    TRY(open.scored, read_list(reader, "scored", limits::kScoredTokens, sizeof(TokenId),
                               [&] { return read_token(reader, "scored", shape.vocabulary); }));
    REQUIRE(!open.scored.empty(), "scored has no tokens; it needs at least 1");
  }
  if ((flags & kScoped) != 0) {
    Hash256& scope = open.scope.emplace();
    std::ranges::copy(reader.take(scope.bytes.size()), scope.bytes.begin());
  }
  if ((flags & kEmbedding) != 0) {
    open.embedding = reader.read<std::uint32_t>();
    REQUIRE(open.embedding > 0, "embedding has no values; it needs at least 1");
  }
  TRY(open.sampling, read_sampling(reader, shape.vocabulary));
  REQUIRE(!reader.failed(), "the message ends inside an open");
  TRY_VOID(validate(open, shape));
  return open;
}

// The minimum bytes of an encoded SequenceOpen.
std::size_t open_bytes_min() {
  static const std::size_t bytes = [] {
    Bytes encoded;
    ByteWriter writer(encoded);
    write_open(writer, SequenceOpen{});
    return encoded.size();
  }();
  return bytes;
}

// --- parts of a batch and of its answer ---

Result<BatchRow> read_row(ByteReader& reader, const StepShape& shape) {
  BatchRow row;
  row.sequence = SequenceId(reader.read<std::uint64_t>());
  TRY(row.position, read_position(reader, "rows.position", shape.context));
  TRY(row.token, read_token(reader, "rows.token", shape.vocabulary));
  row.flags = reader.read<std::uint8_t>();
  const std::uint8_t lower = row.flags & ((1U << BatchRow::kReasonShift) - 1);
  REQUIRE(!row.draft() || row.sampled(), "rows.flags is ", row.flags,
          "; a row that is a draft is sampled");
  const bool modelled = !row.failed() && row.kind() == DraftKind::kModel;
  const std::uint8_t most = modelled ? lower | BatchRow::kModelled : lower;
  REQUIRE(!modelled || row.draft(), "rows.flags is ", row.flags,
          "; only a draft has the flag of a draft model");
  REQUIRE(row.reason() <= ErrorCode::kNumeric && (row.failed() || most == row.flags),
          "rows.flags is ", row.flags, "; its reason has no meaning");
  return row;
}

Result<SequenceTruncate> read_truncate(ByteReader& reader, const StepShape& shape) {
  SequenceTruncate truncate;
  reader.read_into(truncate.sequence.value, truncate.length);
  REQUIRE(truncate.length >= 1 && truncate.length <= shape.context, "truncates.length is ",
          truncate.length, "; allowed are 1 to ", shape.context);
  return truncate;
}

Result<float> read_logprob(ByteReader& reader, const char* field) {
  const auto value = reader.read<float>();
  REQUIRE(std::isfinite(value), field, " is not a finite number");
  return value;
}

Result<TokenLogprob> read_alternative(ByteReader& reader, const StepShape& shape) {
  TokenLogprob entry;
  TRY(entry.token, read_token(reader, "tokens.top.token", shape.vocabulary));
  TRY(entry.logprob, read_logprob(reader, "tokens.top.logprob"));
  return entry;
}

Result<SampledToken> read_sampled(ByteReader& reader, const StepShape& shape) {
  SampledToken token;
  token.sequence = SequenceId(reader.read<std::uint64_t>());
  TRY(token.position, read_position(reader, "tokens.position", shape.context));
  TRY(token.token, read_token(reader, "tokens.token", shape.vocabulary));
  const auto finish = reader.read<std::uint8_t>();
  REQUIRE(finish <= static_cast<std::uint8_t>(FinishReason::kError), "tokens.finish is ", finish,
          "; the largest known is 3");
  token.finish = static_cast<FinishReason>(finish);
  const auto error = reader.read<std::uint8_t>();
  REQUIRE(error <= static_cast<std::uint8_t>(ErrorCode::kNumeric), "tokens.error is ", error,
          "; the largest known is ", static_cast<int>(ErrorCode::kNumeric));
  token.error = static_cast<ErrorCode>(error);
  TRY(token.logprob, read_logprob(reader, "tokens.logprob"));
  TRY(token.top, read_list(reader, "tokens.top", limits::kTopLogprobs, kLogprobBytes,
                           [&] { return read_alternative(reader, shape); }));
  REQUIRE(std::ranges::is_sorted(token.top, std::ranges::greater(), &TokenLogprob::logprob),
          "tokens.top is not descending");
  return token;
}

Result<CachedPrefix> read_cached(ByteReader& reader, const StepShape& shape) {
  CachedPrefix cached;
  reader.read_into(cached.sequence.value, cached.positions);
  REQUIRE(cached.positions >= 1 && cached.positions < shape.context, "cached.positions is ",
          cached.positions, "; allowed are 1 to ", shape.context - 1);
  return cached;
}

Result<DraftCount> read_count(ByteReader& reader) {
  DraftCount count;
  reader.read_into(count.drafted, count.accepted);
  REQUIRE(count.drafted <= limits::kDraftRows && count.accepted <= count.drafted,
          "drafts say that ", count.accepted, " of ", count.drafted,
          " were accepted; the limit is ", limits::kDraftRows);
  return count;
}

Result<SequenceDrafts> read_drafts(ByteReader& reader, const StepShape& shape) {
  SequenceDrafts drafts;
  reader.read_into(drafts.sequence.value);
  for (std::size_t kind = 0; kind < kFirstKinds; ++kind) {
    TRY(drafts.counts[kind], read_count(reader));
  }
  TRY(drafts.forced, read_list(reader, "drafts.forced", limits::kDraftRows, sizeof(TokenId),
                               [&] { return read_token(reader, "drafts", shape.vocabulary); }));
  return drafts;
}

// Counts of a draft model's drafts, each of a sequence in tokens.drafts.
Result<SequenceDrafts> read_modelled(ByteReader& reader) {
  SequenceDrafts drafts;
  reader.read_into(drafts.sequence.value);
  TRY(drafts.counts[kFirstKinds], read_count(reader));
  REQUIRE(drafts.counts[kFirstKinds].drafted > 0,
          "modelled.drafted is 0; it must be 1 or more, or the entry left out");
  return drafts;
}

Status read_all_modelled(ByteReader& reader, std::vector<SequenceDrafts>& drafts) {
  TRY(const std::vector<SequenceDrafts> modelled,
      read_list(reader, "modelled", drafts.size(), kModelledBytes,
                [&] { return read_modelled(reader); }));
  REQUIRE(!modelled.empty(), "modelled is empty; it must have 1 or more entries, or be left out");
  auto next = drafts.begin();  // both lists have the same order
  for (const SequenceDrafts& one : modelled) {
    next = std::ranges::find(next, drafts.end(), one.sequence, &SequenceDrafts::sequence);
    REQUIRE(next != drafts.end(), "modelled names sequence ", one.sequence.value,
            "; its sequences must be in drafts, in the same order");
    next->counts[kFirstKinds] = one.counts[kFirstKinds];
    ++next;
  }
  return ok_status();
}

Result<PromptEmbedding> read_embedding(ByteReader& reader, const StepShape& shape) {
  PromptEmbedding out;
  out.sequence = SequenceId(reader.read<std::uint64_t>());
  const std::size_t most = std::min<std::size_t>(shape.hidden_size, limits::kEmbeddingValues);
  TRY(out.values,
      read_list(reader, "embeddings.values", most, sizeof(float), [&]() -> Result<float> {
        const auto value = reader.read<float>();
        REQUIRE(std::isfinite(value), "embeddings.values has a value that is not finite");
        return value;
      }));
  REQUIRE(!out.values.empty(), "embeddings.values has no entries");
  return out;
}

Status check_submitted(std::size_t bytes, const SequenceOpen& open) {
  const std::uint64_t least = open.prompt_tokens;
  const std::uint64_t most = least + open.sampling.max_tokens - 1;
  REQUIRE(bytes % sizeof(TokenId) == 0 && bytes / sizeof(TokenId) >= least &&
              bytes / sizeof(TokenId) <= most,
          "the tokens have ", bytes, " bytes; a prompt of ", least, " that is to go on has ", least,
          " to ", most, " tokens of 4 bytes");
  return ok_status();
}

}  // namespace

Bytes encode(const SamplingParams& params) {
  Bytes out;
  ByteWriter writer(out);
  write_sampling(writer, params);
  return out;
}

Result<SamplingParams> decode_sampling(ByteSpan bytes, std::uint32_t vocabulary) {
  ByteReader reader(bytes);
  TRY(SamplingParams params, read_sampling(reader, vocabulary));
  TRY_VOID(check_consumed(reader, "sampling parameters"));
  return params;
}

Bytes encode(const StepBatch& batch) {
  Bytes out;
  out.reserve(64 + batch.opens.size() * 128 + batch.truncates.size() * kTruncateBytes +
              batch.releases.size() * 8 + batch.rows.size() * kRowBytes + batch.activations.size());
  ByteWriter writer(out);
  writer.write(batch.epoch.value, batch.step.value, batch.boundary);
  write_list(writer, batch.opens, [&](const SequenceOpen& open) { write_open(writer, open); });
  write_list(writer, batch.truncates, [&](const SequenceTruncate& truncate) {
    writer.write(truncate.sequence.value, truncate.length);
  });
  write_sequences(writer, batch.releases);
  write_list(writer, batch.rows, [&](const BatchRow& row) {
    writer.write(row.sequence.value, row.position, row.token, row.flags);
  });
  writer.append(batch.activations);
  return out;
}

Result<StepBatch> decode_step_batch(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  StepBatch batch;
  reader.read_into(batch.epoch.value, batch.step.value, batch.boundary);
  TRY(batch.opens, read_list(reader, "opens", limits::kBatchOpens, open_bytes_min(),
                             [&] { return read_open(reader, shape); }));
  TRY_VOID(check_sequences(batch.opens, "opens"));
  TRY(batch.truncates, read_list(reader, "truncates", limits::kBatchTruncates, kTruncateBytes,
                                 [&] { return read_truncate(reader, shape); }));
  TRY_VOID(check_sequences(batch.truncates, "truncates"));
  TRY(batch.releases, read_sequences(reader, "releases", limits::kBatchReleases));
  TRY(batch.rows, read_list(reader, "rows", limits::kBatchRows, kRowBytes,
                            [&] { return read_row(reader, shape); }));
  TRY_VOID(check_runs(batch.rows, "rows"));
  const std::size_t expected =
      shape.with_activations ? batch.rows.size() * shape.hidden_size * 2 : 0;
  REQUIRE(reader.remaining() == expected, "activations have ", reader.remaining(), " bytes; ",
          batch.rows.size(), " rows of this model need ", expected);
  const ByteSpan activations = reader.take(expected);
  batch.activations.assign(activations.begin(), activations.end());
  TRY_VOID(check_consumed(reader, "batch"));
  return batch;
}

Bytes encode(const StepTokens& tokens) {
  Bytes out;
  ByteWriter writer(out);
  const auto write_sampled = [&](const SampledToken& token) {
    writer.write(token.sequence.value, token.position, token.token,
                 static_cast<std::uint8_t>(token.finish), static_cast<std::uint8_t>(token.error),
                 token.logprob);
    write_list(writer, token.top,
               [&](const TokenLogprob& entry) { writer.write(entry.token, entry.logprob); });
  };
  writer.write(tokens.epoch.value, tokens.step.value);
  write_list(writer, tokens.tokens, write_sampled);
  write_sequences(writer, tokens.released);
  write_list(writer, tokens.scores, write_sampled);
  write_list(writer, tokens.cached, [&](const CachedPrefix& cached) {
    writer.write(cached.sequence.value, cached.positions);
  });
  write_list(writer, tokens.drafts, [&](const SequenceDrafts& drafts) {
    writer.write(drafts.sequence.value);
    for (std::size_t kind = 0; kind < kFirstKinds; ++kind) {
      writer.write(drafts.counts[kind].drafted, drafts.counts[kind].accepted);
    }
    write_list(writer, drafts.forced, [&](TokenId token) { writer.write(token); });
  });
  write_list(writer, tokens.embeddings, [&](const PromptEmbedding& embedding) {
    writer.write(embedding.sequence.value);
    write_list(writer, embedding.values, [&](float value) { writer.write(value); });
  });
  std::vector<SequenceDrafts> modelled;
  for (const SequenceDrafts& one : tokens.drafts) {
    if (one.counts[kFirstKinds].drafted > 0) modelled.push_back(one);
  }
  if (modelled.empty()) return out;
  write_list(writer, modelled, [&](const SequenceDrafts& one) {
    const DraftCount& count = one.counts[kFirstKinds];
    writer.write(one.sequence.value, count.drafted, count.accepted);
  });
  return out;
}

Result<StepTokens> decode_step_tokens(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  StepTokens tokens;
  reader.read_into(tokens.epoch.value, tokens.step.value);
  TRY(tokens.tokens, read_list(reader, "tokens", limits::kBatchRows, kTokenBytesMin,
                               [&] { return read_sampled(reader, shape); }));
  TRY_VOID(check_runs(tokens.tokens, "tokens"));
  TRY(tokens.released, read_sequences(reader, "released", limits::kBatchReleases));
  TRY(tokens.scores, read_list(reader, "scores", limits::kBatchRows, kTokenBytesMin,
                               [&] { return read_sampled(reader, shape); }));
  TRY_VOID(check_runs(tokens.scores, "scores"));
  TRY(tokens.cached, read_list(reader, "cached", limits::kBatchRows, kCachedBytes,
                               [&] { return read_cached(reader, shape); }));
  TRY_VOID(check_sequences(tokens.cached, "cached"));
  TRY(tokens.drafts, read_list(reader, "drafts", limits::kBatchRows, kDraftsBytesMin,
                               [&] { return read_drafts(reader, shape); }));
  TRY_VOID(check_sequences(tokens.drafts, "drafts"));
  TRY(tokens.embeddings, read_list(reader, "embeddings", limits::kBatchRows, kEmbeddingBytesMin,
                                   [&] { return read_embedding(reader, shape); }));
  TRY_VOID(check_sequences(tokens.embeddings, "embeddings"));
  if (reader.remaining() > 0) TRY_VOID(read_all_modelled(reader, tokens.drafts));
  TRY_VOID(check_consumed(reader, "tokens"));
  return tokens;
}

Bytes encode(const SubmitMessage& submit) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(submit.epoch.value);
  write_open(writer, submit.open);
  for (const TokenId token : submit.prompt) writer.write(token);
  return out;
}

Result<SubmitMessage> decode_submit(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  SubmitMessage submit;
  submit.epoch = Epoch(reader.read<std::uint64_t>());
  TRY(submit.open, read_open(reader, shape));
  TRY_VOID(check_submitted(reader.remaining(), submit.open));
  const std::size_t count = reader.remaining() / sizeof(TokenId);
  submit.prompt.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    TRY(const TokenId token, read_token(reader, "tokens", shape.vocabulary));
    submit.prompt.push_back(token);
  }
  TRY_VOID(check_consumed(reader, "submit"));
  return submit;
}

Bytes encode(const CancelMessage& cancel) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(cancel.epoch.value);
  write_sequences(writer, cancel.sequences);
  return out;
}

Result<CancelMessage> decode_cancel(ByteSpan bytes) {
  ByteReader reader(bytes);
  CancelMessage cancel;
  cancel.epoch = Epoch(reader.read<std::uint64_t>());
  TRY(cancel.sequences, read_sequences(reader, "sequences", limits::kRunningSequences));
  TRY_VOID(check_consumed(reader, "cancel"));
  return cancel;
}

}  // namespace hearth
