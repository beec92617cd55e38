// The manifest of a cluster's model (model/gguf/manifest.h), as a data folder keeps it: signed with
// the cluster key and numbered like the roster. On the coordinator's machine the newest that was
// made, on the others the newest that they were told.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "model/gguf/manifest.h"

namespace hearth::cli {

class ManifestFile {
 public:
  // Reads what an earlier process kept; kInvalidInput for a file of another cluster.
  static Result<ManifestFile> open(const std::string& folder, const PublicKey& cluster);

  const std::optional<model::Manifest>& manifest() const { return manifest_; }
  const Bytes& bytes() const { return bytes_; }

  // From a coordinator. A newer one is kept and in force; kRefused for one that the cluster key has
  // not signed, and for one that contradicts the one in force, which is kept as evidence.
  Status take(ByteSpan bytes);
  // Of a model that is served from now on: numbered, signed and kept, unless it is in force.
  Status publish(model::Manifest manifest, const SecretKey& cluster);

 private:
  std::string folder_;
  PublicKey cluster_;
  std::optional<model::Manifest> manifest_;
  Bytes bytes_;
};

}  // namespace hearth::cli
