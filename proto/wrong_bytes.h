// A report that a node sent bytes of a model that the manifest's hashes refuse. The node that
// fetched them sends it to the coordinator. One node's word against another's: it may be a lie.
#pragma once

#include <cstdint>
#include <string>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth {

namespace control::v1 {
class WrongBytes;
}

struct WrongBytes {
  std::string node;         // that sent them, by its name in the roster
  Hash256 model;            // the id of the manifest
  std::string item;         // "tensor NAME" or "the header", for people
  std::uint64_t begin = 0;  // of that, in the model's file
  std::uint64_t end = 0;
  friend bool operator==(const WrongBytes&, const WrongBytes&) = default;
};

void write_wrong_bytes(const WrongBytes& wrong, control::v1::WrongBytes& message);
// kInvalidInput names field and limit. Of the item those bytes stay that a terminal shows.
Result<WrongBytes> read_wrong_bytes(const control::v1::WrongBytes& message);

}  // namespace hearth
