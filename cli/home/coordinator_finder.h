// CoordinatorFinder: the addresses at which a member dials its coordinator. They come from
// member.json, from rosters, and, when none of these answers, from announcements on this network.
// The other side must prove the coordinator's key, so that a wrong address only costs a connection.
//
// Threads: the owner's; `search` runs on a thread of its own, at most once a minute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "cli/home/announcements.h"
#include "proto/roster.h"

namespace hearth::cli {

struct CoordinatorFinderOptions {
  PublicKey cluster;
  std::vector<std::string> addresses;  // "host:port", at least one
  // The addresses of member.json now, which hearth join may have changed; empty: as they were.
  std::function<std::vector<std::string>()> reread;
  std::function<void(const std::vector<std::string>&)> keep;  // there
  std::function<std::vector<FoundCluster>()> search;          // blocks; what this network announces
};

class CoordinatorFinder {
 public:
  explicit CoordinatorFinder(CoordinatorFinderOptions options);
  // The address to dial next. After a few addresses without an answer, the network is searched.
  std::string next();
  // Whether next() has given each address since one was reached, or since this was true before.
  bool tried_all() const { return at_ % addresses_.size() == 0; }
  // All of them, the best first; counts as one dial.
  std::vector<std::string> all();
  const std::vector<std::string>& known() const { return addresses_; }  // likewise, and does not
  // The address that was dialled last has answered, with this roster.
  void reached(const Roster& roster);

 private:
  struct Search;
  void look();
  void put_first(const std::string& address);

  const CoordinatorFinderOptions options_;
  std::vector<std::string> kept_;  // as member.json has them
  std::vector<std::string> addresses_;
  std::size_t dials_ = 0;  // since one was reached
  std::size_t at_ = 0;     // index into addresses_ of the next one to dial
  std::string last_;
  const std::shared_ptr<Search> search_;
};

}  // namespace hearth::cli
