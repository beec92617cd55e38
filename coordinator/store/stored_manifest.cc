#include "coordinator/store/stored_manifest.h"

#include "base/limits.h"
#include "coordinator/store/database.h"
#include "coordinator/store/place.h"

namespace hearth::coordinator {

Result<Bytes> read_stored_manifest(const std::string& folder) {
  TRY(const auto db, open_database(folder, Database::Flush::kEveryCommit));
  Statement row(*db, "SELECT bytes FROM manifest WHERE octet_length(bytes) <= $1");
  TRY(const bool there, row.add(limits::kManifestBytes).step());
  if (!there) return Bytes();
  const ByteSpan bytes = row.blob(0);
  return Bytes(bytes.begin(), bytes.end());
}

Status write_stored_manifest(const std::string& folder, const LeaseTerm& term, ByteSpan manifest) {
  TRY(const auto db, open_database(folder, Database::Flush::kEveryCommit, term));
  return db->transaction([&]() -> Status {
    TRY_VOID(Statement(*db,
                       "INSERT INTO manifest (\"only\", bytes) VALUES (0, $1) ON CONFLICT "
                       "(\"only\") DO UPDATE SET bytes = excluded.bytes")
                 .add(manifest)
                 .run());
    return ok_status();
  });
}

}  // namespace hearth::coordinator
