#include "node/layers/model_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "model/gguf/gguf.h"

namespace hearth::node {

Result<ModelBytes::File> ModelBytes::open_file(const std::string& path, std::uint64_t& bytes) {
  // O_NONBLOCK: opening a pipe without a writer must not block.
  File file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path};
  struct stat info {};
  if (!file.descriptor.open() || ::fstat(*file.descriptor, &info) != 0) {
    const int code = errno;
    return Error{code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "cannot open " + path + ": " + std::strerror(code)};
  }
  REQUIRE(S_ISREG(info.st_mode), path, " is not a regular file");
  bytes = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Result<ModelBytes> ModelBytes::open(const std::string& path) {
  const std::vector<std::string> names = model::all_parts(path);
  std::shared_ptr<const model::GgufFile> joined;
  if (names.size() > 1) {
    TRY(joined, model::GgufFile::open(path));
  }
  if (joined == nullptr || joined->parts().empty()) {
    std::uint64_t bytes = 0;
    TRY(File file, open_file(path, bytes));
    return of(std::move(file.descriptor), bytes, path);
  }
  ModelBytes model{model::PartMap(*joined)};
  for (const auto& part : joined->parts()) {
    std::uint64_t bytes = 0;
    TRY(model.files_.emplace_back(), open_file(part->path(), bytes));
    if (bytes != part->file_bytes()) {
      return Error::of(ErrorCode::kIo, part->path(), " has changed while it was opened");
    }
  }
  return model;
}

ModelBytes ModelBytes::of(Descriptor file, std::uint64_t bytes, std::string path) {
  ModelBytes model{model::PartMap(bytes)};
  model.files_.push_back({std::move(file), std::move(path)});
  return model;
}

Status ModelBytes::read(std::uint64_t offset, MutableByteSpan out) const {
  if (offset > size() || out.size() > size() - offset) {
    return Error::of(ErrorCode::kIo, "cannot read ", out.size(), " bytes at byte ", offset,
                     " of a model of ", size(), ": it ends there");
  }
  while (!out.empty()) {
    const model::PartMap::Piece piece = map_.piece(offset, offset + out.size());
    const MutableByteSpan here = out.first(piece.bytes);
    if (piece.part) {
      INVARIANT(*piece.part < files_.size(), "every part is open");
      TRY_VOID(read_file(files_[*piece.part], piece.offset, here));
    } else if (!piece.header.empty()) {
      std::memcpy(here.data(), piece.header.data(), here.size());
    } else {
      std::memset(here.data(), 0, here.size());
    }
    offset += here.size();
    out = out.subspan(here.size());
  }
  return ok_status();
}

Status ModelBytes::read_file(const File& file, std::uint64_t at, MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(*file.descriptor, out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error::of(ErrorCode::kIo, "cannot read ", file.path, " at byte ", at, ": ",
                       (got == 0 ? "it ends there" : std::strerror(errno)));
    }
    at += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return ok_status();
}

Result<Bytes> ModelBytes::identity() const {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const File& file : files_) {
    struct stat info {};
    if (::fstat(*file.descriptor, &info) != 0) {
      return Error::of(ErrorCode::kIo, "cannot read ", file.path, ": ", std::strerror(errno));
    }
    out.write(info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
              info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  }
  return bytes;
}

}  // namespace hearth::node
