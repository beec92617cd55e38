#include <string>

#include "base/limits.h"
#include "proto/step.h"
#include "proto/step_fields.h"

namespace hearth {

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
  const std::size_t expected = std::size_t{submit.open.prompt_tokens} * sizeof(TokenId);
  REQUIRE(reader.remaining() == expected,
          "the prompt has " + std::to_string(reader.remaining()) + " bytes; prompt_tokens " +
              std::to_string(submit.open.prompt_tokens) + " need " + std::to_string(expected));
  submit.prompt.reserve(submit.open.prompt_tokens);
  for (std::uint32_t i = 0; i < submit.open.prompt_tokens; ++i) {
    TRY(const TokenId token, fields::read_token(reader, "prompt", shape.vocabulary));
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
