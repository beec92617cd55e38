// AnswerGrammar: the grammar of one answer on its last stage. It follows the generated tokens and
// gives the mask of the next one (kernels/CANONICAL.md, 10a).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/grammar/token_masks.h"

namespace hearth::node {

// The grammars that a stage has met, with the masks made so far. For the engine's thread.
class GrammarStore {
 public:
  // `file` must outlive the store; its tokenizer is read with the first grammar.
  explicit GrammarStore(const model::GgufFile& file) : file_(file) {}

  // kInvalidInput: the bytes are no grammar; kUnsupported: the file has no tokenizer.
  Result<std::shared_ptr<model::TokenMasks>> masks_of(ByteSpan grammar);

 private:
  static constexpr std::size_t kKept = 16;
  struct Kept {
    Hash256 hash;
    std::shared_ptr<model::TokenMasks> masks;
  };
  const model::GgufFile& file_;
  std::shared_ptr<const model::GrammarVocabulary> vocabulary_;
  std::vector<Kept> kept_;  // the latest used last
};

class AnswerGrammar {
 public:
  explicit AnswerGrammar(std::shared_ptr<model::TokenMasks> masks);

  void add(TokenId token);
  // Forgets the tokens behind the first `count`.
  void keep(std::size_t count);
  std::shared_ptr<const model::TokenMask> mask() { return masks_->mask(state_); }

 private:
  // States at multiples of kStride, so that rejected drafts cost few steps.
  static constexpr std::size_t kStride = 64;
  struct Mark {
    std::size_t tokens = 0;
    model::TokenState state;
  };
  std::shared_ptr<model::TokenMasks> masks_;
  std::vector<TokenId> tokens_;
  model::TokenState state_;
  std::array<Mark, 2> marks_;  // the older one first
};

}  // namespace hearth::node
