#include "node/pipeline/vocabulary_thread.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace hearth::node {

void VocabularyThread::begin(std::shared_ptr<const model::GgufFile> file) {
  INVARIANT(file != nullptr, "a vocabulary is read from a file");
  if (read_.valid()) return;
  std::promise<Read> promise;
  read_ = promise.get_future().share();
  thread_ = std::jthread([promise = std::move(promise), file = std::move(file)]() mutable {
    promise.set_value(read_vocabulary(*file));
  });
}

VocabularyThread::Read VocabularyThread::get() {
  INVARIANT(read_.valid(), "what is read was begun");
  return read_.get();
}

bool VocabularyThread::ready() const {
  return read_.valid() && read_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace hearth::node
