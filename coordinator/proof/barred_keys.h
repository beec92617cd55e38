// BarredKeys: which keys may be given no work, and why. A fraud is ended for good, by the log or by
// a verdict on its way there. A key at fault is quarantined until its node has hashed its weights
// and tested its kernels and found them whole; after a restart it is asked again. A key that
// claimed in an audit what it had not computed gets no work while this process lives: no program
// does that by mistake, and no entry of the log can say it. The nodes concerned are told when they
// are there.
//
// Any bytes may come from a node. A plain state machine: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "ledger/books.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

struct NodeMessage {
  std::string node;
  control::v1::CoordinatorMessage body;
};

// What a node says, as one line of printable ASCII for the process log and for evidence.
std::string line_of(const std::string& words);

class BarredKeys {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(30);  // of a node to look at itself

  // `books` and `messages`, where it puts what nodes are told: outlive it.
  BarredKeys(const PublicKey& cluster, const Clock& clock, const ledger::Books& books,
             std::vector<NodeMessage>& messages)
      : cluster_(cluster), clock_(clock), books_(books), messages_(messages) {}

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { present_.erase(node); }
  std::string node_of(const PublicKey& key) const;         // that has a session; empty: none
  const PublicKey* key_of(const std::string& node) const;  // null: it has no session

  // An entry of an earlier process; of this one, as it is folded.
  void recall(const ledger::Entry& entry);
  void logged(const ledger::Entry& entry);
  void pronounced(const ledger::VerdictEntry& verdict);  // on its way to the log
  // It claimed a root, in an audit, below which it could show no row.
  void bar_copier(const std::string& node, const PublicKey& key);
  void on_self_checked(const std::string& node, const control::v1::SelfChecked& found);
  void on_timer();

  // Whether a verdict has ended it, in the log or on its way there.
  bool is_ended(const PublicKey& key) const;
  // Why a key may not be given work, a sentence; empty: it may.
  std::string why_barred(const PublicKey& key) const;
  std::map<PublicKey, std::string> barred() const;

 private:
  struct Quarantine {
    std::uint64_t entry = 0;   // of the verdict's receipt
    std::uint64_t number = 0;  // of the latest SelfCheck
    TimePoint sent{};
  };

  void quarantine(const PublicKey& key, std::uint64_t entry);
  void send_check(const std::string& node, const PublicKey& key);
  void send_ended(const std::string& node, const PublicKey& key);

  const PublicKey cluster_;
  const Clock& clock_;
  const ledger::Books& books_;
  std::vector<NodeMessage>& messages_;
  std::map<std::string, PublicKey> present_;  // by node
  std::map<PublicKey, Quarantine> quarantined_;
  std::set<PublicKey> refused_;
  std::set<PublicKey> ended_;  // by verdicts that are on their way to the log, too
  std::uint64_t next_check_ = 1;
};

}  // namespace hearth::coordinator
