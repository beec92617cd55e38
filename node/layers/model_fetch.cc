#include "node/layers/model_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/limits.h"
#include "node/layers/fetch_items.h"
#include "node/layers/fetch_journal.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kJobBytes = 16 * limits::kMiB;    // of several items, asked for at once
constexpr std::uint64_t kNoteBytes = 128 * limits::kKiB;  // that a kill may cost a connection
constexpr std::uint64_t kFailures = 6;                    // of a source, and one more a MiB it sent

// Items that lie together, and are asked for in one request.
struct Job {
  std::vector<FetchItem> items;
  std::set<std::size_t> origins;  // sources of the bytes that are there
  bool resumed = false;           // some of the bytes came in an earlier run
  bool alone = false;             // from one source altogether, so that it answers for them
  std::uint64_t begin() const { return items.front().begin; }
  std::uint64_t end() const { return items.back().end; }
};

// `kept`: the numbers of items that are there, and right.
std::deque<Job> jobs_of(const std::vector<FetchItem>& items, const FetchJournal& journal,
                        const std::set<std::uint64_t>& kept) {
  std::deque<Job> jobs;
  for (const FetchItem& item : items) {
    if (kept.contains(item.number)) continue;
    const bool joins = !jobs.empty() && item.begin - jobs.back().end() <= kGapBytes &&
                       item.end - jobs.back().begin() <= kJobBytes;
    if (!joins) jobs.emplace_back();
    jobs.back().items.push_back(item);
  }
  for (Job& job : jobs) job.resumed = journal.written().covered(job.begin(), job.end()) > 0;
  // The longest first, so that none remains when the others are done.
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return a.end() - a.begin() > b.end() - b.begin();
  });
  return jobs;
}

class Fetch {
 public:
  Fetch(const FetchOptions& options, const model::Manifest& manifest, std::vector<FetchItem> items)
      : options_(options),
        manifest_(manifest),
        items_(std::move(items)),
        path_(options.folder + "/" + manifest.id().hex() + ".gguf"),
        sources_(options.sources.size()) {}

  Result<Fetched> run() {
    const std::string note = options_.folder + "/" + manifest_.id().hex() + ".journal";
    TRY(journal_, FetchJournal::open(note, manifest_.id(), options_.cancelled));
    TRY_VOID(open_file());
    TRY_VOID(check_kept());
    jobs_ = jobs_of(items_, *journal_, kept_);
    count_done();
    if (!jobs_.empty()) {
      if (options_.sources.empty()) return nothing_to_ask();
      TRY_VOID(check_room());
      run_threads();
    }
    if (failure_) return std::move(*failure_);
    return Fetched{path_, false, total_, fetched_};
  }

 private:
  struct SourceState {
    std::string dropped;  // why; empty: in use
    std::uint64_t active = 0;
    std::uint64_t failures = 0;
    std::uint64_t sent = 0;
  };

  Error io_error(const std::string& what, int code) const {
    std::string message = what + " " + path_ + ": " + std::strerror(code);
    if (code == ENOSPC || code == EDQUOT) message += "; " + room_needed();
    return {ErrorCode::kIo, message};
  }
  std::string room_needed() const {
    return "another " + std::to_string(total_ - done_) + " bytes are needed in " + options_.folder +
           "; free some space and try again; fetched bytes are kept";
  }

  Status open_file() {
    file_ = Descriptor(
        ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file_.open()) return io_error("cannot open", errno);
    struct stat info {};
    if (::fstat(*file_, &info) != 0) return io_error("cannot read", errno);
    REQUIRE(S_ISREG(info.st_mode), path_, " is not a regular file");
    Descriptor again(::fcntl(*file_, F_DUPFD_CLOEXEC, 0));
    if (!again.open()) return io_error("cannot open", errno);
    reading_ = ModelBytes::of(std::move(again), manifest_.file_bytes, path_);
    if (static_cast<std::uint64_t>(info.st_size) == manifest_.file_bytes) return ok_status();
    TRY_VOID(journal_->clear());  // of a file that is gone
    if (::ftruncate(*file_, 0) != 0 ||
        ::ftruncate(*file_, static_cast<off_t>(manifest_.file_bytes)) != 0) {
      return io_error("cannot make room for", errno);
    }
    return ok_status();
  }

