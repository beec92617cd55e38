// Membership: who belongs to the cluster, on the machine that holds the cluster key. It answers
// strangers (control_service.h), keeps members in the store, signs every roster, and hands each new
// one to its owner before anything else happens by it.
//
// Threads: everything on the owner's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/control_service.h"
#include "coordinator/store.h"
#include "proto/roster.h"

namespace hearth::coordinator {

struct MembershipOptions {
  PublicKey node;  // ours, which TLS shows
  std::shared_ptr<RosterBook> roster;
  std::shared_ptr<Store> store;  // of join tokens, and of the nodes that came with one
  // A token for workers of this machine's user. It is used up by nobody, and whoever comes with it
  // is in the roster until the next restart() and never in the store.
  std::function<bool(std::string_view id, std::string_view secret)> is_local;
  // Makes the bytes of a new roster last; what cannot be kept is not applied.
  std::function<Status(ByteSpan roster)> keep;
  // A new roster is in the book: links are to be looked at again.
  std::function<void()> changed;
};

class Membership final : public Admissions {
 public:
  Membership(SecretKey cluster, MembershipOptions options, const Clock& clock);

  control::v1::Proof prove() override;
  Result<Bytes> enrol(const PublicKey& key, const control::v1::Enrolment& request) override;
  Status leave(const PublicKey& key) override;

  // A roster of `own` entry and the nodes of the store, newer than the one before.
  Status restart(const RosterEntry& own);
  // Takes those out of the roster whom somebody has revoked in the store meanwhile, in whatever
  // process. Their tokens and keys let them in no more.
  Status follow_store();

 private:
  Status publish(std::vector<RosterEntry> entries);

  const SecretKey cluster_;
  const MembershipOptions options_;
  const Clock& clock_;
};

}  // namespace hearth::coordinator
