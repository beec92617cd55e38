// The bytes of a model on this disk, read from its files as if from one (model/gguf/parts.h). No
// file is mapped, so lost bytes are an error and not a signal. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "model/gguf/parts.h"

namespace hearth::node {

class ModelBytes {
 public:
  // Opens a file; for the first part of a model in parts, all parts. kIo, kNotFound; kInvalidInput
  // for a path that is not a regular file, and for parts as in model::GgufFile::open(). Blocks: it
  // reads the headers of all parts.
  static Result<ModelBytes> open(const std::string& path);
  // An open file of `bytes` bytes. `path`: for errors.
  static ModelBytes of(Descriptor file, std::uint64_t bytes, std::string path);
  ModelBytes() = default;  // has no bytes

  std::uint64_t size() const { return map_.file_bytes(); }
  // kIo when the files do not have all of [offset, offset + out.size()).
  Status read(std::uint64_t offset, MutableByteSpan out) const;
  // The files' identity, sizes and times of change. kIo.
  Result<Bytes> identity() const;

 private:
  struct File {
    Descriptor descriptor;
    std::string path;
  };
  explicit ModelBytes(model::PartMap map) : map_(std::move(map)) {}
  static Result<File> open_file(const std::string& path, std::uint64_t& bytes);
  static Status read_file(const File& file, std::uint64_t at, MutableByteSpan out);

  model::PartMap map_{0};
  std::vector<File> files_;  // by part
};

}  // namespace hearth::node
