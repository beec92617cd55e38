// KeptRequest: the values with which another process continues a request and gives the same answer:
// token ids and numbers. Its only texts are stop strings, names, echoes, tools and the end of a
// chat's prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "coordinator/request.h"
#include "ledger/receipt.h"
#include "model/chat_template.h"
#include "proto/step.h"

namespace hearth::coordinator::http {

// How the answer of a chat is read: what AnswerForm and the request say of it.
struct KeptAnswer {
  std::string prompt_tail;
  std::vector<model::ChatTool> tools;  // their names and parameters alone
  bool parallel_tool_calls = true;
  bool separate_reasoning = true;
  friend bool operator==(const KeptAnswer&, const KeptAnswer&) = default;
};

struct KeptRequest {
  std::string fingerprint;  // of the model; hex
  bool chat = true;
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
  // trust, verify, min_level, share and cache; the others are not written.
  RequestPolicy policy = {};
  std::uint32_t n = 1;  // choices of each prompt
  std::int64_t created = 0;
  // The name of its receipts, which is unique to this computation; nothing: it has no receipts.
  std::optional<ledger::AnswerName> receipt = {};
  KeptAnswer answer = {};
  std::vector<std::string> stop;
  std::vector<std::string> echoes;  // one a prompt, or none
  // One a prompt, with the seed of its first choice; sequence and epoch mean nothing.
  std::vector<SubmitMessage> prompts;
  friend bool operator==(const KeptRequest&, const KeptRequest&) = default;
};

// Layout: a fingerprint, a byte of flags (bits 0 to 3: the booleans in their order, 4 and 5:
// verify, 6 and 7: min_level), then n, created, stop, trust, echoes and prompts, little-endian, no
// padding; each vector and string as a u32 count, then its items, a prompt as a count of bytes and
// encode(SubmitMessage). The highest bit of n is `share`, the next one says that `receipt` follows
// created: versions before them refuse such requests. In a chat the bit after those says that
// `answer` follows created and receipt: a byte of flags (bit 0: several calls, bit 1: reasoning
// apart), the tail, and names and parameters of tools in turn. The two bits after that are `cache`.
Bytes encode(const KeptRequest& request);

// The model that encoded bytes are for. Any bytes.
Result<std::string> kept_fingerprint(ByteSpan bytes);

// Every count is checked against base/limits.h before anything is allocated, every number against
// its range and the model's shape; bytes left over are refused. Errors are kInvalidInput; kVersion
// for the request of another model.
Result<KeptRequest> decode_kept_request(ByteSpan bytes, const StepShape& shape,
                                        std::string_view fingerprint);

}  // namespace hearth::coordinator::http
