// KeptRequests: the requests that came with an Idempotency-Key, running and finished, so that their
// clients find them again; what must outlive this process goes to a journal.
//
// Bounded: limits::kKeptRequests in all and kKeptRequestsOwner of one API key, where the oldest
// finished answer makes room for the next request, and kKeptBytes of finished answers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/crypto.h"
#include "coordinator/store/request_journal.h"

namespace hearth::coordinator::http {

class Generation;

// What follows from owner, key and body, in every process of this store and model. So a repetition
// has the answer of the first time, even if nothing of that is left.
struct Keep {
  Hash256 name;              // of owner and Idempotency-Key
  Hash256 digest;            // of path and body
  std::string owner;         // the API key's id; empty: this machine's users
  std::uint64_t answer = 0;  // of the answer's id and its events'
  std::uint64_t seed = 0;    // for a request that names none
};

class KeptRequests {
 public:
  // `secret`: so that nobody can guess names; the store's. `journal`: null, nothing is written.
  KeptRequests(const Hash256& secret, std::string fingerprint,
               std::unique_ptr<RequestJournal> journal)
      : secret_(secret), fingerprint_(std::move(fingerprint)), journal_(std::move(journal)) {}

  // Any thread.
  Hash256 name(const std::string& owner, std::string_view key) const;
  Keep keep(const std::string& owner, std::string_view key, std::string_view path,
            std::string_view body) const;
  Keep keep(const Hash256& name, const Hash256& digest, std::string owner) const;

  // The following on the socket thread.
  struct Found {
    std::shared_ptr<Generation> generation;
    Hash256 digest;
  };
  std::optional<Found> find(const Hash256& name) const;
  // False when it is full of requests that run.
  bool add(const Keep& keep, std::shared_ptr<Generation> generation);
  // Its answer is whole and takes so many bytes. `since`: unix seconds.
  void finished(const Keep& keep, std::size_t bytes, std::int64_t since);
  // Only if this is still the one; with its row.
  void remove(const Hash256& name, const Generation* generation);
  void clear();  // of this process; rows stay

  // For the next process.
  bool writes() const { return journal_ != nullptr; }
  void write(const Keep& keep, Bytes request);
  void write_token(const Keep& keep, std::uint32_t choice, SampledToken token);
  void remove_row(const Keep& keep);

 private:
  struct Entry {
    std::shared_ptr<Generation> generation;
    Hash256 digest;
    std::string owner;
    std::uint64_t order = 0;  // of finishing; 0: it runs
    std::size_t bytes = 0;
  };
  using Entries = std::map<Hash256, Entry>;
  bool drop_oldest(const std::string* owner);  // finished; false: there is none
  void erase(Entries::iterator entry);

  const Hash256 secret_;
  const std::string fingerprint_;
  std::unique_ptr<RequestJournal> journal_;
  Entries entries_;
  std::size_t bytes_ = 0;
  std::uint64_t order_ = 0;
};

}  // namespace hearth::coordinator::http
