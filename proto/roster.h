// The roster: the members of a cluster, signed with the cluster key. The signed bytes are stored
// and sent as they are; a check never encodes them again.
//
//   offset  size  field, little-endian
//        0     8  magic "HEARTHR1"
//        8    32  public key of the cluster
//       40     8  number, from 1; a greater one replaces a smaller one
//       48     4  entries, at most limits::kRosterEntries, in the order of their keys
//                 each: key 32, role 1, name bytes 1, name, addresses 1, each: bytes 2, "host:port"
//      end    64  signature of everything before
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "base/thread_annotations.h"

namespace hearth {

enum class Role : std::uint8_t { kWorker = 1, kClient = 2, kAdmin = 3, kCoordinator = 4 };
std::string_view role_name(Role role);
Result<Role> parse_role(std::string_view name);

// The public key is the node's id. The name is for people, and unique in a roster.
struct RosterEntry {
  PublicKey key;
  std::string name;  // as check_node_name
  Role role = Role::kWorker;
  std::vector<std::string> addresses;  // "host:port", best first
  friend bool operator==(const RosterEntry&, const RosterEntry&) = default;
};

struct Roster {
  PublicKey cluster;
  std::uint64_t number = 1;
  std::vector<RosterEntry> entries;

  const RosterEntry* find(const PublicKey& key) const;
  const RosterEntry* find(std::string_view name) const;
};

std::set<std::string> names_of(const Roster& roster);

// The signed bytes. `key` is the cluster key and replaces roster.cluster; entries are sorted.
// kInvalidInput when parse_roster() would refuse it.
Result<Bytes> sign_roster(Roster roster, const SecretKey& key);

// Takes any bytes. Checks the signature against the cluster key inside; the caller compares that
// key with the expected one.
Result<Roster> parse_roster(ByteSpan bytes);

// A signed, numbered statement compared with the one in force, of the same signer.
enum class Offer {
  kNewer,
  kKnown,     // the same bytes
  kRollback,  // an older number: the sender lacks, or hides, the one in force
  kFork,      // the same number with other content: the holder of the key signed both
};
Offer judge_offer(std::uint64_t number, ByteSpan bytes, std::uint64_t number_in_force,
                  ByteSpan bytes_in_force);

// The newest roster of one cluster. Thread-safe: handshakes read it on libraries' threads.
class RosterBook {
 public:
  explicit RosterBook(const PublicKey& cluster) : cluster_(cluster) {}

  using Offer = hearth::Offer;
  // kInvalidInput when the bytes are not a roster of this cluster. Only kNewer changes the roster;
  // the bytes of a kRollback or kFork are evidence to keep.
  Result<Offer> offer(ByteSpan bytes);

  const PublicKey& cluster() const { return cluster_; }
  std::shared_ptr<const Roster> roster() const;  // null before the first offer
  Bytes bytes() const;
  std::optional<RosterEntry> find(const PublicKey& key) const;
  std::optional<RosterEntry> find(std::string_view name) const;

 private:
  const PublicKey cluster_;
  mutable Mutex mutex_;
  Bytes bytes_ GUARDED_BY(mutex_);
  std::shared_ptr<const Roster> roster_ GUARDED_BY(mutex_);
};

}  // namespace hearth