  // The journal lists the items that were right at their fetch. They are hashed again, because a
  // disk, a backup or a person may have changed them since.
  Status check_kept() {
    const auto step = [this](std::uint64_t) {
      return !options_.cancelled || !options_.cancelled();
    };
    for (const FetchItem& item : items_) {
      if (!journal_->verified(item.number)) continue;
      TRY(const Hash256 hash, hash_range(reading_, item.begin, item.end, step));
      if (hash == item.sha256) {
        kept_.insert(item.number);
        continue;
      }
      if (options_.warn) {
        options_.warn(item.name + " in " + path_ +
                      " has changed on this disk and is fetched again");
      }
      TRY_VOID(journal_->forget_written(item.begin, item.end));
    }
    return ok_status();
  }

  void count_done() {
    for (const FetchItem& item : items_) {
      total_ += item.end - item.begin;
      done_ += kept_.contains(item.number) ? item.end - item.begin
                                           : journal_->written().covered(item.begin, item.end);
    }
    if (options_.progress) options_.progress(done_, total_);
  }

  Error nothing_to_ask() const {
    return Error::of(
        ErrorCode::kNotFound, total_ - done_,
        " bytes of the model are not on this machine and there is "
        "no source to fetch them from: copy the model file here, or start a node that has it");
  }

  Status check_room() {
    struct statvfs room {};
    if (::fstatvfs(*file_, &room) != 0) return ok_status();
    const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
    if (free >= total_ - done_) return ok_status();
    return Error::of(ErrorCode::kIo, "only ", free, " bytes are free; ", room_needed());
  }

