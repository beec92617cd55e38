// A whole file, read-only, in the address space: pages come in when they are read.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace hearth::model {

class MappedFile {
 public:
  // kNotFound or kIo with the system's text; kInvalidInput for anything but a regular file, which
  // could block us or grow for ever.
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  ByteSpan bytes() const { return bytes_; }
  // kIo when the file's size has changed since it was opened: the bytes that were read may be
  // inconsistent.
  Status check_unchanged() const;
  // Leaves the mapping to the caller, who unmaps it.
  void release();

 private:
  std::string path_;
  int descriptor_ = -1;
  ByteSpan bytes_;
};

}  // namespace hearth::model
