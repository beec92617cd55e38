#include "model/synthetic_vocabulary.h"

#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace hearth::model {
namespace {

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;

// "\xC4\xA0" is the letter that byte-level BPE writes for a space.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kFrequent{{
    {"t", "h"},          {"th", "e"},       {"i", "n"},        {"e", "r"},
    {"a", "n"},          {"r", "e"},        {"o", "n"},        {"o", "u"},
    {"an", "d"},         {"in", "g"},       {"\xC4\xA0", "t"}, {"\xC4\xA0", "a"},
    {"\xC4\xA0", "s"},   {"\xC4\xA0", "w"}, {"\xC4\xA0", "c"}, {"\xC4\xA0", "the"},
    {"\xC4\xA0", "and"}, {"h", "e"},        {"l", "l"},        {"\xC4\xA0", "i"},
}};

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  out += static_cast<char>(0xC0 | (code >> 6));
  out += static_cast<char>(0x80 | (code & 0x3F));
}

// GPT-2's letter of a byte: itself where it is printable, else the next free one from U+0100.
std::vector<std::string> byte_letters() {
  std::vector<std::string> letters;
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
    std::string letter;
    append_utf8(letter, printable ? byte : next++);
    letters.push_back(std::move(letter));
  }
  return letters;
}

class Builder {
 public:
  explicit Builder(std::uint32_t size) : size_(size) {}

  void add(std::string token, std::int32_t type) {
    seen_.insert(token);
    vocabulary_.tokens.push_back(std::move(token));
    vocabulary_.types.push_back(type);
  }
  void merge(std::string_view left, std::string_view right) {
    std::string token = std::string(left) + std::string(right);
    if (full() || seen_.count(token) != 0) return;
    vocabulary_.merges.push_back(std::string(left) + " " + std::string(right));
    add(std::move(token), kNormal);
  }
  bool full() const { return vocabulary_.tokens.size() >= size_; }
  SyntheticVocabulary take() { return std::move(vocabulary_); }

 private:
  std::uint32_t size_;
  SyntheticVocabulary vocabulary_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

SyntheticVocabulary synthetic_vocabulary(std::uint32_t size) {
  Builder builder(size);
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    builder.add(special, kControl);
  }
  for (std::string& letter : byte_letters()) builder.add(std::move(letter), kNormal);
  for (const auto& [left, right] : kFrequent) builder.merge(left, right);
  std::vector<std::string> words;
  for (char c = 'a'; c <= 'z'; ++c) words.emplace_back(1, c);
  while (!builder.full()) {
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      for (char c = 'a'; c <= 'z' && !builder.full(); ++c) {
        builder.merge(word, std::string(1, c));
        longer.push_back(word + c);
      }
    }
    words = std::move(longer);
  }
  return builder.take();
}

}  // namespace hearth::model
