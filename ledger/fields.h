// How the formats of the ledger are written and read: field after field, little-endian, without
// lengths. A format lists its fields once, in a function that takes a FieldWriter or a FieldReader.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::ledger {

struct FieldWriter {
  Bytes bytes = {};

  // Numbers, texts, bytes, hashes and keys.
  template <typename... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  void key_or_empty(const PublicKey& key) { put(key); }
  void check(bool /*is_right*/, const std::string& /*why*/) {}

 private:
  template <typename T>
  void put(const T& value) {
    ByteWriter out(bytes);
    if constexpr (std::is_arithmetic_v<T>) {
      out.write(value);
    } else if constexpr (std::is_same_v<T, PublicKey>) {
      out.append(value.bytes());
    } else if constexpr (std::is_same_v<T, Hash256>) {
      out.append(value.bytes);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      out.append(as_bytes(value));
    } else {
      out.append(value);
    }
  }
};

// The bytes of these values, one after the other.
template <typename... Values>
Bytes pack(const Values&... values) {
  FieldWriter out;
  out(values...);
  return std::move(out.bytes);
}

struct FieldReader {
  ByteReader in;
  Status status = ok_status();  // the first field that is refused

  template <typename... Values>
  void operator()(Values&... values) {
    (take(values), ...);
  }
  void key_or_empty(PublicKey& key) {
    ByteReader ahead = in;
    const ByteSpan taken = ahead.take(PublicKey::kBytes);
    const bool is_empty =
        std::ranges::all_of(taken, [](std::byte one) { return one == std::byte{}; });
    if (!is_empty) return take(key);
    in = ahead;
    key = {};
  }
  void check(bool is_right, const std::string& why) {
    if (!is_right && status) status = Error::invalid(why);
  }

 private:
  template <typename T>
  void take(T& number) {
    number = in.read<T>();
  }
  template <std::size_t kBytes>
  void take(std::array<std::byte, kBytes>& bytes) {
    std::ranges::copy(in.take(kBytes), bytes.begin());
  }
  void take(Hash256& hash) { take(hash.bytes); }
  void take(PublicKey& key) {
    auto parsed = PublicKey::parse(in.take(PublicKey::kBytes));
    if (parsed) {
      key = *parsed;
    } else if (status) {
      status = parsed.error();
    }
  }
};

}  // namespace hearth::ledger
