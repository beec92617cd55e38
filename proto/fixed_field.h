// Reads fields of a fixed size in the control plane's protobufs, which a sender may fill with any
// bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/bytes.h"

namespace hearth {

// False for a field of another size, which changes nothing.
template <std::size_t kBytes>
bool read_field(const std::string& from, std::array<std::byte, kBytes>& to) {
  if (from.size() != kBytes) return false;
  std::ranges::copy(as_bytes(from), to.begin());
  return true;
}

inline std::string to_field(ByteSpan bytes) { return std::string(as_text(bytes)); }

}  // namespace hearth
