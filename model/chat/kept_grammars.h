// KeptGrammars: the latest grammars of answers. A client sends its tools and schemas again with
// each request of a conversation, and a grammar takes milliseconds to make.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "model/chat/call_grammar.h"
#include "model/chat/syntax.h"
#include "model/grammar/grammar.h"

namespace hearth::model {

// The grammars of one model, at most limits::kKeptGrammars. Safe to share between threads.
class KeptGrammars {
 public:
  // As answer_grammar(), and with its errors. `owner`: a grammar that one made is not found by
  // another, so response times do not tell what others asked.
  Result<std::shared_ptr<const Grammar>> get(std::string_view owner, const ChatSyntax& syntax,
                                             const AnswerConstraint& constraint);

 private:
  struct Kept {
    Hash256 key;
    std::shared_ptr<const Grammar> grammar;
  };
  std::shared_ptr<const Grammar> find(const Hash256& key);

  Mutex mutex_;
  std::vector<Kept> kept_ GUARDED_BY(mutex_);  // the latest used last
};

}  // namespace hearth::model
