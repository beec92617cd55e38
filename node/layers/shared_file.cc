#include "node/layers/shared_file.h"

#include <utility>

namespace hearth::node {

void SharedFile::share(const Hash256& model, std::shared_ptr<const ModelBytes> bytes,
                       RangeSet ranges) {
  const MutexLock lock(mutex_);
  bytes_ = std::move(bytes);
  model_ = model;
  ranges_ = std::move(ranges);
}

bool SharedFile::has(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const {
  return bytes_ != nullptr && bytes > 0 && model == model_ && offset + bytes > offset &&
         ranges_.covered(offset, offset + bytes) == bytes;
}

bool SharedFile::holds(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  return has(model, offset, bytes);
}

Result<Bytes> SharedFile::read(const Hash256& model, std::uint64_t offset,
                               std::uint64_t bytes) const {
  std::shared_ptr<const ModelBytes> from;
  {
    const MutexLock lock(mutex_);
    if (!has(model, offset, bytes))
      return Error{ErrorCode::kNotFound, "this node does not have these bytes"};
    from = bytes_;
  }
  Bytes out(bytes);
  // Its path and the state of its disk are not for peers.
  if (!from->read(offset, out)) {
    return Error{ErrorCode::kIo, "cannot read the model file of this node"};
  }
  return out;
}

}  // namespace hearth::node
