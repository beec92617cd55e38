// Manages the pages of a mapped model file while it is loaded. Pages are read ahead of the packing
// threads, mapped a megabyte at a time, and released as soon as they are packed. So the process
// never holds two copies of a model. Does nothing for bytes that are not mapped.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

class FilePages {
 public:
  explicit FilePages(const GgufFile& file);

  // Call before `range` is read; any thread may. kIo if the file has lost these bytes since.
  Status bring(ByteSpan range) const;
  // Call after `range` is read. Pages that it shares with its neighbours stay, unless `whole`.
  void drop(ByteSpan range, bool whole = false) const;
  void drop_all() const;

 private:
  ByteSpan file_of(ByteSpan range) const;  // empty where nothing is mapped

  const std::vector<ByteSpan> files_;  // of the model; empty where nothing is mapped
};

}  // namespace hearth::model
