#include "node/layers/fetch_items.h"

#include <algorithm>

namespace hearth::node {
namespace {

constexpr std::size_t kReadBytes = limits::kMiB;

// The file's identity and state, valid only in this process: disks decay without a new date, and
// the owner of a file may set any date.
Result<Hash256> identity(const Hash256& manifest, const ModelBytes& file) {
  static const Hash256 kProcess = [] {
    Hash256 random;
    random_bytes(random.bytes);
    return random;
  }();
  TRY(const Bytes now, file.identity());
  Bytes bytes;
  ByteWriter out(bytes);
  out.append(kProcess.bytes);
  out.append(manifest.bytes);
  out.append(now);
  return blake2b(bytes);
}

struct Checked {
  bool right = false;
  std::string wrong;  // the item that is not; empty: it is another model
};

Result<Checked> check_file(const std::string& path, const model::Manifest& manifest,
                           const std::vector<FetchItem>& items, const FileSearch& search) {
  const auto file = ModelBytes::open(path);
  if (!file.ok() || file->size() != manifest.file_bytes) return Checked{};
  const auto key = identity(manifest.id(), *file);
  if (!key.ok()) return Checked{};
  const std::string note = search.folder + "/" + blake2b(as_bytes(path)).hex() + ".checked";
  const auto cancelled = [&] { return search.step && !search.step(0); };
  TRY(const auto journal, FetchJournal::open(note, *key, cancelled));
  for (const FetchItem& item : items) {
    if (journal->verified(item.number)) continue;
    const auto hash = hash_range(*file, item.begin, item.end, search.step);
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

Result<Hash256> hash_range(const ModelBytes& file, std::uint64_t begin, std::uint64_t end,
                           const std::function<bool(std::uint64_t)>& step) {
  Bytes buffer(std::min<std::uint64_t>(kReadBytes, end - begin));
  Sha256 hash;
  while (begin < end) {
    const std::size_t count = std::min<std::uint64_t>(buffer.size(), end - begin);
    const MutableByteSpan piece = MutableByteSpan(buffer).first(count);
    TRY_VOID(file.read(begin, piece));
    hash.update(piece);
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
