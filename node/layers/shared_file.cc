#include "node/layers/shared_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hearth::node {

Status SharedFile::share(const Hash256& model, const std::string& path, RangeSet ranges) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open())
    return Error{ErrorCode::kIo, "cannot open " + path + ": " + std::strerror(errno)};
  const MutexLock lock(mutex_);
  file_ = std::move(file);
  model_ = model;
  ranges_ = std::move(ranges);
  return ok_status();
}

bool SharedFile::has(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const {
  return file_.open() && bytes > 0 && model == model_ && offset + bytes > offset &&
         ranges_.covered(offset, offset + bytes) == bytes;
}

bool SharedFile::holds(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  return has(model, offset, bytes);
}

Result<Bytes> SharedFile::read(const Hash256& model, std::uint64_t offset,
                               std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  if (!has(model, offset, bytes))
    return Error{ErrorCode::kNotFound, "this node does not have these bytes"};
  Bytes out(bytes);
  std::uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(*file_, out.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Error{ErrorCode::kIo, "cannot read the model file of this node"};
    done += static_cast<std::uint64_t>(got);
  }
  return out;
}

}  // namespace hearth::node
