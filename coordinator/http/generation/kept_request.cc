#include "coordinator/http/generation/kept_request.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/limits.h"
#include "proto/frame.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::uint8_t kChat = 1;
constexpr std::uint8_t kStream = 2;
constexpr std::uint8_t kUsage = 4;
constexpr std::uint8_t kTokenIds = 8;
constexpr int kVerifyShift = 4;
constexpr int kLevelShift = 6;
constexpr std::uint8_t kTwoBits = 3;
constexpr std::uint32_t kShared = std::uint32_t{1} << 31;     // beside n
constexpr std::uint32_t kNamed = std::uint32_t{1} << 30;      // likewise
constexpr std::uint32_t kHasAnswer = std::uint32_t{1} << 29;  // likewise
constexpr int kCacheShift = 27;                               // likewise: two bits
constexpr std::uint32_t kCache = std::uint32_t{3} << kCacheShift;
constexpr std::uint8_t kParallel = 1;
constexpr std::uint8_t kSeparate = 2;
constexpr std::size_t kFingerprintBytes = 128;

std::uint8_t flags_of(const KeptRequest& request) {
  return static_cast<std::uint8_t>((request.chat ? kChat : 0) | (request.stream ? kStream : 0) |
                                   (request.include_usage ? kUsage : 0) |
                                   (request.return_token_ids ? kTokenIds : 0) |
                                   static_cast<int>(request.policy.verify) << kVerifyShift |
                                   static_cast<int>(request.policy.min_level) << kLevelShift);
}

void write_bytes(ByteWriter& writer, ByteSpan bytes) {
  writer.write(static_cast<std::uint32_t>(bytes.size()));
  writer.append(bytes);
}

void write_texts(ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.write(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) write_bytes(writer, as_bytes(text));
}

Result<ByteSpan> read_bytes(ByteReader& reader, const char* field, std::size_t limit) {
  const auto size = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed() && size <= reader.remaining(),
          fmt::format("the kept request ends inside {}", field));
  REQUIRE(size <= limit, fmt::format("{} has {} bytes; the limit is {}", field, size, limit));
  return reader.take(size);
}

Result<std::uint32_t> read_count(ByteReader& reader, const char* field, std::size_t limit) {
  const auto count = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), fmt::format("the kept request ends before {}", field));
  REQUIRE(count <= limit, fmt::format("{} has {} entries; the limit is {}", field, count, limit));
  return count;
}

Result<std::vector<std::string>> read_texts(ByteReader& reader, const char* field,
                                            std::size_t count_limit, std::size_t bytes_limit) {
  TRY(const std::uint32_t count, read_count(reader, field, count_limit));
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(const ByteSpan text, read_bytes(reader, field, bytes_limit));
    texts.emplace_back(as_text(text));
  }
  return texts;
}

Result<std::vector<SubmitMessage>> read_prompts(ByteReader& reader, const StepShape& shape) {
  TRY(const std::uint32_t count, read_count(reader, "prompts", limits::kPrompts));
  REQUIRE(count > 0, "the kept request has no prompt");
  std::vector<SubmitMessage> prompts;
  for (std::uint32_t i = 0; i < count; ++i) {
    TRY(const ByteSpan bytes, read_bytes(reader, "prompts", limits::kKeptRequestBytes));
    TRY(SubmitMessage prompt, decode_submit(bytes, shape));
    REQUIRE(prompt.prompt.size() == prompt.open.prompt_tokens,
            fmt::format("a prompt of the kept request declares {} tokens and has {}",
                        prompt.open.prompt_tokens, prompt.prompt.size()));
    REQUIRE(prompts.empty() || prompt.open.report_hashes == prompts[0].open.report_hashes,
            "only some prompts of the kept request report hashes; all or none must");
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

void write_answer(ByteWriter& writer, const KeptAnswer& answer) {
  writer.write(static_cast<std::uint8_t>((answer.parallel_tool_calls ? kParallel : 0) |
                                         (answer.separate_reasoning ? kSeparate : 0)));
  write_bytes(writer, as_bytes(answer.prompt_tail));
  std::vector<std::string> texts;
  for (const model::ChatTool& tool : answer.tools) {
    texts.push_back(tool.name);
    texts.push_back(tool.parameters);
  }
  write_texts(writer, texts);
}

Result<KeptAnswer> read_answer(ByteReader& reader) {
  KeptAnswer answer;
  const auto flags = reader.read<std::uint8_t>();
  REQUIRE(flags <= (kParallel | kSeparate),
          fmt::format("the parse settings of the kept request have the unknown flags {}", flags));
  answer.parallel_tool_calls = (flags & kParallel) != 0;
  answer.separate_reasoning = (flags & kSeparate) != 0;
  TRY(const ByteSpan tail, read_bytes(reader, "prompt tail", limits::kPromptTailBytes));
  answer.prompt_tail = as_text(tail);
  TRY(const auto texts, read_texts(reader, "tools", 2 * limits::kTools, limits::kToolsBytes));
  REQUIRE(texts.size() % 2 == 0, "a tool has a name and no parameters");
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    model::ChatTool tool;
    tool.name = texts[i];
    tool.parameters = texts[i + 1];
    answer.tools.push_back(std::move(tool));
  }
  return answer;
}

Status check_texts(const KeptRequest& request) {
  for (const std::string& stop : request.stop) REQUIRE(!stop.empty(), "a stop string is empty");
  for (const std::string& name : request.policy.trust) TRY_VOID(check_node_name(name));
  REQUIRE(request.echoes.empty() || request.echoes.size() == request.prompts.size(),
          fmt::format("the kept request has {} echoes and {} prompts; they must be equal in number",
                      request.echoes.size(), request.prompts.size()));
  REQUIRE(!request.chat || (request.echoes.empty() && request.prompts.size() == 1),
          "a chat has one prompt and no echo");
  return ok_status();
}

}  // namespace

