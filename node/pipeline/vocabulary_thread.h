// VocabularyThread: reads the vocabulary of grammars beside the engine's thread. It does so once
// for a worker, at the first load of a last stage; later loads reuse the result. Errors:
// read_vocabulary().
#pragma once

#include <future>
#include <memory>
#include <thread>

#include "node/engine/answer_grammar.h"

namespace hearth::node {

class VocabularyThread final : public VocabularyReader {
 public:
  using Read = Result<std::shared_ptr<const model::GrammarVocabulary>>;

  void begin(std::shared_ptr<const model::GgufFile> file) override;
  Read get() override;
  // Whether get() does not wait.
  bool ready() const;

 private:
  std::shared_future<Read> read_;
  std::jthread thread_;  // ends after its read, within a second
};

}  // namespace hearth::node
