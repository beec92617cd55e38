// WitnessCollector: collects nodes' cosignatures of the log's checkpoints (ledger/PROTOCOL.md, 1).
// Each connected node is offered the newest checkpoint, with a proof that it extends the node's
// last cosigned one. The offer is repeated when the log has grown, at most every kPause.
// Cosignatures are checked and stored beside the log.
//
// When a node shows a checkpoint that this cluster signed and this log does not have, the folder is
// an older copy. Then fault() is set and nothing more may be logged, because that would start a
// second history under one key. If that has already happened, the node gets the proof.
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
  // Between two offers to a node; and a node's timeout, after which it is offered the checkpoint
  // again.
  static constexpr Duration kPause = std::chrono::seconds(2);
  static constexpr Duration kPatience = std::chrono::seconds(30);

  WitnessCollector(const PublicKey& cluster, const Clock& clock)
      : cluster_(cluster), clock_(clock) {}

  void meet(const std::string& node, const PublicKey& key);  // it has a session
  void lose(const std::string& node) { witnesses_.erase(node); }
  void take(const std::string& node, const control::v1::Cosigned& answer, ledger::Log& log);
  // Sends due offers and stores cosignatures, about twice a second. After an error the log takes no
  // more entries.
  Status on_timer(ledger::Log& log);

  std::vector<NodeMessage> take_messages() { return std::exchange(messages_, {}); }
  // Why logging must stop, a sentence; empty: no fault.
  const std::string& fault() const { return fault_; }

 private:
  struct Witness {
    PublicKey key;
    std::uint64_t size = 0;  // of its last cosigned checkpoint
    bool is_known = false;   // the node stated it in this session
    bool is_asked = false;
    TimePoint at{};  // time of the offer, or earliest time of the next one
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
