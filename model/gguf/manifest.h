// Manifest: the place and the SHA-256 of each tensor of a model file. With it, a part of the file
// may come from any source and is still checked before use.
//
// Layout, little-endian: "HearthM2"; file bytes and header bytes (u64); SHA-256 of the header;
// number of tensors (u32); for each, by offset: length of its name (u16), name, offset and bytes
// (u64), SHA-256. Then the manifest's own number (u64); how many sources (u8), each a length (u16)
// and a text; the length of a signature (u16) and the signature, which is over all before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

struct ManifestTensor {
  std::string name;  // printable ASCII
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Hash256 sha256;
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct Manifest {
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;  // all before the first tensor
  Hash256 header_sha256;
  std::vector<ManifestTensor> tensors;  // by offset; none overlaps another
  std::uint64_t number = 0;          // number in the cluster: a greater one replaces a smaller one
  std::vector<std::string> sources;  // https://... or hf:org/repo/file[@revision]

  // BLAKE2b of the fields about the file: two manifests with the same id are of the same file.
  Hash256 id() const;
  // kUnsupported when a name of a tensor is not printable ASCII.
  Status check() const;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Reads the whole file. `progress` receives the number of bytes hashed so far and returns false to
// stop (kCancelled).
Result<Manifest> make_manifest(const GgufFile& file,
                               const std::function<bool(std::uint64_t)>& progress);

// The purpose under which a cluster's key signs manifests and nothing else (base/crypto.h).
inline constexpr std::string_view kManifestPurpose = "hearth manifest v1";

// The signature of a message, and whether a signature is one.
using Signer = std::function<Bytes(ByteSpan message)>;
using SignatureCheck = std::function<bool(ByteSpan message, ByteSpan signature)>;

// `signer`: empty, no signature.
Bytes encode_manifest(const Manifest& manifest, const Signer& signer);

// kInvalidInput names field and offset; kRefused when `check` is set and does not accept the
// signature; this is checked before any other field is used.
Result<Manifest> parse_manifest(ByteSpan bytes, const SignatureCheck& check);

// Indices of the tensors that a stage of these layers reads: those of the layers; the first stage's
// embedding; the last one's norm and head; and what belongs to no layer. kInvalidInput when the
// model has fewer layers.
Result<std::vector<std::size_t>> stage_tensors(const Manifest& manifest, LayerRange layers);
// Whether every stage reads the tensor, because the model's shape depends on it: it is outside the
// layers, the embedding and the head (rope_freqs.weight).
bool is_common(std::string_view tensor);
// 0 for a model without layers. Layers for multi-token prediction behind the last layer do not
// count, because no stage reads them.
std::uint32_t layer_count(const Manifest& manifest);
// "blk.12.attn_q.weight" is of layer 12.
std::optional<std::uint32_t> layer_of(std::string_view tensor);
// A tensor that only those layers have, after "blk.N.".
inline constexpr std::string_view kPredictionMark = "nextn.eh_proj.weight";

}  // namespace hearth::model
