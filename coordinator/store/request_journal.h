// RequestJournal: writes kept requests and their tokens to a RequestStore, on its own thread, with
// the changes of some milliseconds in one transaction.
//
// Callers never wait. While the store is away (kUnavailable), its changes wait and are written when
// it is back. Changes that it cannot write otherwise, or that find no room, are dropped and
// reported once in the log: missing tokens are recomputed, and tokens after a gap are not read. A
// removal is retried until it succeeds, because prompts are private. At most limits::kJournalBytes
// of entries wait. Removals count too but are always accepted, so no more rows are written while
// they wait.
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
  // Adds a token of the request; `token.sequence` is the index of its choice.
  void token(const Hash256& name, const SampledToken& token);
  void end(const Hash256& name, std::int64_t unix_seconds);
  void remove(const Hash256& name);

 private:
  struct Told {
    Hash256 name;
    SampledToken token;
  };
  using Entry = std::variant<RequestRow, Told, RequestEnd, RequestRemoval>;

  bool add(Entry entry, std::size_t bytes);  // false: the entry is dropped
  void retry_removals(const std::vector<RequestChange>& changes);
  void flush();
  std::vector<RequestChange> gather(std::vector<Entry> entries);
  void write();

  const std::shared_ptr<RequestStore> store_;
  Mutex mutex_;
  std::vector<Entry> waiting_ GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  // Requests whose row was dropped, so there is nothing to remove.
  std::set<Hash256> unwritten_ GUARDED_BY(mutex_);
  // Writing thread only. Changes that the store has not accepted yet, with their part of
  // waiting_bytes_.
  std::vector<RequestChange> pending_;
  std::size_t pending_bytes_ = 0;
  bool failing_ = false;  // the failure was reported
  WorkerThread worker_;   // last: its tasks use all of the above
};

// Encodes tokens in order, as rows for decode_step_tokens(); `sequence` is the choice.
std::vector<Bytes> encode_tokens(std::vector<SampledToken> tokens);

}  // namespace hearth::coordinator
