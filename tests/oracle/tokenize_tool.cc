// Tokenizes texts from standard input with the vocabulary of a GGUF file, for comparison with
// other programs.
//
//   tokenize_tool FILE.gguf text|parse [bos]
//
// Input: records of a 32-bit little-endian length and that many bytes. Output: a line for each
// record, its ids with spaces between them.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "model/gguf/gguf.h"
#include "model/text/tokenizer.h"

namespace {

using hearth::Result;
using hearth::model::SpecialTokens;
using hearth::model::Tokenizer;

Result<std::shared_ptr<const Tokenizer>> load(const std::string& path) {
  TRY(const auto file, hearth::model::GgufFile::open(path));
  return Tokenizer::load(*file);
}

bool read_record(std::string& text) {
  std::uint32_t bytes = 0;
  if (!std::cin.read(reinterpret_cast<char*>(&bytes), sizeof bytes)) return false;
  if (bytes > hearth::limits::kTextBytes) return false;
  text.resize(bytes);
  return static_cast<bool>(std::cin.read(text.data(), bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: tokenize_tool FILE.gguf text|parse [bos]\n";
    return 2;
  }
  const auto tokenizer = load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().message << "\n";
    return 1;
  }
  const bool parse = std::string_view(argv[2]) == "parse";
  const auto special = parse ? SpecialTokens::kParse : SpecialTokens::kText;
  const bool bos = argc > 3 && std::string_view(argv[3]) == "bos";
  std::string text;
  while (read_record(text)) {
    const auto ids = (*tokenizer)->encode(text, special, bos);
    if (!ids.ok()) {
      std::cerr << ids.error().message << "\n";
      return 1;
    }
    std::string line;
    for (const hearth::TokenId id : *ids) {
      if (!line.empty()) line += ' ';
      line += std::to_string(id);
    }
    std::cout << line << "\n";
  }
  return std::cin.eof() && std::cin.gcount() == 0 ? 0 : 1;
}
