// A cluster for tests: nodes with keys, in one roster that every process of the test shares.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::testing {

class Cluster {
 public:
  // The node's certificate; a new one is put into the roster.
  TlsIdentity identity(const std::string& name, Role role = Role::kWorker) {
    const bool known = keys_.contains(name);
    const SecretKey key = keys_.try_emplace(name, SecretKey::generate()).first->second;
    if (!known) add({key.public_key(), name, role, {}});
    return TlsIdentity::make(key).value();
  }
  const SecretKey& key() const { return cluster_; }
  std::shared_ptr<RosterBook> book() const { return book_; }
  void add(RosterEntry entry) {
    roster_.entries.push_back(std::move(entry));
    publish();
  }
  void remove(const std::string& name) {
    std::erase_if(roster_.entries, [&](const RosterEntry& entry) { return entry.name == name; });
    publish();
  }

 private:
  void publish() {
    ++roster_.number;
    const auto bytes = sign_roster(roster_, cluster_);
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_TRUE(book_->offer(*bytes));
  }

  const SecretKey cluster_ = SecretKey::generate();
  Roster roster_;
  std::map<std::string, SecretKey> keys_;
  std::shared_ptr<RosterBook> book_ = std::make_shared<RosterBook>(cluster_.public_key());
};

}  // namespace hearth::testing