  void run_threads() {
    const std::size_t count = std::min<std::size_t>(
        std::clamp(options_.connections, 1U, limits::kFetchConnections), jobs_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
  }

  // One connection: job after job, until none is left or all have to stop.
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return failure_ || !jobs_.empty() || running_ == 0; });
      if (failure_ || jobs_.empty()) return;
      const auto source = least_busy();
      if (!source) {
        stop(no_source_left());
        return;
      }
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
      ++sources_[*source].active;
      lock.unlock();
      const Status done = attempt(job, *source);
      lock.lock();
      INVARIANT(running_ > 0 && sources_[*source].active > 0,
                "a job that ends is counted as running and at its source");
      --sources_[*source].active;
      --running_;
      if (!done.ok() && !failure_) retry(std::move(job), *source, done.error(), lock);
      changed_.notify_all();
    }
  }

  std::optional<std::size_t> least_busy() const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].dropped.empty()) continue;
      if (!best || sources_[i].active < sources_[*best].active) best = i;
    }
    return best;
  }

  bool others_than(std::size_t source) const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (i != source && sources_[i].dropped.empty()) return true;
    }
    return false;
  }

  Error no_source_left() const {
    std::string message = "every source of the model has failed; fetched bytes are kept";
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      message += "; " + options_.sources[i]->name() + ": " + sources_[i].dropped;
    }
    return {ErrorCode::kUnavailable, message};
  }

  // The rest is called with the mutex held, unless it takes it.

  void stop(Error why) {
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
  }

  void drop(std::size_t source, const std::string& why) {
    if (!sources_[source].dropped.empty()) return;
    sources_[source].dropped = why;
    if (options_.warn) options_.warn(options_.sources[source]->name() + " is dropped: " + why);
  }

  void accuse(std::size_t source, const FetchItem& item) {
    const std::string node = options_.sources[source]->node();
    if (node.empty() || !options_.wrong) return;
    options_.wrong({node, manifest_.id(), item.name, item.begin, item.end});
  }

  void retry(Job job, std::size_t source, const Error& why, std::unique_lock<std::mutex>& lock) {
    SourceState& state = sources_[source];
    const bool transient = why.code == ErrorCode::kUnavailable || why.code == ErrorCode::kTimeout;
    // A timeout costs its whole wait: three of them are enough when other sources exist.
    state.failures += why.code == ErrorCode::kTimeout && others_than(source) ? 3 : 1;
    if (!transient || state.failures > kFailures + state.sent / limits::kMiB) {
      drop(source, why.message);
    }
    jobs_.push_front(std::move(job));
    if (!state.dropped.empty()) return;
    changed_.notify_all();  // a thread with another source need not wait
    const auto pause = options_.pause * (1U << std::min<std::uint64_t>(state.failures - 1, 5));
    changed_.wait_for(lock, pause, [this] { return failure_.has_value(); });
  }

  Status attempt(Job& job, std::size_t source) {
    const std::set<std::size_t> only{source};
    if (job.alone && !job.origins.empty() && job.origins != only) {
      const std::lock_guard lock(mutex_);
      TRY_VOID(own(forget(job.items)));
      job.origins.clear();
    }
    TRY_VOID(transfer(job, source));
    std::vector<FetchItem> right;
    std::vector<FetchItem> wrong;
    for (const FetchItem& item : job.items) {
      const auto hash = hash_range(reading_, item.begin, item.end, {});
      if (!hash.ok()) return own_locked(hash.error());
      (*hash == item.sha256 ? right : wrong).push_back(item);
    }
    return settle(job, right, std::move(wrong));
  }

  // An error of this machine ends everything; of a source, only its use.
  Status own(Status status) {
    if (!status.ok()) stop(status.error());
    return status;
  }
  Status own_locked(Status status) {
    const std::lock_guard lock(mutex_);
    return own(std::move(status));
  }
  Status fail_to_write(int code) {
    const std::lock_guard lock(mutex_);
    return own(io_error("cannot write", code));
  }

  Status forget(const std::vector<FetchItem>& items) {
    for (const FetchItem& item : items) {
      done_ -= journal_->written().covered(item.begin, item.end);
      TRY_VOID(journal_->forget_written(item.begin, item.end));
    }
    return ok_status();
  }

  Status transfer(Job& job, std::size_t source) {
    std::unique_lock lock(mutex_);
    const auto missing = journal_->written().missing(job.begin(), job.end());
    lock.unlock();
    for (const auto& range : missing) {
      std::uint64_t at = range.first;
      std::uint64_t noted = at;
      const auto sink = [&](ByteSpan bytes) -> Status {
        REQUIRE(bytes.size() <= range.second - at, "the source sends more bytes than requested");
        TRY_VOID(write(at, bytes));
        at += bytes.size();
        TRY_VOID(count(source, bytes.size()));
        if (at - noted < kNoteBytes) return ok_status();
        return note(job, noted, at);
      };
      const Status read = options_.sources[source]->read(range.first, range.second, sink);
      if (at > range.first) job.origins.insert(source);
      TRY_VOID(note(job, noted, at));
      TRY_VOID(read);
      if (at != range.second) {
        return Error{ErrorCode::kUnavailable, "the source ended before the end of the range"};
      }
    }
    return ok_status();
  }

  Status write(std::uint64_t at, ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::pwrite(*file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return fail_to_write(errno);
      at += static_cast<std::uint64_t>(wrote);
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    }
    return ok_status();
  }

  Status count(std::size_t source, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sources_[source].sent += bytes;
    fetched_ += bytes;
    if (options_.cancelled && options_.cancelled()) stop({ErrorCode::kCancelled, "interrupted"});
    if (failure_) return *failure_;
    return ok_status();
  }

  // Bytes between items belong to no item: the journal counts them, the figures do not.
  Status note(const Job& job, std::uint64_t& from, std::uint64_t to) {
    if (from == to) return ok_status();
    const std::lock_guard lock(mutex_);
    for (const FetchItem& item : job.items) {
      const std::uint64_t begin = std::max(from, item.begin);
      const std::uint64_t end = std::min(to, item.end);
      if (begin < end) done_ += end - begin;
    }
    TRY_VOID(own(journal_->add_written(from, to)));
    from = to;
    if (options_.progress) options_.progress(done_, total_);
    return ok_status();
  }

  Status settle(Job& job, const std::vector<FetchItem>& right, std::vector<FetchItem> wrong) {
    // The bytes must be on the disk before the journal lists them, also after a power cut.
    if (!right.empty() && ::fdatasync(*file_) != 0) return fail_to_write(errno);
    const std::lock_guard lock(mutex_);
    for (const FetchItem& item : right) TRY_VOID(own(journal_->add_verified(item.number)));
    if (wrong.empty()) return ok_status();
    TRY_VOID(own(forget(wrong)));
    const std::string what = wrong.front().name + " does not match the manifest";
    if (job.origins.size() == 1 && !job.resumed) {
      accuse(*job.origins.begin(), wrong.front());
      drop(*job.origins.begin(), what);
    } else if (options_.warn) {
      options_.warn(what + ": its bytes have several sources; it is fetched again from one");
    }
    Job again;
    again.items = std::move(wrong);
    again.alone = true;
    jobs_.push_front(std::move(again));
    return ok_status();
  }

  const FetchOptions& options_;
  const model::Manifest& manifest_;
  const std::vector<FetchItem> items_;
  const std::string path_;
  Descriptor file_;
  ModelBytes reading_;  // of file_
  std::unique_ptr<FetchJournal> journal_;
  std::set<std::uint64_t> kept_;  // numbers of items that were right when this began
  std::uint64_t total_ = 0;       // bytes of all items

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<SourceState> sources_;
  std::size_t running_ = 0;
  std::uint64_t done_ = 0;  // of total_: written and not found wrong
  std::uint64_t fetched_ = 0;
  std::optional<Error> failure_;
};

