// The keys and rosters of the data folder: the identity of this process, and the members that it
// knows.
//
//   cluster.key   of the machine that signs the rosters       node.key   of a node
//   cluster.json  where other machines reach it (cli/home/cluster_file.h)
//   roster        the newest one                              roster.evidence-*   rosters that
//                                                             contradict it (proto/roster.h)
//   local.token   while a server runs: with it, processes of the same user join it as workers
//   local/*.key   of those workers, by their names
//   local/*.lock  held by each worker of the folder that runs
//   local/*.order an admin's order to one of them, while it is in force (node/machine/pause_file.h)
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
  // Takes a roster from a coordinator. kNewer: it is in force from now on. kRollback and kFork
  // contradict the one in force; they are kept as evidence and logged. Nothing: the bytes are not a
  // roster of this cluster.
  std::optional<Offer> take(ByteSpan roster) const;
  // Takes a roster from a member, at the coordinator. True when it contradicts the one in force and
  // is not older; it is then kept as evidence. kInvalidInput when the bytes are not a roster of
  // this cluster.
  Result<bool> contradicts(ByteSpan roster) const;
  // The rosters that contradicts() or take() kept as evidence. Other files are skipped.
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

// The key of a worker of this folder's server.
std::string local_key_file(const std::string& folder, const std::string& name);
std::string local_token_file(const std::string& folder);
bool has_local_key(const std::string& folder, const PublicKey& key);
std::string admin_order_file(const std::string& folder, const std::string& name);
// The lock that the worker of that name holds while it runs. kRefused when another process holds it
// and has not ended within `patience`; a worker that is being restarted ends in that time.
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