Bytes encode(const KeptRequest& request) {
  Bytes out;
  ByteWriter writer(out);
  write_bytes(writer, as_bytes(request.fingerprint));
  writer.write(flags_of(request));
  const bool has_answer = request.chat && request.answer != KeptAnswer{};
  writer.write(request.n | (request.policy.share ? kShared : 0) | (request.receipt ? kNamed : 0) |
               (has_answer ? kHasAnswer : 0) |
               static_cast<std::uint32_t>(request.policy.cache) << kCacheShift);
  writer.write(request.created);
  if (request.receipt) writer.append(*request.receipt);
  if (has_answer) write_answer(writer, request.answer);
  write_texts(writer, request.stop);
  write_texts(writer, request.policy.trust);
  write_texts(writer, request.echoes);
  writer.write(static_cast<std::uint32_t>(request.prompts.size()));
  for (const SubmitMessage& prompt : request.prompts) write_bytes(writer, encode(prompt));
  return out;
}

Result<std::string> kept_fingerprint(ByteSpan bytes) {
  ByteReader reader(bytes);
  TRY(const ByteSpan model, read_bytes(reader, "fingerprint", kFingerprintBytes));
  return std::string(as_text(model));
}

Result<KeptRequest> decode_kept_request(ByteSpan bytes, const StepShape& shape,
                                        std::string_view fingerprint) {
  ByteReader reader(bytes);
  KeptRequest request;
  TRY(const ByteSpan model, read_bytes(reader, "fingerprint", kFingerprintBytes));
  request.fingerprint = as_text(model);
  if (request.fingerprint != fingerprint) {
    return Error{ErrorCode::kVersion, "the kept request is for another model than the served one"};
  }
  const auto flags = reader.read<std::uint8_t>();
  const int verify = flags >> kVerifyShift & kTwoBits;
  REQUIRE(verify <= static_cast<int>(Verify::kFull),
          fmt::format("flags are {}, with verify {}; the largest known is {}", flags, verify,
                      static_cast<int>(Verify::kFull)));
  request.policy.verify = static_cast<Verify>(verify);
  request.policy.min_level = static_cast<ledger::Level>(flags >> kLevelShift & kTwoBits);
  request.chat = (flags & kChat) != 0;
  request.stream = (flags & kStream) != 0;
  request.include_usage = (flags & kUsage) != 0;
  request.return_token_ids = (flags & kTokenIds) != 0;
  const auto n = reader.read<std::uint32_t>();
  request.policy.share = (n & kShared) != 0;
  const std::uint32_t cache = (n & kCache) >> kCacheShift;
  REQUIRE(cache <= static_cast<std::uint32_t>(CacheScope::kOff),
          fmt::format("cache is {}; the largest known is {}", cache,
                      static_cast<std::uint32_t>(CacheScope::kOff)));
  request.policy.cache = static_cast<CacheScope>(cache);
  request.n = n & ~(kShared | kNamed | kHasAnswer | kCache);
  request.created = reader.read<std::int64_t>();
  if ((n & kNamed) != 0) {
    ledger::AnswerName name{};
    const ByteSpan bytes_of_name = reader.take(name.size());
    REQUIRE(!reader.failed(), "the kept request ends inside the name of its receipts");
    std::ranges::copy(bytes_of_name, name.begin());
    request.receipt = name;
  }
  if ((n & kHasAnswer) != 0) {
    REQUIRE(request.chat, "the kept request is a completion with the parse settings of a chat");
    TRY(request.answer, read_answer(reader));
    REQUIRE(request.answer != KeptAnswer{},
            "the parse settings of the kept request are the defaults, which must be omitted");
  }
  REQUIRE(request.n >= 1 && request.n <= limits::kChoices,
          fmt::format("n is {}; it must be 1 to {}", request.n, limits::kChoices));
  TRY(request.stop, read_texts(reader, "stop", limits::kStopStrings, limits::kStopStringBytes));
  TRY(request.policy.trust, read_texts(reader, "trust", limits::kStages, limits::kNodeNameBytes));
  TRY(request.echoes, read_texts(reader, "echoes", limits::kPrompts, limits::kTextBytes));
  TRY(request.prompts, read_prompts(reader, shape));
  REQUIRE(reader.remaining() == 0,
          fmt::format("the kept request has {} bytes after its end", reader.remaining()));
  REQUIRE(request.prompts.size() * request.n <= limits::kHttpSequences,
          fmt::format("the kept request has more than {} sequences", limits::kHttpSequences));
  TRY_VOID(check_texts(request));
  return request;
}

}  // namespace hearth::coordinator::http
