// A lease that a test takes as a coordinator would.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "coordinator/store/postgres_lease.h"

namespace hearth::coordinator {

class HeldLease {
 public:
  explicit HeldLease(const std::string& url, Duration lease = std::chrono::minutes(10))
      : self_(lease_self("127.0.0.1:1", "127.0.0.1:2", "keys")),
        lease_(*parse_store_url(url), self_, lease) {}

  // The epoch in which it holds the lease; 0: it has not got it.
  std::uint64_t take() {
    const auto before = lease_.ask({});
    EXPECT_TRUE(before.ok()) << before.error().message;
    if (!before.ok()) return 0;
    const auto now = lease_.ask({LeaseAsk::kTake, before->epoch, before->renewed, before->holder});
    EXPECT_TRUE(now.ok()) << now.error().message;
    return now.ok() && now->holder == self_.id ? now->epoch : 0;
  }
  // As after the end of the other one's lease.
  std::uint64_t depose_and_take() {
    const auto now = lease_.ask({});
    EXPECT_TRUE(now.ok());
    auto db = PostgresDatabase::open({url(), Database::Flush::kEveryCommit, kCommandWait});
    EXPECT_TRUE((*db)->execute("UPDATE lease SET ends = clock_timestamp()").ok());
    return take();
  }
  LeaseTerm term(std::uint64_t epoch) const { return {epoch, self_.id}; }
  PostgresLease& store() { return lease_; }
  const LeaseSelf& self() const { return self_; }

 private:
  StoreUrl url() const { return lease_.url(); }

  const LeaseSelf self_;
  PostgresLease lease_;
};

}  // namespace hearth::coordinator
