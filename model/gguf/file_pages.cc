#include "model/gguf/file_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/limits.h"

namespace hearth::model {
namespace {

constexpr std::size_t kAhead = 16 * limits::kMiB;  // of a disk's queue; a few milliseconds
constexpr std::size_t kWish = 128 * limits::kKiB;  // what the kernel grants in one call at least

#if defined(MADV_POPULATE_READ)
constexpr int kPopulate = MADV_POPULATE_READ;
#else
constexpr int kPopulate = 22;  // Linux 5.14; others answer EINVAL
#endif

struct Pages {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  void advise(int advice) const {
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  }
};

// The pages that `range` touches, or those that it fills.
Pages pages_of(ByteSpan range, bool touched) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uintptr_t end = begin + range.size();
  if (touched) return {begin / page * page, (end + page - 1) / page * page};
  return {(begin + page - 1) / page * page, end / page * page};
}

}  // namespace

FilePages::FilePages(const GgufFile& file) : files_(file.mapped()) {}

ByteSpan FilePages::file_of(ByteSpan range) const {
  for (const ByteSpan file : files_) {
    const std::less_equal<const std::byte*> before;
    const std::byte* const end = range.data() + range.size();
    if (before(file.data(), range.data()) && before(end, file.data() + file.size())) return file;
  }
  return {};
}

Status FilePages::bring(ByteSpan range) const {
  const ByteSpan file = file_of(range);
  if (file.empty() || range.empty()) return ok_status();
  const std::size_t after = static_cast<std::size_t>(range.data() - file.data()) + range.size();
  const std::size_t from = std::min(file.size(), after + kAhead - std::min(kAhead, range.size()));
  const std::size_t to = std::min(file.size(), after + kAhead);
  for (std::size_t at = from; at < to; at += kWish) {
    pages_of(file.subspan(at, std::min(kWish, to - at)), true).advise(MADV_WILLNEED);
  }
  const Pages pages = pages_of(range, true);
  void* begin = reinterpret_cast<void*>(pages.begin);
  if (::madvise(begin, pages.end - pages.begin, kPopulate) != 0 && errno != EINVAL) {
    return Error::of(ErrorCode::kIo, "the model file cannot be read at byte ", after - range.size(),
                     ": ", std::strerror(errno));
  }
  return ok_status();
}

void FilePages::drop(ByteSpan range, bool whole) const {
  if (!file_of(range).empty()) pages_of(range, whole).advise(MADV_DONTNEED);
}

void FilePages::drop_all() const {
  for (const ByteSpan file : files_) pages_of(file, true).advise(MADV_DONTNEED);
}

}  // namespace hearth::model
