#include "node/engine/step_hash.h"

#include <string_view>

namespace hearth::node {
namespace {

// Tags of one length, so that no message of one kind equals one of another kind.
constexpr std::string_view kTokenTag = "hearth.tok";
constexpr std::string_view kActivationTag = "hearth.act";
constexpr std::string_view kOutputTag = "hearth.out";
constexpr std::string_view kKeyValueTag = "hearth.kvs";
static_assert(kTokenTag.size() == 10 && kActivationTag.size() == 10 && kOutputTag.size() == 10 &&
              kKeyValueTag.size() == 10);

template <typename... Words>
Bytes header(std::string_view tag, Words... words) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.append(as_bytes(tag));
  (writer.write<std::uint32_t>(words), ...);
  return bytes;
}

}  // namespace

Hash256 hash_token(Position position, TokenId token) {
  return blake2b(header(kTokenTag, position, static_cast<std::uint32_t>(token)));
}

Hash256 hash_activation(std::uint32_t boundary, Position position, ByteSpan row) {
  Blake2b hash;
  hash.update(header(kActivationTag, boundary, position));
  hash.update(row);
  return hash.finish();
}

Hash256 hash_output(Position position, std::uint32_t token) {
  return blake2b(header(kOutputTag, position, token));
}

Blake2b begin_kv_hash(std::uint32_t layer, std::uint32_t positions) {
  Blake2b hash;
  hash.update(header(kKeyValueTag, layer, positions));
  return hash;
}

}  // namespace hearth::node
