// WitnessCollector: has the log's checkpoints cosigned by nodes (ledger/PROTOCOL.md, 1). Each
// node with a session is offered the newest one, with a proof that it extends what that node
// cosigned last; again when the log has grown, not more often than kPause. What comes back is
// checked and kept beside the log.
//
// A node that shows a checkpoint which this cluster signed and this log does not have says that the
// folder is an older copy: fault() then, and nothing more may be logged, for that would be a second
// history under one key. Where that has happened already, the node is sent what proves it.
//
// Any bytes may come from a node. A plain state machine: one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "coordinator/proof/barred_keys.h"
#include "ledger/log.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class WitnessCollector {
 public:
  // Between two offers to a node. Of a node to answer: then it is offered the checkpoint again.
  static constexpr Duration kPause = std::chrono::seconds(2);
  static constexpr Duration kPatience = std::chrono::seconds(30);

  WitnessCollector(const PublicKey& cluster, const Clock& clock)
      : cluster_(cluster), clock_(clock) {}

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { witnesses_.erase(node); }
  void take(const std::string& node, const control::v1::Cosigned& answer, ledger::Log& log);
  // Offers what is due, and stores what came: twice a second or so. After an error the log takes
  // nothing more.
  Status on_timer(ledger::Log& log);

  std::vector<NodeMessage> take_messages() { return std::exchange(messages_, {}); }
  // Why nothing may be logged any more, a sentence; empty: all is well.
  const std::string& fault() const { return fault_; }

 private:
  struct Witness {
    PublicKey key;
    std::uint64_t size = 0;  // that it cosigned last
    bool is_known = false;   // by its own word, in this session
    bool is_asked = false;
    TimePoint at{};  // when it was asked; else from when on it may be
    bool refuses = false;
  };

  void offer(const std::string& node, Witness& witness, ledger::Log& log);
  Status learn(const std::string& node, Witness& witness, ByteSpan bytes, ledger::Log& log);
  void contradicted(const std::string& node, Witness& witness, const ledger::Checkpoint& held,
                    ledger::Log& log);

  const PublicKey cluster_;
  const Clock& clock_;
  std::map<std::string, Witness> witnesses_;
  std::map<PublicKey, ledger::Checkpoint> cosigned_;  // to be stored
  std::vector<NodeMessage> messages_;
  std::string fault_;
};

}  // namespace hearth::coordinator
