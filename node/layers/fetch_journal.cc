#include "node/layers/fetch_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"

namespace hearth::node {
namespace {

constexpr std::size_t kRecordBytes = 32;
constexpr std::size_t kCheckBytes = 8;
static_assert(kRecordBytes == 3 * sizeof(std::uint64_t) + kCheckBytes,
              "a record is its kind, its begin, its end and its check");
constexpr auto kLockPause = std::chrono::milliseconds(100);

// The last 8 bytes of a record, from the 24 before.
Hash256 check_of(const Hash256& key, ByteSpan record) {
  return keyed_blake2b(key, record.first(kRecordBytes - kCheckBytes));
}

}  // namespace

std::vector<std::pair<std::uint64_t, std::uint64_t>> RangeSet::missing(std::uint64_t begin,
                                                                       std::uint64_t end) const {
  RangeSet rest;
  rest.add(begin, end);
  rest.ranges_ -= ranges_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  for (const auto& range : rest.ranges_) out.emplace_back(range.lower(), range.upper());
  return out;
}

std::uint64_t RangeSet::covered(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t bytes = begin < end ? end - begin : 0;
  for (const auto& [from, to] : missing(begin, end)) {
    INVARIANT(to - from <= bytes, "missing ranges are disjoint and lie within what was asked for");
    bytes -= to - from;
  }
  return bytes;
}

Error FetchJournal::io_error(const std::string& what) const {
  return Error::of(ErrorCode::kIo, what, " ", path_, ": ", std::strerror(errno));
}

Result<std::unique_ptr<FetchJournal>> FetchJournal::open(const std::string& path,
                                                         const Hash256& key,
                                                         const std::function<bool()>& cancelled) {
  Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file.open()) {
    return Error::of(ErrorCode::kIo, "cannot open ", path, ": ", std::strerror(errno));
  }
  std::unique_ptr<FetchJournal> journal(new FetchJournal(path, key, std::move(file)));
  while (::flock(*journal->file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return journal->io_error("cannot lock");
    if (cancelled && cancelled()) return Error{ErrorCode::kCancelled, "interrupted"};
    std::this_thread::sleep_for(kLockPause);
  }
  TRY_VOID(journal->read());
  return journal;
}

Status FetchJournal::read() {
  struct stat info {};
  if (::fstat(*file_, &info) != 0) return io_error("cannot read");
  REQUIRE(S_ISREG(info.st_mode), path_, " is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size <= limits::kFetchJournalBytes) {
    Bytes bytes(size);
    const ssize_t got = ::pread(*file_, bytes.data(), bytes.size(), 0);
    if (got < 0) return io_error("cannot read");
    ByteReader in(ByteSpan(bytes).first(static_cast<std::size_t>(got)));
    while (in.remaining() >= kRecordBytes) {
      const ByteSpan record = in.take(kRecordBytes);
      const Hash256 check = check_of(key_, record);
      if (!std::equal(check.bytes.begin(), check.bytes.begin() + kCheckBytes,
                      record.end() - kCheckBytes)) {
        break;
      }
      ByteReader fields(record);
      const auto kind = static_cast<Kind>(fields.read<std::uint64_t>());
      const auto begin = fields.read<std::uint64_t>();
      if (!apply(kind, begin, fields.read<std::uint64_t>())) break;
      ++records_;
    }
  }
  // Removes the invalid bytes, so that the next record does not follow them.
  const auto end = static_cast<off_t>(records_ * kRecordBytes);
  if (static_cast<std::uint64_t>(end) != size && ::ftruncate(*file_, end) != 0) {
    return io_error("cannot write");
  }
  return ok_status();
}

bool FetchJournal::apply(Kind kind, std::uint64_t begin, std::uint64_t end) {
  switch (kind) {
    case Kind::kWritten: written_.add(begin, end); return true;
    case Kind::kForgotten: written_.remove(begin, end); return true;
    case Kind::kVerified: verified_.insert(begin); return true;
  }
  return false;
}

Status FetchJournal::append(Kind kind, std::uint64_t begin, std::uint64_t end) {
  Bytes record;
  ByteWriter out(record);
  out.write(static_cast<std::uint64_t>(kind), begin, end);
  record.resize(kRecordBytes);
  const Hash256 check = check_of(key_, record);
  std::copy_n(check.bytes.begin(), kCheckBytes, record.end() - kCheckBytes);
  const auto at = static_cast<off_t>(records_ * kRecordBytes);
  errno = ENOSPC;  // what a short write means
  if (::pwrite(*file_, record.data(), record.size(), at) != ssize_t{kRecordBytes}) {
    return io_error("cannot write");
  }
  ++records_;
  apply(kind, begin, end);
  return ok_status();
}

Status FetchJournal::clear() {
  if (::ftruncate(*file_, 0) != 0) return io_error("cannot write");
  records_ = 0;
  written_ = {};
  verified_.clear();
  return ok_status();
}

}  // namespace hearth::node
