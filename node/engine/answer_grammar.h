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

// The vocabulary as grammars need it. kUnsupported: the file has no tokenizer.
Result<std::shared_ptr<const model::GrammarVocabulary>> read_vocabulary(
    const model::GgufFile& file);

// Reads the vocabulary in advance: 150,000 tokens take 0.3 s, in which the engine's thread would
// compute nothing. Both methods are called on that thread.
class VocabularyReader {
 public:
  virtual ~VocabularyReader() = default;
  // The first call begins to read; later calls are for the same model.
  virtual void begin(std::shared_ptr<const model::GgufFile> file) = 0;
  // After begin(). Waits for the vocabulary.
  virtual Result<std::shared_ptr<const model::GrammarVocabulary>> get() = 0;
};

// The grammars that a stage has used, with the masks made so far. For the engine's thread.
class GrammarStore {
 public:
  // `file` and `reader` outlive the store. Without a reader the vocabulary is read with the first
  // grammar.
  explicit GrammarStore(const model::GgufFile& file, VocabularyReader* reader = nullptr)
      : file_(file), reader_(reader) {}

  // kInvalidInput: the bytes are no grammar; else as read_vocabulary().
  Result<std::shared_ptr<model::TokenMasks>> masks_of(ByteSpan grammar);

 private:
  static constexpr std::size_t kKept = 16;
  struct Kept {
    Hash256 hash;
    std::shared_ptr<model::TokenMasks> masks;
  };
  const model::GgufFile& file_;
  VocabularyReader* reader_;
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
  const model::TokenState& state() const { return state_; }
  // The tokens that the grammar forces after `state` and `drawn`, at most `most`: the bytes that
  // must follow, each time as the longest token. The model may divide these bytes into other
  // tokens, so these are drafts. End tokens are never among them.
  std::vector<TokenId> forced(model::TokenState state, TokenId drawn, std::size_t most) const;

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