// The header was right, and so it is the manifest that lies where they differ.
Status check_table(const std::string& path, const model::Manifest& manifest,
                   const std::vector<FetchItem>& items) {
  TRY(const auto file, model::GgufFile::open(path));
  for (const FetchItem& item : items) {
    if (item.number == 0) continue;
    const model::ManifestTensor& wanted = manifest.tensors[item.number - 1];
    const model::TensorInfo* tensor = file->find_tensor(wanted.name);
    REQUIRE(tensor != nullptr && tensor->offset == wanted.offset && tensor->bytes == wanted.bytes,
            "the manifest and the model's header have different places for ", item.name);
  }
  return ok_status();
}

}  // namespace

Result<Fetched> fetch_tensors(const model::Manifest& manifest,
                              const std::vector<std::size_t>& tensors,
                              const FetchOptions& options) {
  TRY_VOID(manifest.check());
  REQUIRE(options.sources.size() <= limits::kFetchSources, "sources: ", options.sources.size(),
          ", at most ", limits::kFetchSources);
  TRY(const std::vector<FetchItem> items, fetch_items(manifest, tensors));
  const auto step = [&](std::uint64_t) { return !(options.cancelled && options.cancelled()); };
  TRY(const auto whole,
      find_file(manifest, items, {options.files, options.folder, step, options.warn}));
  Fetched out;
  if (whole) {
    out.path = *whole;
    out.in_place = true;
    for (const FetchItem& item : items) out.wanted += item.end - item.begin;
  } else {
    TRY(out, Fetch(options, manifest, items).run());
  }
  TRY_VOID(check_table(out.path, manifest, items));
  return out;
}

}  // namespace hearth::node
