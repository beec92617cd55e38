#include "node/layers/fetch_items.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/limits.h"
#include "node/layers/fetch_journal.h"

namespace hearth::node {
namespace {

constexpr std::size_t kReadBytes = limits::kMiB;

// Which file it is, and whether it is still as it was; to this process alone, since a disk decays
// without a date, and the owner of a file may set any date.
Hash256 identity(const Hash256& manifest, const struct stat& info) {
  static const Hash256 kProcess = [] {
    Hash256 random;
    random_bytes(random.bytes);
    return random;
  }();
  Bytes bytes;
  ByteWriter out(bytes);
  out.append(kProcess.bytes);
  out.append(manifest.bytes);
  out.write(info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
            info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  return blake2b(bytes);
}

struct Checked {
  bool right = false;
  std::string wrong;  // the item that is not; empty: it is another model
};

Result<Checked> check_file(const std::string& path, const model::Manifest& manifest,
                           const std::vector<FetchItem>& items, const FileSearch& search) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.open() || ::fstat(*file, &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != manifest.file_bytes) {
    return Checked{};
  }
  const std::string note = search.folder + "/" + blake2b(as_bytes(path)).hex() + ".checked";
  const auto cancelled = [&] { return search.step && !search.step(0); };
  TRY(const auto journal, FetchJournal::open(note, identity(manifest.id(), info), cancelled));
  for (const FetchItem& item : items) {
    if (journal->verified(item.number)) continue;
    const auto hash = hash_range(*file, path, item.begin, item.end, search.step);
    if (!hash.ok() && hash.error().code == ErrorCode::kCancelled) return hash.error();
    if (!hash.ok() || *hash != item.sha256) {
      return Checked{false, item.number == 0 ? std::string() : item.name};
    }
    TRY_VOID(journal->add_verified(item.number));
  }
  return Checked{true, {}};
}

}  // namespace

Result<std::vector<FetchItem>> fetch_items(const model::Manifest& manifest,
                                           const std::vector<std::size_t>& tensors) {
  std::vector<FetchItem> items;
  items.push_back({0, "the header", 0, manifest.header_bytes, manifest.header_sha256});
  for (const std::size_t index : tensors) {
    REQUIRE(index < manifest.tensors.size(), "tensor ", index, " of a manifest of ",
            manifest.tensors.size());
    const model::ManifestTensor& tensor = manifest.tensors[index];
    items.push_back({index + 1, "tensor " + tensor.name, tensor.offset,
                     tensor.offset + tensor.bytes, tensor.sha256});
  }
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const auto same = [](const auto& a, const auto& b) { return a.number == b.number; };
  items.erase(std::unique(items.begin(), items.end(), same), items.end());
  return items;
}

RangeSet ranges_of(const std::vector<FetchItem>& items) {
  RangeSet ranges;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool joins = i > 0 && items[i].begin - items[i - 1].end <= kGapBytes;
    ranges.add(joins ? items[i - 1].end : items[i].begin, items[i].end);
  }
  return ranges;
}

Result<Hash256> hash_range(int file, const std::string& path, std::uint64_t begin,
                           std::uint64_t end, const std::function<bool(std::uint64_t)>& step) {
  Bytes buffer(std::min<std::uint64_t>(kReadBytes, end - begin));
  Sha256 hash;
  while (begin < end) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), end - begin);
    const ssize_t got = ::pread(file, buffer.data(), wanted, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error::of(ErrorCode::kIo, "cannot read ", path, " at byte ", begin, ": ",
                       (got == 0 ? "it ends there" : std::strerror(errno)));
    }
    const auto count = static_cast<std::size_t>(got);
    hash.update(ByteSpan(buffer).first(count));
    begin += count;
    if (step && !step(count)) return Error{ErrorCode::kCancelled, "interrupted"};
  }
  return hash.finish();
}

Result<std::optional<std::string>> find_file(const model::Manifest& manifest,
                                             const std::vector<FetchItem>& items,
                                             const FileSearch& search) {
  for (const std::string& path : search.paths) {
    TRY(const Checked checked, check_file(path, manifest, items, search));
    if (checked.right) return std::optional<std::string>(path);
    if (!checked.wrong.empty() && search.warn) {
      search.warn(path + " is not used: " + checked.wrong + " does not match the manifest");
    }
  }
  return std::optional<std::string>();
}

}  // namespace hearth::node
