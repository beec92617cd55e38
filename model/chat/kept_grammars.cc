#include "model/chat/kept_grammars.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/limits.h"

namespace hearth::model {
namespace {

// Everything that answer_grammar() reads. A text's length comes before it, so that two texts never
// read as one.
class KeyHash {
 public:
  void add(std::uint64_t number) { hash_.update(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    hash_.update(as_bytes(text));
  }
  Hash256 finish() { return hash_.finish(); }

 private:
  Blake2b hash_;
};

Hash256 key_of(std::string_view owner, const AnswerConstraint& constraint) {
  KeyHash hash;
  hash.add(owner);
  hash.add(std::uint64_t{constraint.content.has_value()});
  if (constraint.content) {
    hash.add(static_cast<std::uint64_t>(constraint.content->kind));
    hash.add(constraint.content->text);
  }
  hash.add(std::uint64_t{constraint.tools.size()});
  for (const ChatTool& tool : constraint.tools) {
    hash.add(tool.name);
    hash.add(tool.parameters);
    hash.add(std::uint64_t{tool.strict});
  }
  hash.add(std::uint64_t{constraint.calls_required});
  hash.add(std::uint64_t{constraint.parallel_calls});
  hash.add(constraint.prompt_tail);
  return hash.finish();
}

}  // namespace

std::shared_ptr<const Grammar> KeptGrammars::find(const Hash256& key) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(kept_, key, &Kept::key);
  if (found == kept_.end()) return nullptr;
  std::rotate(found, found + 1, kept_.end());
  return kept_.back().grammar;
}

Result<std::shared_ptr<const Grammar>> KeptGrammars::get(std::string_view owner,
                                                         const ChatSyntax& syntax,
                                                         const AnswerConstraint& constraint) {
  const Hash256 key = key_of(owner, constraint);
  if (auto found = find(key)) return found;
  // Without the lock, because a large grammar takes long. Two requests may make the same one.
  TRY(auto made, answer_grammar(syntax, constraint));
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const Kept& each) { return each.key == key; });
  if (kept_.size() == limits::kKeptGrammars) kept_.erase(kept_.begin());
  kept_.push_back({key, made});
  return made;
}

}  // namespace hearth::model
