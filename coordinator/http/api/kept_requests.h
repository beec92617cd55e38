// KeptRequests: the requests with an Idempotency-Key, running and finished, so that their clients
// find them again. A journal stores them for the next process.
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

// The values that every process with this store and model derives from owner, key and body. So a
// repeated request gets the same answer even if nothing of the first one is stored.
struct Keep {
  Hash256 name;              // of owner and Idempotency-Key
  Hash256 digest;            // of path and body
  std::string owner;         // the API key's id; empty: a user of this machine
  std::uint64_t answer = 0;  // of the answer's id and its events'
  std::uint64_t seed = 0;    // for a request that names none
};

class KeptRequests {
 public:
  // `secret`: the store's; names cannot be guessed without it. `journal`: null, nothing is written.
  KeptRequests(const Hash256& secret, std::string fingerprint,
               std::unique_ptr<RequestJournal> journal)
      : secret_(secret), fingerprint_(std::move(fingerprint)), journal_(std::move(journal)) {}

  // Any thread.
  Hash256 name(const std::string& owner, std::string_view key) const;
  // `fingerprint`: of the model; empty: the first one's.
  Keep keep(const std::string& owner, std::string_view key, std::string_view path,
            std::string_view body, std::string_view fingerprint = {}) const;
  Keep keep(const Hash256& name, const Hash256& digest, std::string owner,
            std::string_view fingerprint = {}) const;

  // The following on the socket thread.
  struct Found {
    std::shared_ptr<Generation> generation;
    Hash256 digest;
  };
  std::optional<Found> find(const Hash256& name) const;
  // Adds a request. Returns the limit that is reached when all kept requests are running; nothing
  // when the request was added.
  std::optional<std::size_t> add(const Keep& keep, std::shared_ptr<Generation> generation);
  // Called when the answer is complete and takes this many bytes. `since`: unix seconds.
  void finished(const Keep& keep, std::size_t bytes, std::int64_t since);
  // Removes it together with its row, if the name still belongs to this generation.
  void remove(const Hash256& name, const Generation* generation);
  void clear();  // in memory; rows stay

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
    std::uint64_t order = 0;  // in which requests finished; 0: it is running
    std::size_t bytes = 0;
  };
  using Entries = std::map<Hash256, Entry>;
  // Forgets the answer that finished first, of this owner or of all; false: there is no such
  // answer.
  bool drop_oldest(const std::string* owner);
  void erase(Entries::iterator entry);

  const Hash256 secret_;
  const std::string fingerprint_;
  std::unique_ptr<RequestJournal> journal_;
  Entries entries_;
  std::size_t bytes_ = 0;
  std::uint64_t order_ = 0;
};

}  // namespace hearth::coordinator::http
