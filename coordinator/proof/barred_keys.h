// BarredKeys: the keys that get no work, and why. A key with a fraud verdict, logged or about to
// be, is barred for good. A key at fault is quarantined until its node has checked its weights and
// kernels; after a restart of the coordinator it is asked again. A key that claimed an uncomputed
// result in an audit is barred for the life of this process: a program does not do that by mistake,
// and the log has no entry for it. Connected nodes are told.
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

// A node's text as one line of printable ASCII, for the process log and evidence.
std::string line_of(const std::string& words);

class BarredKeys {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(30);  // timeout of a self-check

  // `books` and `messages`, which gets the messages to nodes, outlive it.
  BarredKeys(const PublicKey& cluster, const Clock& clock, const ledger::Books& books,
             std::vector<NodeMessage>& messages)
      : cluster_(cluster), clock_(clock), books_(books), messages_(messages) {}

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { present_.erase(node); }
  std::string node_of(const PublicKey& key) const;         // that has a session; empty: none
  const PublicKey* key_of(const std::string& node) const;  // null: it has no session

  // Takes a folded entry, of an earlier process or of this one.
  void recall(const ledger::Entry& entry);
  void logged(const ledger::Entry& entry);
  void pronounced(const ledger::VerdictEntry& verdict);  // not in the log yet
  // Bars a key that claimed a root in an audit and could show no row below it.
  void bar_copier(const std::string& node, const PublicKey& key);
  void on_self_checked(const std::string& node, const control::v1::SelfChecked& found);
  void on_timer();

  // Whether a verdict bars it for good, logged or about to be.
  bool is_ended(const PublicKey& key) const;
  // Why a key is barred, a sentence; empty: not barred.
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
  std::set<PublicKey> ended_;  // also by verdicts not in the log yet
  std::uint64_t next_check_ = 1;
};

}  // namespace hearth::coordinator
