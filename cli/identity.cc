#include "cli/identity.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/loop.h"
#include "cli/paths.h"
#include "coordinator/credentials.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kEvidenceFiles = 16;

void keep_evidence(const std::string& folder, ByteSpan roster) {
  const auto parsed = parse_roster(roster);
  if (folder.empty() || !parsed) return;
  const std::string prefix = "roster.evidence-";
  std::size_t kept = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    kept += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
  }
  const std::string name = folder + "/" + prefix + std::to_string(parsed->number) + "-" +
                           blake2b(roster).hex().substr(0, 16);
  if (kept >= kEvidenceFiles || std::filesystem::exists(name, error)) return;
  const Status written = write_private_file(name, roster);
  if (!written) spdlog::error("keeping evidence: {}", written.error().message);
}

}  // namespace

Result<std::unique_ptr<RosterFile>> RosterFile::open(const std::string& folder,
                                                     const PublicKey& cluster) {
  auto file = std::make_unique<RosterFile>();
  file->folder_ = folder;
  file->book_ = std::make_shared<RosterBook>(cluster);
  if (folder.empty()) return file;
  const std::string path = folder + "/roster";
  const auto bytes = read_private_file(path, limits::kRosterBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return file;
  if (!bytes) return bytes.error();
  const auto offered = file->book_->offer(*bytes);
  REQUIRE(offered.ok(), path + ": " + offered.error().message);
  return file;
}

Status RosterFile::keep(ByteSpan roster) const {
  return folder_.empty() ? ok_status() : write_private_file(folder_ + "/roster", roster);
}

bool RosterFile::take(ByteSpan roster) const {
  const auto before = book_->roster();
  const auto offered = book_->offer(roster);
  if (!offered) {
    spdlog::error("the coordinator sent a roster that is none: {}", offered.error().message);
    return false;
  }
  switch (*offered) {
    case RosterBook::Offer::kKnown: return false;
    case RosterBook::Offer::kRollback:
    case RosterBook::Offer::kFork:
      spdlog::error(
          "the coordinator sent {} signed roster of number {} or less; refused, and kept as "
          "evidence",
          *offered == RosterBook::Offer::kFork ? "another" : "an older", before->number);
      keep_evidence(folder_, roster);
      return false;
    case RosterBook::Offer::kNewer: break;
  }
  if (const Status kept = keep(roster); !kept) {
    spdlog::error("the roster could not be kept: {}", kept.error().message);
  }
  return true;
}

Result<ServerIdentity> ServerIdentity::open(const std::string& given) {
  const std::string folder = data_folder(given);
  TRY_VOID(make_private_folder(folder));
  TRY(const SecretKey cluster, own_key_file(folder + "/cluster.key"));
  TRY(const SecretKey node, own_key_file(folder + "/node.key"));
  TRY(TlsIdentity shown, TlsIdentity::make(node));
  TRY(auto roster, RosterFile::open(folder, cluster.public_key()));
  return ServerIdentity{cluster, std::move(shown), std::move(roster)};
}

std::string local_token_file(const std::string& folder) { return folder + "/local.token"; }

Result<std::unique_ptr<LocalToken>> LocalToken::write(const std::string& given,
                                                      const PublicKey& cluster,
                                                      const std::string& control_address) {
  std::unique_ptr<LocalToken> made(new LocalToken(local_token_file(data_folder(given))));
  made->token_.fingerprint = fingerprint(cluster);
  coordinator::TokenSecret secret = coordinator::new_token_secret();
  made->token_.id = std::move(secret.id);
  made->token_.secret = std::move(secret.secret);
  made->token_.addresses = {control_address};
  TRY_VOID(write_private_file(made->path_, as_bytes(made->token_.text())));
  return made;
}

LocalToken::~LocalToken() { ::unlink(path_.c_str()); }

bool LocalToken::opens(std::string_view id, std::string_view secret) const {
  return id == token_.id && equal_secrets(as_bytes(secret), as_bytes(token_.secret));
}

}  // namespace hearth::cli
