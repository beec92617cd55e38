// The file that llama.cpp's `llama-perplexity --kl-divergence-base` writes and reads: the log
// probabilities that one run gave to every token of the vocabulary, for every scored position of a
// text, so that another run can be compared with it.
//
// Layout, little-endian: "_logits_"; context, vocabulary and chunks as u32; the tokens of all
// chunks (i32) as the text has them; then one row a scored position. A row is two fp32, `scale` and
// `least`, then one u16 a token (and one more where the vocabulary is odd): log probability =
// scale * u16 + least. What lies more than 16 below the row's largest is stored as `least`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/mapped_file.h"

namespace hearth::model {

struct LogitsShape {
  std::uint32_t context = 0;  // tokens of a chunk
  std::uint32_t vocabulary = 0;
  std::uint32_t chunks = 0;

  // The second half of a chunk is scored: positions [first_scored, context - 1), each of which has
  // a next token.
  std::uint32_t first_scored() const { return context / 2; }
  std::uint32_t rows_per_chunk() const { return context - 1 - first_scored(); }
  std::uint64_t tokens() const { return std::uint64_t{context} * chunks; }
  std::size_t row_bytes() const;
  std::uint64_t header_bytes() const;
  std::uint64_t row_offset(std::uint32_t chunk, std::uint32_t row) const;
  std::uint64_t file_bytes() const { return row_offset(chunks, 0); }
  friend bool operator==(const LogitsShape&, const LogitsShape&) = default;
};
// Against base/limits.h; kInvalidInput names the field and the limit.
Status validate(const LogitsShape& shape);

// A row as stored; a view.
struct LogitsRow {
  float scale = 0.0F;  // finite, not negative
  float least = 0.0F;  // finite
  const std::byte* steps = nullptr;
  float log_probability(std::uint32_t token) const {
    std::uint16_t step = 0;
    std::memcpy(&step, steps + std::size_t{token} * sizeof step, sizeof step);
    return scale * static_cast<float>(step) + least;
  }
};

class LogitsBase {
 public:
  // kInvalidInput names the field, its offset and the limit; a file that is longer or shorter than
  // its shape says is refused before anything is allocated.
  static Result<std::shared_ptr<const LogitsBase>> open(const std::string& path);
  // Over bytes that outlive the result.
  static Result<std::shared_ptr<const LogitsBase>> parse(ByteSpan bytes, const std::string& name);

  const LogitsShape& shape() const { return shape_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }  // shape().tokens()
  // kInvalidInput when scale or least mean nothing. Thread-safe.
  Result<LogitsRow> row(std::uint32_t chunk, std::uint32_t row) const;

 private:
  LogitsBase() = default;
  Status read(ByteSpan bytes, const std::string& name);
  std::string name_;
  MappedFile mapping_;  // empty after parse()
  ByteSpan bytes_;
  LogitsShape shape_;
  std::vector<TokenId> tokens_;
};

// Rows may come in any order and from any thread; the file is whole once each has come.
class LogitsWriter {
 public:
  static Result<std::unique_ptr<LogitsWriter>> create(const std::string& path,
                                                      const LogitsShape& shape,
                                                      std::span<const TokenId> tokens);
  ~LogitsWriter();
  LogitsWriter(const LogitsWriter&) = delete;
  LogitsWriter& operator=(const LogitsWriter&) = delete;

  Status put(std::uint32_t chunk, std::uint32_t row, std::span<const float> logits);
  Status finish();  // kIo when closing fails

 private:
  LogitsWriter(std::string path, const LogitsShape& shape, int descriptor)
      : path_(std::move(path)), shape_(shape), descriptor_(descriptor) {}
  Status write_at(std::uint64_t offset, ByteSpan bytes);
  const std::string path_;
  const LogitsShape shape_;
  int descriptor_ = -1;
};

// One row of the file, row_bytes() long, from finite logits.
Bytes encode_logits_row(std::span<const float> logits);

}  // namespace hearth::model
