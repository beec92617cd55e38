#include "model/gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

Error system_error(const std::string& path, std::string_view action) {
  const int code = errno;
  return {code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          quote(path) + ": cannot " + std::string(action) + ": " + std::strerror(code)};
}

Result<std::uint64_t> regular_file_bytes(int descriptor, const std::string& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error(path, "read its size");
  if (!S_ISREG(info.st_mode)) return Error::invalid(quote(path), " is not a regular file");
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a pipe without a writer must not block.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) return system_error(path, "open the file");
  TRY(const std::uint64_t size, regular_file_bytes(file.descriptor_, path));
  if (size > 0) {
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
    if (mapping == MAP_FAILED) return system_error(path, "map the file");
    file.bytes_ = {static_cast<const std::byte*>(mapping), size};
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::release() { bytes_ = {}; }

Status MappedFile::check_unchanged() const {
  if (descriptor_ < 0) return ok_status();
  TRY(const std::uint64_t now, regular_file_bytes(descriptor_, path_));
  if (now == bytes_.size()) return ok_status();
  return Error::of(ErrorCode::kIo, quote(path_), " changed from ", bytes_.size(), " to ", now,
                   " bytes while it was opened");
}

}  // namespace hearth::model
