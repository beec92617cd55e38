#include "coordinator/store/request_journal.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::coordinator {
namespace {

// Between two transactions; after a crash so much computing is repeated.
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr auto kPauseAfterFailure = std::chrono::seconds(1);
constexpr std::size_t kEntryBytes = 256;  // about; of an entry other than a request
static_assert(kEntryBytes < limits::kJournalBytes, "an entry fits the journal");
static_assert(kPause < kPauseAfterFailure, "a failed write is retried more slowly");

}  // namespace

std::vector<Bytes> encode_tokens(std::vector<SampledToken> tokens) {
  // In a message each choice has one run.
  std::ranges::stable_sort(tokens, {}, &SampledToken::sequence);
  std::vector<Bytes> out;
  for (std::size_t at = 0; at < tokens.size(); at += limits::kBatchRows) {
    const std::size_t end = std::min<std::size_t>(tokens.size(), at + limits::kBatchRows);
    StepTokens message;
    message.tokens.assign(
        std::make_move_iterator(tokens.begin() + static_cast<std::ptrdiff_t>(at)),
        std::make_move_iterator(tokens.begin() + static_cast<std::ptrdiff_t>(end)));
    out.push_back(encode(message));
  }
  return out;
}

RequestJournal::RequestJournal(std::shared_ptr<RequestStore> store)
    : store_(std::move(store)),
      worker_({.max_cost = 2, .when_stopped = WorkerThread::WhenStopped::kFinish}) {}

RequestJournal::~RequestJournal() {
  worker_.stop();
  if (!pending_.empty()) write();  // the thread has ended
}

void RequestJournal::begin(RequestRow row) {
  const std::size_t bytes = kEntryBytes + row.request.size();
  const Hash256 name = row.name;
  {
    const MutexLock lock(mutex_);
    unwritten_.erase(name);
  }
  if (add(std::move(row), bytes)) return;
  const MutexLock lock(mutex_);
  unwritten_.insert(name);
}

void RequestJournal::token(const Hash256& name, const SampledToken& token) {
  add(Told{name, token}, kEntryBytes + token.top.size() * sizeof(TokenLogprob));
}

void RequestJournal::end(const Hash256& name, std::int64_t unix_seconds) {
  add(RequestEnd{name, unix_seconds}, kEntryBytes);
}

void RequestJournal::remove(const Hash256& name) { add(RequestRemoval{name}, kEntryBytes); }

// Removals are always taken: those that wait for long are of rows in the store. One flush waits
// where entries wait, and one may run.
bool RequestJournal::add(Entry entry, std::size_t bytes) {
  {
    const MutexLock lock(mutex_);
    const bool removes = std::holds_alternative<RequestRemoval>(entry);
    if (!removes && waiting_bytes_ + bytes > limits::kJournalBytes) return false;
    waiting_bytes_ += bytes;
    waiting_.push_back(std::move(entry));
    if (waiting_.size() > 1) return true;  // a flush waits
  }
  (void)worker_.post([this] { flush(); });  // refused only once the thread stops
  return true;
}

// Of a transaction that failed: each name once, and none whose row failed with it.
void RequestJournal::retry_removals(const std::vector<RequestChange>& changes) {
  std::set<Hash256> lost;
  std::set<Hash256> again;
  for (const RequestChange& change : changes) {
    if (const auto* row = std::get_if<RequestRow>(&change)) lost.insert(row->name);
    const auto* removal = std::get_if<RequestRemoval>(&change);
    if (removal != nullptr && lost.erase(removal->name) == 0) again.insert(removal->name);
  }
  for (const Hash256& name : again) add(RequestRemoval{name}, kEntryBytes);
  const MutexLock lock(mutex_);
  unwritten_.merge(lost);
}

// While the store is away, it does not return: later entries join those that wait.
void RequestJournal::flush() {
  do {
    std::vector<Entry> entries;
    {
      const MutexLock lock(mutex_);
      entries.swap(waiting_);
      pending_bytes_ = waiting_bytes_;
    }
    std::ranges::move(gather(std::move(entries)), std::back_inserter(pending_));
    write();
    worker_.sleep_for(failing_ ? Duration(kPauseAfterFailure) : Duration(kPause));
  } while (!pending_.empty() && !worker_.stopping());
}

std::vector<RequestChange> RequestJournal::gather(std::vector<Entry> entries) {
  std::vector<RequestChange> changes;
  std::map<Hash256, std::vector<SampledToken>> tokens;
  const auto put_tokens = [&](const Hash256& name) {
    const auto found = tokens.find(name);
    if (found == tokens.end()) return;
    for (Bytes& row : encode_tokens(std::move(found->second))) {
      changes.emplace_back(RequestTokens{name, std::move(row)});
    }
    tokens.erase(found);
  };
  for (Entry& entry : entries) {
    if (auto* told = std::get_if<Told>(&entry)) {
      tokens[told->name].push_back(std::move(told->token));
    } else if (auto* row = std::get_if<RequestRow>(&entry)) {
      tokens.erase(row->name);
      changes.emplace_back(std::move(*row));
    } else if (const auto* end = std::get_if<RequestEnd>(&entry)) {
      put_tokens(end->name);
      changes.emplace_back(*end);
    } else if (const auto* removal = std::get_if<RequestRemoval>(&entry)) {
      tokens.erase(removal->name);
      const MutexLock lock(mutex_);
      if (unwritten_.erase(removal->name) == 0) changes.emplace_back(*removal);
    }
  }
  while (!tokens.empty()) put_tokens(tokens.begin()->first);
  return changes;
}

// A commit whose answer was lost may have been done: a row that is written again replaces itself,
// and readers skip a token that they have.
void RequestJournal::write() {
  const Status written = pending_.empty() ? ok_status() : store_->write(pending_);
  const bool away = !written.ok() && written.error().code == ErrorCode::kUnavailable;
  if (written.ok()) {
    failing_ = false;
  } else if (!std::exchange(failing_, true)) {
    spdlog::error("running answers cannot be stored{}, and may start again after a restart: {}",
                  away ? " now" : "", written.error().message);
  }
  if (away) return;
  std::vector<RequestChange> changes;
  changes.swap(pending_);
  {
    const MutexLock lock(mutex_);
    INVARIANT(pending_bytes_ <= waiting_bytes_, "what waits includes what was pending");
    waiting_bytes_ -= pending_bytes_;
    pending_bytes_ = 0;
  }
  if (!written.ok()) retry_removals(changes);
}

}  // namespace hearth::coordinator
