#include "proto/step_fields.h"

#include <algorithm>

#include "base/limits.h"
#include "proto/sampling_codec.h"

namespace hearth::fields {

Result<std::uint32_t> read_count(ByteReader& reader, const char* field, std::size_t limit,
                                 std::size_t item_bytes) {
  const auto count = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), std::string("the message ends before the count of ") + field);
  REQUIRE(count <= limit, std::string(field) + " has " + std::to_string(count) +
                              " entries; the limit is " + std::to_string(limit));
  REQUIRE(count <= reader.remaining() / item_bytes,
          std::string(field) + " has " + std::to_string(count) + " entries but only " +
              std::to_string(reader.remaining()) + " bytes follow");
  return count;
}

Result<bool> read_bool(ByteReader& reader, const char* field) {
  const auto value = reader.read<std::uint8_t>();
  REQUIRE(value <= 1, std::string(field) + " is " + std::to_string(value) + "; it must be 0 or 1");
  return value == 1;
}

Result<TokenId> read_token(ByteReader& reader, const char* field, std::uint32_t vocabulary) {
  const auto token = reader.read<TokenId>();
  REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < vocabulary,
          std::string(field) + " is token " + std::to_string(token) + "; the vocabulary has " +
              std::to_string(vocabulary));
  return token;
}

Result<Position> read_position(ByteReader& reader, const char* field, std::uint32_t context) {
  const auto position = reader.read<Position>();
  REQUIRE(position < context, std::string(field) + " is " + std::to_string(position) +
                                  "; the context has " + std::to_string(context) + " positions");
  return position;
}

Status check_distinct(std::vector<SequenceId> sequences, const char* field) {
  std::sort(sequences.begin(), sequences.end());
  const auto twice = std::adjacent_find(sequences.begin(), sequences.end());
  REQUIRE(twice == sequences.end(),
          std::string(field) + " names sequence " + std::to_string(twice->value) + " twice");
  return ok_status();
}

Result<std::vector<SequenceId>> read_sequences(ByteReader& reader, const char* field,
                                               std::size_t limit) {
  TRY(const std::uint32_t count, read_count(reader, field, limit, sizeof(std::uint64_t)));
  std::vector<SequenceId> sequences;
  sequences.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    sequences.emplace_back(reader.read<std::uint64_t>());
  }
  TRY_VOID(check_distinct(sequences, field));
  return sequences;
}

Status check_consumed(const ByteReader& reader, const char* message) {
  REQUIRE(!reader.failed(), std::string("a ") + message + " message ends too early, after " +
                                std::to_string(reader.offset()) + " bytes");
  REQUIRE(reader.remaining() == 0, std::string("a ") + message + " message has " +
                                       std::to_string(reader.remaining()) + " bytes after its end");
  return ok_status();
}

void write_sequences(ByteWriter& writer, const std::vector<SequenceId>& sequences) {
  writer.write(static_cast<std::uint32_t>(sequences.size()));
  for (const SequenceId sequence : sequences) writer.write(sequence.value);
}

