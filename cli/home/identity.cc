#include "cli/home/identity.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/member.h"
#include "cli/process/paths.h"
#include "coordinator/membership/credentials.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kEvidenceFiles = 16;
constexpr auto kLockPoll = std::chrono::milliseconds(50);

// Names may hold any printable character; names of files may not.
std::string local_file(const std::string& folder, const std::string& name, const char* ending) {
  return folder + "/local/" + blake2b(as_bytes(name)).hex().substr(0, 32) + ending;
}

}  // namespace

void keep_evidence(const std::string& folder, const std::string& what, std::uint64_t number,
                   ByteSpan bytes) {
  if (folder.empty()) return;
  const std::string prefix = what + ".evidence-";
  std::size_t kept = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    kept += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
  }
  const std::string name =
      folder + "/" + prefix + std::to_string(number) + "-" + blake2b(bytes).hex().substr(0, 16);
  if (kept >= kEvidenceFiles || std::filesystem::exists(name, error)) return;
  const Status written = write_private_file(name, bytes);
  if (!written) spdlog::error("cannot keep evidence: {}", written.error().message);
}

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
  REQUIRE(offered.ok(), path, ": ", offered.error().message);
  return file;
}

Status RosterFile::keep(ByteSpan roster) const {
  return folder_.empty() ? ok_status() : write_private_file(folder_ + "/roster", roster);
}

std::optional<Offer> RosterFile::take(ByteSpan roster) const {
  const auto before = book_->roster();
  const auto offered = book_->offer(roster);
  if (!offered) {
    spdlog::error("the coordinator sent an invalid roster: {}", offered.error().message);
    return std::nullopt;
  }
  if (*offered == Offer::kNewer) {
    const Status kept = keep(roster);
    if (!kept) spdlog::error("cannot store the roster: {}", kept.error().message);
  } else if (*offered != Offer::kKnown) {
    spdlog::error(
        "the coordinator sent {} signed roster with number {} or lower; refused and kept as "
        "evidence",
        *offered == Offer::kFork ? "another" : "an older", before->number);
    const auto parsed = parse_roster(roster);
    if (parsed) keep_evidence(folder_, "roster", parsed->number, roster);
  }
  return *offered;
}

Result<bool> RosterFile::contradicts(ByteSpan bytes) const {
  TRY(const Roster roster, parse_roster(bytes));
  REQUIRE(roster.cluster == book_->cluster(), "the roster belongs to another cluster");
  const auto ours = book_->roster();
  REQUIRE(ours != nullptr, "there is no roster yet");
  const Offer offer = judge_offer(roster.number, bytes, ours->number, book_->bytes());
  if (offer != Offer::kNewer && offer != Offer::kFork) return false;
  keep_evidence(folder_, "roster", roster.number, bytes);
  return true;
}

std::vector<Roster> RosterFile::evidence() const {
  std::vector<Roster> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (!entry.path().filename().string().starts_with("roster.evidence-")) continue;
    const auto bytes = read_private_file(entry.path().string(), limits::kRosterBytes);
    auto roster = bytes.ok() ? parse_roster(*bytes) : bytes.error();
    if (roster.ok() && roster->cluster == book_->cluster()) all.push_back(std::move(*roster));
    if (all.size() == kEvidenceFiles) break;
  }
  return all;
}

Result<ServerIdentity> ServerIdentity::open(const std::string& given) {
  const std::string folder = data_folder(given);
  TRY_VOID(make_private_folder(folder));
  TRY(const auto member, read_member_file(folder));  // before anything of a server is made there
  REQUIRE(!member, "this machine is ", role_name(member->role), " ", member->node,
          " of the cluster ", three_words(member->cluster),
          "; a server needs a folder of its own (--data-dir FOLDER), or leave that "
          "cluster first (hearth leave)");
  TRY(const SecretKey cluster, own_key_file(folder + "/cluster.key"));
  TRY(const SecretKey node, own_key_file(folder + "/node.key"));
  TRY(TlsIdentity shown, TlsIdentity::make(node));
  TRY(auto roster, RosterFile::open(folder, cluster.public_key()));
  return ServerIdentity{cluster, std::move(shown), std::move(roster)};
}

std::string local_key_file(const std::string& folder, const std::string& name) {
  return local_file(folder, name, ".key");
}

std::string admin_order_file(const std::string& folder, const std::string& name) {
  return local_file(folder, name, ".order");
}

Result<Descriptor> lock_worker(const std::string& folder, const std::string& name,
                               std::chrono::milliseconds patience) {
  TRY_VOID(make_private_folder(folder + "/local"));
  const std::string path = local_file(folder, name, ".lock");
  Descriptor file(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.open()) return Error::of(ErrorCode::kIo, "opening ", path, ": ", std::strerror(errno));
  for (auto waited = kLockPoll; ::flock(*file, LOCK_EX | LOCK_NB) != 0; waited += kLockPoll) {
    if (waited > patience) {
      return Error::of(ErrorCode::kRefused, "worker ", name, " runs already with the data folder ",
                       folder, "; stop that, or pass another --name or --data-dir");
    }
    std::this_thread::sleep_for(kLockPoll);
  }
  return file;
}

std::string local_token_file(const std::string& folder) { return folder + "/local.token"; }

bool has_local_key(const std::string& folder, const PublicKey& key) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/local", error)) {
    if (entry.path().extension() != ".key") continue;
    const auto each = read_key_file(entry.path().string());
    if (each.ok() && each->public_key() == key) return true;
  }
  return false;
}

Result<std::unique_ptr<LocalToken>> LocalToken::write(const std::string& given,
                                                      const PublicKey& cluster,
                                                      const std::string& control_address) {
  std::unique_ptr<LocalToken> made(new LocalToken(local_token_file(data_folder(given))));
  const coordinator::TokenSecret secret = coordinator::new_token_secret();
  made->token_ = {fingerprint(cluster), secret.id, secret.secret, {control_address}};
  TRY_VOID(write_private_file(made->path_, as_bytes(made->token_.text())));
  return made;
}

LocalToken::~LocalToken() { ::unlink(path_.c_str()); }

bool LocalToken::opens(std::string_view id, std::string_view secret) const {
  return id == token_.id && equal_secrets(as_bytes(secret), as_bytes(token_.secret));
}

}  // namespace hearth::cli
