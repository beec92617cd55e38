#include "model/synthetic_vocabulary.h"

#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace hearth::model {
namespace {

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kUnknown = 2;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kByte = 6;

// The character that vocabularies write for a space.
constexpr std::string_view kBpeSpace = "\xC4\xA0";
constexpr std::string_view kSpmSpace = "\xE2\x96\x81";

// "_" stands for a space.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kFrequent{{
    {"t", "h"}, {"th", "e"},  {"i", "n"},   {"e", "r"}, {"a", "n"}, {"r", "e"}, {"o", "n"},
    {"o", "u"}, {"an", "d"},  {"in", "g"},  {"_", "t"}, {"_", "a"}, {"_", "s"}, {"_", "w"},
    {"_", "c"}, {"_", "the"}, {"_", "and"}, {"h", "e"}, {"l", "l"}, {"_", "i"},
}};

void append_letter(std::string& out, std::uint32_t code) {
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
    append_letter(letter, printable ? byte : next++);
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
  // The common part of all vocabularies, after their special tokens and bytes.
  void fill(std::string_view space) {
    for (const auto& [left, right] : kFrequent) merge(left == "_" ? space : left, right);
    std::vector<std::string> words;
    for (char c = 'a'; c <= 'z'; ++c) words.emplace_back(1, c);
    while (!full()) {
      std::vector<std::string> longer;
      for (const std::string& word : words) {
        for (char c = 'a'; c <= 'z' && !full(); ++c) {
          merge(word, std::string(1, c));
          longer.push_back(word + c);
        }
      }
      words = std::move(longer);
    }
  }
  SyntheticVocabulary take() { return std::move(vocabulary_); }

 private:
  bool full() const { return vocabulary_.tokens.size() >= size_; }
  void merge(std::string_view left, std::string_view right) {
    std::string token = std::string(left) + std::string(right);
    if (full() || seen_.count(token) != 0) return;
    vocabulary_.merges.push_back(std::string(left) + " " + std::string(right));
    add(std::move(token), kNormal);
  }

  std::uint32_t size_;
  SyntheticVocabulary vocabulary_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

SyntheticVocabulary synthetic_bpe(std::uint32_t size) {
  Builder builder(size);
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    builder.add(special, kControl);
  }
  for (std::string& letter : byte_letters()) builder.add(std::move(letter), kNormal);
  builder.fill(kBpeSpace);
  return builder.take();
}

SyntheticVocabulary synthetic_spm(std::uint32_t size) {
  Builder builder(size);
  for (const char* special : {"<pad>", "<eos>", "<bos>"}) builder.add(special, kControl);
  builder.add("<unk>", kUnknown);
  for (const char* special : {"<start_of_turn>", "<end_of_turn>"}) builder.add(special, kControl);
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    builder.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", kByte);
  }
  builder.add(std::string(kSpmSpace), kNormal);
  for (char c = '!'; c <= '~'; ++c) builder.add(std::string(1, c), kNormal);
  builder.fill(kSpmSpace);
  SyntheticVocabulary vocabulary = builder.take();
  vocabulary.merges.clear();
  // Merges take the earlier of two pieces first; the order of pieces without a merge is free.
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    vocabulary.scores.push_back(-static_cast<float>(i));
  }
  return vocabulary;
}

}  // namespace hearth::model
