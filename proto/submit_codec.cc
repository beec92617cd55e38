#include <string>

#include "base/limits.h"
#include "proto/step.h"
#include "proto/step_fields.h"

namespace hearth {

namespace {

Status check_tokens(std::size_t bytes, const SequenceOpen& open) {
  const std::uint64_t least = open.prompt_tokens;
  const std::uint64_t most = least + open.sampling.max_tokens - 1;
  REQUIRE(bytes % sizeof(TokenId) == 0 && bytes / sizeof(TokenId) >= least &&
              bytes / sizeof(TokenId) <= most,
          "the tokens have " + std::to_string(bytes) + " bytes; a prompt of " +
              std::to_string(least) + " that is to go on has " + std::to_string(least) + " to " +
              std::to_string(most) + " tokens of 4 bytes");
  return ok_status();
}

}  // namespace

Bytes encode(const SubmitMessage& submit) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(submit.epoch.value);
  fields::write_open(writer, submit.open);
  for (const TokenId token : submit.prompt) writer.write(token);
  return out;
}

Result<SubmitMessage> decode_submit(ByteSpan bytes, const StepShape& shape) {
  ByteReader reader(bytes);
  SubmitMessage submit;
  submit.epoch = Epoch(reader.read<std::uint64_t>());
  TRY(submit.open, fields::read_open(reader, shape));
  TRY_VOID(check_tokens(reader.remaining(), submit.open));
  const std::size_t count = reader.remaining() / sizeof(TokenId);
  submit.prompt.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    TRY(const TokenId token, fields::read_token(reader, "tokens", shape.vocabulary));
    submit.prompt.push_back(token);
  }
  TRY_VOID(fields::check_consumed(reader, "submit"));
  return submit;
}

Bytes encode(const CancelMessage& cancel) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(cancel.epoch.value);
  fields::write_sequences(writer, cancel.sequences);
  return out;
}

Result<CancelMessage> decode_cancel(ByteSpan bytes) {
  ByteReader reader(bytes);
  CancelMessage cancel;
  cancel.epoch = Epoch(reader.read<std::uint64_t>());
  TRY(cancel.sequences, fields::read_sequences(reader, "sequences", limits::kRunningSequences));
  TRY_VOID(fields::check_consumed(reader, "cancel"));
  return cancel;
}

}  // namespace hearth
