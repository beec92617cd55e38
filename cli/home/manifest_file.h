// The manifest of a cluster's model (model/gguf/manifest.h), as a data folder keeps it: signed with
// the cluster key and numbered like the roster. The coordinator's machine keeps the newest manifest
// that it made; a member keeps the newest one that it received.
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

  // Takes a manifest from a coordinator. A newer one is kept and is in force. kRefused for one
  // without the cluster key's signature. kRefused also for one that contradicts the one in force;
  // that one is kept as evidence.
  Status take(ByteSpan bytes);
  // Takes the newest one that a coordinator of this cluster has made, unless it is older than the
  // one in force. True: it is another one.
  Result<bool> follow(ByteSpan bytes);
  // Adopts the manifest of a model that is served from now on: numbers, signs and stores it, unless
  // it is already in force.
  Status publish(model::Manifest manifest, const SecretKey& cluster);

 private:
  std::string folder_;
  PublicKey cluster_;
  std::optional<model::Manifest> manifest_;
  Bytes bytes_;
};

}  // namespace hearth::cli
