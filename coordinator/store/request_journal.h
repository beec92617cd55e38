// RequestJournal: writes kept requests and their tokens to a RequestStore, behind those who tell it
// of them: on a thread of its own, everything of the last milliseconds in one transaction.
//
// It never makes anybody wait. What it could not write in time or at all is left out and said once
// in the log: tokens that are missing are computed again, and those behind a gap are not read. A
// removal is tried again until it is done, for prompts are private.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "coordinator/store/requests.h"
#include "proto/step.h"

namespace hearth::coordinator {

// Any thread.
class RequestJournal {
 public:
  explicit RequestJournal(std::shared_ptr<RequestStore> store);
  ~RequestJournal();  // writes what waits

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

  void add(Entry entry, std::size_t bytes);
  void run();
  void write(std::vector<Entry> entries);

  const std::shared_ptr<RequestStore> store_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Entry> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool stop_ = false;
  bool failing_ = false;  // the writing thread's: said in the log already
  std::thread thread_;
};

// Of tokens in their order, as rows that decode_step_tokens() reads: `sequence` is the choice.
std::vector<Bytes> encode_tokens(std::vector<SampledToken> tokens);

}  // namespace hearth::coordinator
