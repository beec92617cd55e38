// The parts of a model file that are fetched and checked as one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/limits.h"
#include "base/result.h"
#include "model/gguf/manifest.h"
#include "node/layers/fetch_journal.h"
#include "node/layers/model_bytes.h"

namespace hearth::node {

// A gap between two items of at most this size is fetched with them. No item owns its bytes.
inline constexpr std::uint64_t kGapBytes = 4 * limits::kKiB;

struct FetchItem {
  std::uint64_t number = 0;  // 0: the header; then 1 + index in the manifest
  std::string name;          // "the header" or "tensor blk.0.attn_q.weight"
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Hash256 sha256;
};

// By offset, the header first. kInvalidInput for an index that is not in the manifest.
Result<std::vector<FetchItem>> fetch_items(const model::Manifest& manifest,
                                           const std::vector<std::size_t>& tensors);

// The items, and the gaps between them that are fetched too.
RangeSet ranges_of(const std::vector<FetchItem>& items);

// SHA-256 of the bytes [begin, end) of a model. `step` is called for each piece and returns false
// to stop (kCancelled). kIo when the file ends earlier.
Result<Hash256> hash_range(const ModelBytes& file, std::uint64_t begin, std::uint64_t end,
                           const std::function<bool(std::uint64_t)>& step);

// The first of `paths` that is this model and whose items all verify; nothing when no path does.
// Each is the path of a file, or of the first part of several. A process hashes a file once:
// `folder` remembers the result while the file's identity, size and times of change stay the same.
// The next process hashes it again. `warn` is called for a file with the model's header and a wrong
// tensor, which it names.
struct FileSearch {
  std::vector<std::string> paths;
  std::string folder;
  std::function<bool(std::uint64_t)> step;
  std::function<void(const std::string&)> warn;
};
Result<std::optional<std::string>> find_file(const model::Manifest& manifest,
                                             const std::vector<FetchItem>& items,
                                             const FileSearch& search);

}  // namespace hearth::node
