#include "tests/tools/logits_base.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/limits.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

constexpr std::string_view kLogitsMagic = "_logits_";
constexpr float kDepth = 16.0F;  // below the largest logit: what lies deeper is cut off
constexpr float kSteps = 65'535.0F;
constexpr std::uint32_t kLeastContext = 4;                 // tokens that have a scored position
constexpr std::uint64_t kMostTokens = limits::kTextBytes;  // no text has more

Status check_range(std::string_view field, std::uint64_t offset, std::uint64_t value,
                   std::uint64_t low, std::uint64_t high) {
  REQUIRE(value >= low && value <= high, std::string(field) + " at byte " + std::to_string(offset) +
                                             " is " + std::to_string(value) + ", allowed are " +
                                             std::to_string(low) + " to " + std::to_string(high));
  return ok_status();
}

Error logits_write_error(const std::string& path) {
  return {ErrorCode::kIo, quote(path) + ": cannot write the file: " + std::strerror(errno)};
}

Error named(const std::string& name, Error error) {
  error.message = quote(name) + ": " + error.message;
  return error;
}

}  // namespace

std::size_t LogitsShape::row_bytes() const {
  const std::size_t even = (std::size_t{vocabulary} + 1) / 2 * 2;
  return 2 * sizeof(float) + even * sizeof(std::uint16_t);
}

std::uint64_t LogitsShape::header_bytes() const {
  return kLogitsMagic.size() + 3 * sizeof(std::uint32_t) + tokens() * sizeof(TokenId);
}

std::uint64_t LogitsShape::row_offset(std::uint32_t chunk, std::uint32_t row) const {
  return header_bytes() + (std::uint64_t{chunk} * rows_per_chunk() + row) * row_bytes();
}

Status validate(const LogitsShape& shape) {
  const std::size_t at = kLogitsMagic.size();
  TRY_VOID(check_range("context", at, shape.context, kLeastContext, limits::kModelContext));
  TRY_VOID(check_range("vocabulary", at + 4, shape.vocabulary, 1, limits::kVocabulary));
  TRY_VOID(check_range("chunks", at + 8, shape.chunks, 1, kMostTokens / shape.context));
  return ok_status();
}

Status LogitsBase::read(ByteSpan bytes, const std::string& name) {
  name_ = name;
  bytes_ = bytes;
  ByteReader reader(bytes);
  REQUIRE(as_text(reader.take(kLogitsMagic.size())) == kLogitsMagic,
          "the first bytes are not " + quote(kLogitsMagic) +
              "; the file is not one of log probabilities");
  shape_.context = reader.read<std::uint32_t>();
  shape_.vocabulary = reader.read<std::uint32_t>();
  shape_.chunks = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), "the header ends at byte " + std::to_string(bytes.size()));
  TRY_VOID(validate(shape_));
  REQUIRE(bytes.size() == shape_.file_bytes(),
          "the file has " + std::to_string(bytes.size()) + " bytes, " +
              std::to_string(shape_.chunks) + " chunks of " + std::to_string(shape_.context) +
              " tokens and a vocabulary of " + std::to_string(shape_.vocabulary) + " take " +
              std::to_string(shape_.file_bytes()));
  tokens_.resize(shape_.tokens());
  for (TokenId& token : tokens_) {
    const std::size_t offset = reader.offset();
    token = reader.read<TokenId>();
    REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < shape_.vocabulary,
            "token " + std::to_string(token) + " at byte " + std::to_string(offset) +
                " is not in the vocabulary of " + std::to_string(shape_.vocabulary));
  }
  return ok_status();
}

Result<std::shared_ptr<const LogitsBase>> LogitsBase::parse(ByteSpan bytes,
                                                            const std::string& name) {
  std::shared_ptr<LogitsBase> base(new LogitsBase);
  if (auto status = base->read(bytes, name); !status.ok()) return named(name, status.error());
  return std::shared_ptr<const LogitsBase>(std::move(base));
}

