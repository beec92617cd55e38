// Splits a text into words before byte-level BPE: merges never cross the end of a word.
//
// Each family's split is given by its authors as a regular expression; here it is a scanner over
// code points that takes the same alternatives in the same order, in time linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::model {

enum class PreTokenizer : std::uint8_t {
  kGpt2,    // gpt-2
  kSmolLm,  // smollm, starcoder and others: each digit alone, then as kGpt2
  kLlama3,  // llama-bpe: numbers of up to three digits, contractions of either case; a word that
            // is an entry is that entry, and a text begins with the beginning token
  kCl100k,  // dbrx, smaug-bpe, chatglm-bpe: the words of kLlama3, all of them merged
  kGlm4,    // glm4: the words of kLlama3, no token before a text
  kQwen2,   // qwen2: as kLlama3 with each digit alone
  kQwen35,  // qwen35: as kQwen2, and accents belong to letters
  kO200k,   // gpt-4o: a word ends before an upper case letter that follows a lower case one
  kTekken,  // tekken: as kO200k with each digit alone, without contractions; whole words and the
            // beginning token as kLlama3
  kDeepSeekLlm,  // deepseek-llm: letters, marks and numbers apart, lines and scripts of East Asia
                 // too
  kDeepSeekV3,   // deepseek-v3: numbers of up to three digits and East Asian runs apart, then words
  kKimi,         // kimi-k2: Chinese characters apart, then as kO200k without the slash
  kDefault,      // "default", or a file that names none: llama.cpp's generic split
};

// By the value of tokenizer.ggml.pre; nothing when it is not known.
std::optional<PreTokenizer> find_pretokenizer(std::string_view name);
std::string known_pretokenizers();  // for errors: "default, gpt-2, ..."

// Byte offsets at which the words of `text` end, ascending; the last is text.size(). Broken UTF-8
// counts as characters that are neither letter, number nor space. Text shorter than 4 GiB.
std::vector<std::uint32_t> split_words(PreTokenizer kind, std::string_view text);

}  // namespace hearth::model
