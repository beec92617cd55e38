// A report that a node sent bytes of a model that the manifest's hashes refuse. The node that
// fetched them sends it to the coordinator. The report is not proof: the reporting node may lie.
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
  std::string node;         // the sender, by its name in the roster
  Hash256 model;            // the id of the manifest
  std::string item;         // "tensor NAME" or "the header", for people
  std::uint64_t begin = 0;  // offset in the model's file
  std::uint64_t end = 0;
  friend bool operator==(const WrongBytes&, const WrongBytes&) = default;
};

void write_wrong_bytes(const WrongBytes& wrong, control::v1::WrongBytes& message);
// kInvalidInput names field and limit. The item keeps only bytes that a terminal shows.
Result<WrongBytes> read_wrong_bytes(const control::v1::WrongBytes& message);

}  // namespace hearth