Result<std::shared_ptr<const LogitsBase>> LogitsBase::open(const std::string& path) {
  TRY(MappedFile mapping, MappedFile::open(path));
  std::shared_ptr<LogitsBase> base(new LogitsBase);
  base->mapping_ = std::move(mapping);
  if (auto status = base->read(base->mapping_.bytes(), path); !status.ok()) {
    return named(path, status.error());
  }
  TRY_VOID(base->mapping_.check_unchanged());
  return std::shared_ptr<const LogitsBase>(std::move(base));
}

Result<LogitsRow> LogitsBase::row(std::uint32_t chunk, std::uint32_t row) const {
  const std::uint64_t offset = shape_.row_offset(chunk, row);
  INVARIANT(offset + shape_.row_bytes() <= bytes_.size(), "a row is one of the file's");
  ByteReader reader(bytes_.subspan(offset, shape_.row_bytes()));
  LogitsRow found;
  found.scale = reader.read<float>();
  found.least = reader.read<float>();
  found.steps = bytes_.data() + offset + reader.offset();
  REQUIRE(std::isfinite(found.scale) && found.scale >= 0.0F && found.scale <= 1.0F,
          quote(name_) + ": the scale at byte " + std::to_string(offset) + " is not in 0 to 1");
  REQUIRE(std::isfinite(found.least), quote(name_) + ": the least log probability at byte " +
                                          std::to_string(offset + sizeof(float)) +
                                          " is not finite");
  return found;
}

Bytes encode_logits_row(std::span<const float> logits) {
  INVARIANT(!logits.empty(), "a row has a value for every token");
  const auto [smallest, largest] = std::minmax_element(logits.begin(), logits.end());
  const float high = *largest;
  const float low = std::max(*smallest, high - kDepth);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - high);
  const float scale = (high - low) / kSteps;

  const float least = low - high - static_cast<float>(std::log(sum));
  Bytes row(LogitsShape{0, static_cast<std::uint32_t>(logits.size()), 0}.row_bytes());
  std::memcpy(row.data(), &scale, sizeof scale);
  std::memcpy(row.data() + sizeof scale, &least, sizeof least);
  std::byte* next = row.data() + sizeof scale + sizeof least;
  const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
  for (const float logit : logits) {
    const float distance = std::nearbyint(inverse * std::max(0.0F, logit - low));
    const auto step = static_cast<std::uint16_t>(std::min(distance, kSteps));
    std::memcpy(next, &step, sizeof step);
    next += sizeof step;
  }
  INVARIANT(next <= row.data() + row.size(), "a row has room for every token");
  return row;
}

Result<std::unique_ptr<LogitsWriter>> LogitsWriter::create(const std::string& path,
                                                           const LogitsShape& shape,
                                                           std::span<const TokenId> tokens) {
  TRY_VOID(validate(shape));
  REQUIRE(tokens.size() == shape.tokens(), std::to_string(tokens.size()) + " tokens for " +
                                               std::to_string(shape.tokens()) + " places");
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return logits_write_error(path);
  std::unique_ptr<LogitsWriter> file(new LogitsWriter(path, shape, descriptor));
  Bytes header;
  ByteWriter writer(header);
  writer.append(as_bytes(kLogitsMagic));
  writer.write(shape.context);
  writer.write(shape.vocabulary);
  writer.write(shape.chunks);
  writer.append(std::as_bytes(tokens));
  TRY_VOID(file->write_at(0, header));
  return file;
}

LogitsWriter::~LogitsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status LogitsWriter::write_at(std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return logits_write_error(path_);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

Status LogitsWriter::put(std::uint32_t chunk, std::uint32_t row, std::span<const float> logits) {
  INVARIANT(logits.size() == shape_.vocabulary, "a row has a value for every token");
  return write_at(shape_.row_offset(chunk, row), encode_logits_row(logits));
}

Status LogitsWriter::finish() {
  INVARIANT(descriptor_ >= 0, "a file is finished once");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) return logits_write_error(path_);
  return ok_status();
}

}  // namespace hearth::model
