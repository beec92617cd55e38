// The keys and rosters of the data folder: who this process is, and whom it knows.
//
//   cluster.key   of the machine that signs the rosters       node.key   of a node
//   cluster.json  where other machines reach it (cli/home/cluster_file.h)
//   roster        the newest one                              roster.evidence-*   rosters that
//                                                             contradict it (proto/roster.h)
//   local.token   while a server runs: with it, processes of the same user join it as workers
//   local/*.key   of those workers, by their names
//   local/*.lock  held by each worker of the folder that runs
//
// All are readable by their user only (base/private_file.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "proto/join_token.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::cli {

// The roster of a folder: the newest one, which stays when the process ends.
class RosterFile {
 public:
  // Reads what an earlier process kept. `folder` empty: nothing is kept.
  static Result<std::unique_ptr<RosterFile>> open(const std::string& folder,
                                                  const PublicKey& cluster);

  std::shared_ptr<RosterBook> book() const { return book_; }
  Status keep(ByteSpan roster) const;  // writes it; the book is not told
  // From a coordinator: kNewer is in force from then on; kRollback and kFork, which contradict the
  // one in force, are kept as evidence and logged. Nothing for bytes that are no roster of ours.
  std::optional<Offer> take(ByteSpan roster) const;
  // From a member, at the coordinator: true when it contradicts the one in force and is no older;
  // then it is kept as evidence. kInvalidInput when the bytes are no roster of this cluster.
  Result<bool> contradicts(ByteSpan roster) const;
  // What was kept as evidence by contradicts(), or by take(). Others' files are passed over.
  std::vector<Roster> evidence() const;

 private:
  std::string folder_;
  std::shared_ptr<RosterBook> book_;
};

// Keeps a signed statement that contradicts the one in force, as what.evidence-*; the first few.
void keep_evidence(const std::string& folder, const std::string& what, std::uint64_t number,
                   ByteSpan bytes);

// The keys of a server, made where there are none.
struct ServerIdentity {
  static Result<ServerIdentity> open(const std::string& folder);
  SecretKey cluster;
  TlsIdentity node;
  std::unique_ptr<RosterFile> roster;
};

// Of a worker of this folder's server.
std::string local_key_file(const std::string& folder, const std::string& name);
std::string local_token_file(const std::string& folder);
bool has_local_key(const std::string& folder, const PublicKey& key);
// Held by the worker of that name while it runs. kRefused when one does and has not ended within
// `patience`, as one that is being restarted has.
Result<Descriptor> lock_worker(const std::string& folder, const std::string& name,
                               std::chrono::milliseconds patience);

// The token of a running server for its own machine; the file goes with it.
class LocalToken {
 public:
  static Result<std::unique_ptr<LocalToken>> write(const std::string& folder,
                                                   const PublicKey& cluster,
                                                   const std::string& control_address);
  ~LocalToken();
  LocalToken(const LocalToken&) = delete;
  LocalToken& operator=(const LocalToken&) = delete;

  const std::string& id() const { return token_.id; }
  bool opens(std::string_view id, std::string_view secret) const;

 private:
  explicit LocalToken(std::string path) : path_(std::move(path)) {}
  std::string path_;
  JoinToken token_;
};

}  // namespace hearth::cli
