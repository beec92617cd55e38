#include "cli/home/manifest_file.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/identity.h"
#include "proto/roster.h"

namespace hearth::cli {
namespace {

std::string path_of(const std::string& folder) { return folder + "/manifest"; }

Result<model::Manifest> read_signed(ByteSpan bytes, const PublicKey& cluster) {
  return model::parse_manifest(bytes, [&](ByteSpan message, ByteSpan signature) {
    return verify(cluster, model::kManifestPurpose, message, signature);
  });
}

}  // namespace

Result<ManifestFile> ManifestFile::open(const std::string& folder, const PublicKey& cluster) {
  ManifestFile file;
  file.folder_ = folder;
  file.cluster_ = cluster;
  auto bytes = read_private_file(path_of(folder), limits::kManifestBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return file;
  if (!bytes) return bytes.error();
  auto manifest = read_signed(*bytes, cluster);
  REQUIRE(manifest.ok(), path_of(folder), ": ", manifest.error().message,
          "; remove it, and the coordinator sends it again");
  file.manifest_ = std::move(*manifest);
  file.bytes_ = std::move(*bytes);
  return file;
}

Status ManifestFile::take(ByteSpan bytes) {
  TRY(model::Manifest manifest, read_signed(bytes, cluster_));
  const Offer offer =
      manifest_ ? judge_offer(manifest.number, bytes, manifest_->number, bytes_) : Offer::kNewer;
  if (offer == Offer::kKnown) return ok_status();
  if (offer != Offer::kNewer) {
    keep_evidence(folder_, "manifest", manifest.number, bytes);
    return Error::of(ErrorCode::kRefused, "the coordinator sent a signed manifest with number ",
                     manifest.number, ", which contradicts number ", manifest_->number,
                     " of this machine; refused and kept as evidence. If the coordinator was "
                     "restored from a backup on purpose, remove ",
                     path_of(folder_));
  }
  TRY_VOID(write_private_file(path_of(folder_), bytes));
  bytes_.assign(bytes.begin(), bytes.end());
  manifest_ = std::move(manifest);
  return ok_status();
}

Result<bool> ManifestFile::follow(ByteSpan bytes) {
  TRY(model::Manifest manifest, read_signed(bytes, cluster_));
  if (manifest_ && manifest_->number > manifest.number) return false;
  if (std::ranges::equal(bytes, bytes_)) return false;
  TRY_VOID(write_private_file(path_of(folder_), bytes));
  bytes_.assign(bytes.begin(), bytes.end());
  manifest_ = std::move(manifest);
  return true;
}

Status ManifestFile::publish(model::Manifest manifest, const SecretKey& cluster) {
  const bool same =
      manifest_ && manifest_->id() == manifest.id() && manifest_->sources == manifest.sources;
  if (same) return ok_status();
  manifest.number = manifest_ ? manifest_->number + 1 : 1;
  TRY_VOID(manifest.check());
  const auto sign = [&](ByteSpan message) {
    const Signature signature = cluster.sign(model::kManifestPurpose, message);
    return Bytes(signature.begin(), signature.end());
  };
  return take(model::encode_manifest(manifest, sign));
}

}  // namespace hearth::cli
