// Models in several files, as llama.cpp's gguf-split and gguf's Python writer make them: part 1 has
// all keys, and each part has some of the tensors and these three keys.
//
//   split.no             uint16   of this part, from 0
//   split.count          uint16   of all parts; 0 and 1 are no split
//   split.tensors.count  int32    of all parts together
//
// File names end with -00001-of-00003.gguf: the number, from 1, and the count. By them a program
// finds the other parts, in the same folder. The first part may have no tensors.
//
// A model in parts is the one file that they were made from: part 1's keys without these three, and
// the tensors of all parts in order. So its hashes are those of that file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// Whether a key is one of the three.
bool is_part_key(std::string_view key);

struct PartPlace {
  std::uint32_t number = 1;  // from 1, as in file names
  std::uint32_t count = 1;
  friend bool operator==(const PartPlace&, const PartPlace&) = default;
};
// The place according to a file's keys. Nothing: it is a whole model. kInvalidInput names the wrong
// key.
Result<std::optional<PartPlace>> part_of(const GgufFile& file);

// A path, address or name that ends with -00002-of-00003.gguf.
struct PartName {
  std::string stem;  // what comes before
  PartPlace place;
  std::string of(std::uint32_t number) const;  // of another part
};
// Nothing for other names, and for an impossible number or count.
std::optional<PartName> part_name(std::string_view name);
// The names of all parts if `name` is that of a first part; otherwise `name` alone.
std::vector<std::string> all_parts(const std::string& name);

// The paths of all parts, by the keys and the name of the first; empty for a whole model.
// kInvalidInput for another part than the first, or for a name by which none is found.
Result<std::vector<std::string>> part_paths(const GgufFile& first);

// Adds up the resources of the parts of a model. Together they may take no more than one file may,
// so that many parts cannot exhaust memory.
class PartBudget {
 public:
  // kInvalidInput names the part with which tensors, keys, array items or header bytes exceed their
  // limit.
  Status add(const GgufFile& part);
  std::uint64_t header_room() const { return header_room_; }  // bytes for the headers to come

 private:
  std::uint64_t header_room_ = limits::kGgufHeaderBytes;
  std::uint64_t tensors_ = 0;
  std::uint64_t keys_ = 0;
  std::uint64_t array_items_ = 0;
};

// All parts of a model in their order, as one. An error names the part that does not belong.
Result<std::shared_ptr<const GgufFile>> join_parts(
    std::vector<std::shared_ptr<const GgufFile>> parts);

// Where bytes of a model lie: in the joined header, which is in no file; in a part; or nowhere
// (padding after the last tensor of a part is zeros).
class PartMap {
 public:
  explicit PartMap(const GgufFile& model);  // one file, or several
  explicit PartMap(std::uint64_t file_bytes) : PartMap(file_bytes, {0, file_bytes, 0, 0}) {}

  struct Piece {
    std::uint64_t bytes = 0;
    ByteSpan header;                    // the bytes themselves, where they are of the header
    std::optional<std::uint32_t> part;  // else the part that has them, from `offset` on
    std::uint64_t offset = 0;
  };
  // The longest contiguous piece from `begin`, at most up to `end`, which must not exceed
  // file_bytes().
  Piece piece(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  // Bytes of the model that lie together in a part, from `offset` on.
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t part = 0;
    std::uint64_t offset = 0;
  };
  PartMap(std::uint64_t file_bytes, Run run) : file_bytes_(file_bytes), runs_{run} {}
  void add(const TensorInfo& tensor);

  std::uint64_t file_bytes_ = 0;
  Bytes header_;           // of a model in parts
  std::vector<Run> runs_;  // by begin
};

}  // namespace hearth::model