namespace {

void write_sampling(ByteWriter& writer, const SamplingParams& params) {
  writer.write(params.temperature);
  writer.write(params.top_k);
  writer.write(params.top_p);
  writer.write(params.min_p);
  writer.write(params.repetition_penalty);
  writer.write(params.presence_penalty);
  writer.write(params.frequency_penalty);
  writer.write(params.seed);
  writer.write(static_cast<std::uint32_t>(params.logit_bias.size()));
  for (const auto& [token, bias] : params.logit_bias) {
    writer.write(token);
    writer.write(bias);
  }
  writer.write(params.max_tokens);
  writer.write(static_cast<std::uint32_t>(params.stop_tokens.size()));
  for (const TokenId token : params.stop_tokens) writer.write(token);
  writer.write(static_cast<std::uint8_t>(params.logprobs ? 1 : 0));
  writer.write(params.top_logprobs);
}

Result<SamplingParams> read_sampling(ByteReader& reader, std::uint32_t vocabulary) {
  SamplingParams params;
  params.temperature = reader.read<float>();
  params.top_k = reader.read<std::uint32_t>();
  params.top_p = reader.read<float>();
  params.min_p = reader.read<float>();
  params.repetition_penalty = reader.read<float>();
  params.presence_penalty = reader.read<float>();
  params.frequency_penalty = reader.read<float>();
  params.seed = reader.read<std::uint64_t>();
  TRY(const std::uint32_t biases,
      read_count(reader, "logit_bias", limits::kLogitBias, sizeof(TokenId) + sizeof(float)));
  params.logit_bias.reserve(biases);
  for (std::uint32_t i = 0; i < biases; ++i) {
    const auto token = reader.read<TokenId>();
    params.logit_bias.emplace_back(token, reader.read<float>());
  }
  params.max_tokens = reader.read<std::uint32_t>();
  TRY(const std::uint32_t stops,
      read_count(reader, "stop_tokens", limits::kStopTokens, sizeof(TokenId)));
  params.stop_tokens.reserve(stops);
  for (std::uint32_t i = 0; i < stops; ++i) params.stop_tokens.push_back(reader.read<TokenId>());
  TRY(params.logprobs, read_bool(reader, "logprobs"));
  params.top_logprobs = reader.read<std::uint32_t>();
  TRY_VOID(validate(params, vocabulary));
  return params;
}

// The byte behind an open's prompt_tokens.
constexpr std::uint8_t kReportHashes = 1;
constexpr std::uint8_t kMakeReceipt = 2;
constexpr std::uint8_t kBackground = 4;

static_assert((kReportHashes | kMakeReceipt | kBackground) == 7,
              "the three flags fill the lowest bits, so every value up to 7 is valid");

ReceiptOrder read_order(ByteReader& reader) {
  ReceiptOrder order;
  const ByteSpan request = reader.take(order.request.size());
  std::copy(request.begin(), request.end(), order.request.begin());
  const ByteSpan salt = reader.take(order.salt.bytes.size());
  std::copy(salt.begin(), salt.end(), order.salt.bytes.begin());
  return order;
}

}  // namespace

void write_open(ByteWriter& writer, const SequenceOpen& open) {
  writer.write(open.sequence.value);
  writer.write(open.prompt_tokens);
  const auto flag = [](bool set, std::uint8_t bit) { return set ? bit : std::uint8_t{0}; };
  writer.write(static_cast<std::uint8_t>(flag(open.report_hashes, kReportHashes) |
                                         flag(open.receipt.has_value(), kMakeReceipt) |
                                         flag(open.background, kBackground)));
  if (open.receipt) {
    writer.append(open.receipt->request);
    writer.append(open.receipt->salt.bytes);
  }
  write_sampling(writer, open.sampling);
}

Result<SequenceOpen> read_open(ByteReader& reader, const StepShape& shape) {
  SequenceOpen open;
  open.sequence = SequenceId(reader.read<std::uint64_t>());
  open.prompt_tokens = reader.read<std::uint32_t>();
  const auto flags = reader.read<std::uint8_t>();
  REQUIRE(flags <= (kReportHashes | kMakeReceipt | kBackground),
          "report_hashes is " + std::to_string(flags) + "; it must be 0 to 7");
  open.report_hashes = (flags & kReportHashes) != 0;
  open.background = (flags & kBackground) != 0;
  if ((flags & kMakeReceipt) != 0) open.receipt = read_order(reader);
  TRY(open.sampling, read_sampling(reader, shape.vocabulary));
  REQUIRE(!reader.failed(), "the message ends inside an open");
  TRY_VOID(validate(open, shape));
  return open;
}

std::size_t open_bytes_min() {
  static const std::size_t bytes = [] {
    Bytes encoded;
    ByteWriter writer(encoded);
    write_open(writer, SequenceOpen{});
    return encoded.size();
  }();
  return bytes;
}

}  // namespace hearth::fields

namespace hearth {

Bytes encode(const SamplingParams& params) {
  Bytes out;
  ByteWriter writer(out);
  fields::write_sampling(writer, params);
  return out;
}

Result<SamplingParams> decode_sampling(ByteSpan bytes, std::uint32_t vocabulary) {
  ByteReader reader(bytes);
  TRY(SamplingParams params, fields::read_sampling(reader, vocabulary));
  TRY_VOID(fields::check_consumed(reader, "sampling parameters"));
  return params;
}

}  // namespace hearth
