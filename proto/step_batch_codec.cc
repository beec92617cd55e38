#include <string>

#include "base/limits.h"
#include "proto/step.h"
#include "proto/step_fields.h"

namespace hearth {
namespace {

constexpr std::size_t kRowBytes = 8 + 4 + 4 + 1;
constexpr std::size_t kTruncateBytes = 8 + 4;
constexpr std::uint8_t kKnownFlags = BatchRow::kSample | BatchRow::kFailed;

static_assert(kRowBytes == sizeof(SequenceId::value) + sizeof(Position) + sizeof(TokenId) +
                               sizeof(BatchRow::flags),
              "kRowBytes counts every field of a row");
static_assert(kTruncateBytes == sizeof(SequenceId::value) + sizeof(Position),
              "kTruncateBytes counts every field of a truncate");
static_assert(kKnownFlags < (1U << BatchRow::kReasonShift) &&
                  static_cast<unsigned>(ErrorCode::kNumeric) < (1U << (8 - BatchRow::kReasonShift)),
              "the flags and the reason of a row share one byte without overlap");

Result<BatchRow> read_row(ByteReader& reader, const StepShape& shape) {
  BatchRow row;
  row.sequence = SequenceId(reader.read<std::uint64_t>());
  TRY(row.position, fields::read_position(reader, "rows.position", shape.context));
  TRY(row.token, fields::read_token(reader, "rows.token", shape.vocabulary));
  row.flags = reader.read<std::uint8_t>();
  const std::uint8_t lower = row.flags & ((1U << BatchRow::kReasonShift) - 1);
  REQUIRE((lower & ~kKnownFlags) == 0,
          "rows.flags is " + std::to_string(row.flags) + "; only bits 1 and 2 have a meaning");
  REQUIRE(row.reason() <= ErrorCode::kNumeric && (row.failed() || lower == row.flags),
          "rows.flags is " + std::to_string(row.flags) + "; its reason has no meaning");
  return row;
}

Result<std::vector<SequenceOpen>> read_opens(ByteReader& reader, const StepShape& shape) {
  TRY(const std::uint32_t count,
      fields::read_count(reader, "opens", limits::kBatchOpens, fields::open_bytes_min()));
  std::vector<SequenceOpen> opens;
  std::vector<SequenceId> ids;
  opens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(SequenceOpen open, fields::read_open(reader, shape));
    ids.push_back(open.sequence);
    opens.push_back(std::move(open));
  }
  TRY_VOID(fields::check_distinct(std::move(ids), "opens"));
  return opens;
}

Result<std::vector<SequenceTruncate>> read_truncates(ByteReader& reader, const StepShape& shape) {
  TRY(const std::uint32_t count,
      fields::read_count(reader, "truncates", limits::kBatchTruncates, kTruncateBytes));
  std::vector<SequenceTruncate> truncates;
  std::vector<SequenceId> ids;
  truncates.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    SequenceTruncate truncate;
    truncate.sequence = SequenceId(reader.read<std::uint64_t>());
    truncate.length = reader.read<Position>();
    REQUIRE(truncate.length >= 1 && truncate.length <= shape.context,
            "truncates.length is " + std::to_string(truncate.length) + "; allowed are 1 to " +
                std::to_string(shape.context));
    ids.push_back(truncate.sequence);
    truncates.push_back(truncate);
  }
  TRY_VOID(fields::check_distinct(std::move(ids), "truncates"));
  return truncates;
}

}  // namespace

Bytes encode(const StepBatch& batch) {
  Bytes out;
  out.reserve(64 + batch.opens.size() * 128 + batch.truncates.size() * kTruncateBytes +
              batch.releases.size() * 8 + batch.rows.size() * kRowBytes + batch.activations.size());
  ByteWriter writer(out);
  writer.write(batch.epoch.value);
  writer.write(batch.step.value);
  writer.write(batch.boundary);
  writer.write(static_cast<std::uint32_t>(batch.opens.size()));
  for (const SequenceOpen& open : batch.opens) fields::write_open(writer, open);
  writer.write(static_cast<std::uint32_t>(batch.truncates.size()));
  for (const SequenceTruncate& truncate : batch.truncates) {
    writer.write(truncate.sequence.value);
    writer.write(truncate.length);
  }
  fields::write_sequences(writer, batch.releases);
  writer.write(static_cast<std::uint32_t>(batch.rows.size()));
  for (const BatchRow& row : batch.rows) {
    writer.write(row.sequence.value);
    writer.write(row.position);
    writer.write(row.token);
    writer.write(row.flags);
  }
  writer.append(batch.activations);
  return out;
}

Result<StepBatch> decode_step_batch(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  StepBatch batch;
  batch.epoch = Epoch(reader.read<std::uint64_t>());
  batch.step = StepId(reader.read<std::uint64_t>());
  batch.boundary = reader.read<std::uint32_t>();
  TRY(batch.opens, read_opens(reader, shape));
  TRY(batch.truncates, read_truncates(reader, shape));
  TRY(batch.releases, fields::read_sequences(reader, "releases", limits::kBatchReleases));
  TRY(const std::uint32_t rows, fields::read_count(reader, "rows", limits::kBatchRows, kRowBytes));
  batch.rows.reserve(rows);
  for (std::uint32_t i = 0; i < rows; ++i) {
    TRY(const BatchRow row, read_row(reader, shape));
    batch.rows.push_back(row);
  }
  TRY_VOID(fields::check_runs(batch.rows, "rows"));
  const std::size_t expected =
      shape.with_activations ? std::size_t{rows} * shape.hidden_size * 2 : 0;
  REQUIRE(reader.remaining() == expected,
          "activations have " + std::to_string(reader.remaining()) + " bytes; " +
              std::to_string(rows) + " rows of this model need " + std::to_string(expected));
  const ByteSpan activations = reader.take(expected);
  batch.activations.assign(activations.begin(), activations.end());
  TRY_VOID(fields::check_consumed(reader, "batch"));
  return batch;
}

}  // namespace hearth
