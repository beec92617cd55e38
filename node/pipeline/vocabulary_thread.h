// VocabularyThread: reads the vocabulary of grammars beside the engine's thread, once for a worker,
// from the first load of a last stage on. Later loads find it. Errors: read_vocabulary().
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
  std::jthread thread_;  // ends with what it reads, within a second
};

}  // namespace hearth::node
