#include "coordinator/store/stored_manifest.h"

#include <algorithm>

#include "base/limits.h"
#include "base/private_file.h"
#include "coordinator/store/place.h"
#include "coordinator/store/postgres_database.h"

namespace hearth::coordinator {
namespace {

// As cli/home/manifest_file.h and cli/serve/served_manifest.h name them.
std::string file_of(const std::string& folder) { return folder + "/manifest"; }
std::string note_of(const std::string& folder) { return folder + "/manifest.of"; }

Result<Bytes> read(Database& db) {
  Statement row(db, "SELECT bytes FROM manifest WHERE octet_length(bytes) <= $1");
  TRY(const bool there, row.add(limits::kManifestBytes).step());
  if (!there) return Bytes();
  const ByteSpan bytes = row.blob(0);
  return Bytes(bytes.begin(), bytes.end());
}

Status write(Database& db, ByteSpan manifest) {
  return db.transaction([&]() -> Status {
    TRY_VOID(Statement(db,
                       "INSERT INTO manifest (\"only\", bytes) VALUES (0, $1) ON CONFLICT "
                       "(\"only\") DO UPDATE SET bytes = excluded.bytes")
                 .add(manifest)
                 .run());
    return ok_status();
  });
}

}  // namespace

Result<Bytes> read_stored_manifest(const std::string& folder) {
  TRY(const auto db, open_database(folder, Database::Flush::kEveryCommit));
  return read(*db);
}

Status write_stored_manifest(const std::string& folder, const LeaseTerm& term, ByteSpan manifest) {
  TRY(const auto db, open_database(folder, Database::Flush::kEveryCommit, term));
  return write(*db, manifest);
}

Status import_manifest_of_folder(PostgresDatabase& db, const std::string& folder) {
  const auto manifest = read_private_file(file_of(folder), limits::kManifestBytes);
  if (!manifest && manifest.error().code != ErrorCode::kNotFound) return manifest.error();
  return write(db, manifest ? *manifest : Bytes());
}

Status export_stored_manifest(PostgresDatabase& db, const std::string& folder) {
  TRY(const Bytes manifest, read(db));
  const auto kept = read_private_file(file_of(folder), limits::kManifestBytes);
  if (manifest.empty() || (kept && std::ranges::equal(*kept, manifest))) return ok_status();
  // The note names the model file of the manifest that was there.
  TRY_VOID(write_private_file(note_of(folder), {}));
  return write_private_file(file_of(folder), manifest);
}

}  // namespace hearth::coordinator
