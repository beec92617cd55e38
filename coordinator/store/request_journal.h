// RequestJournal: writes kept requests and their tokens to a RequestStore, on a thread of its own
// and everything of the last milliseconds in one transaction.
//
// Its callers never wait. What it cannot write in time or at all is left out and reported once in
// the log: missing tokens are computed again, and tokens behind a gap are not read. A removal is
// retried until it is done, for prompts are private. Entries of limits::kJournalBytes wait at most;
// removals count and are always taken, so that no more rows are written while they wait.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <variant>
#include <vector>

#include "base/thread_annotations.h"
#include "base/worker_thread.h"
#include "coordinator/store/requests.h"
#include "proto/step.h"

namespace hearth::coordinator {

// Any thread.
class RequestJournal {
 public:
  explicit RequestJournal(std::shared_ptr<RequestStore> store);
  ~RequestJournal();  // writes the waiting entries

  void begin(RequestRow row);
  // One more of the request; `token.sequence` is the index of its choice.
  void token(const Hash256& name, const SampledToken& token);
  void end(const Hash256& name, std::int64_t unix_seconds);
  void remove(const Hash256& name);

 private:
  struct Told {
    Hash256 name;
    SampledToken token;
  };
  using Entry = std::variant<RequestRow, Told, RequestEnd, RequestRemoval>;

  bool add(Entry entry, std::size_t bytes);  // false: it is left out
  void retry_removals(const std::vector<RequestChange>& changes);
  void flush();
  void write(std::vector<Entry> entries);

  const std::shared_ptr<RequestStore> store_;
  Mutex mutex_;
  std::vector<Entry> waiting_ GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  // Requests whose row was left out: there is nothing to remove.
  std::set<Hash256> unwritten_ GUARDED_BY(mutex_);
  bool failing_ = false;  // the writing thread's: reported in the log
  WorkerThread worker_;   // last: its tasks use all of the above
};

// Of tokens in their order, as rows that decode_step_tokens() reads: `sequence` is the choice.
std::vector<Bytes> encode_tokens(std::vector<SampledToken> tokens);

}  // namespace hearth::coordinator
