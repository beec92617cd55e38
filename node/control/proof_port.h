// ProofPort: the coordinator's orders about receipts, audits and disputes, as a worker receives
// them. The session hands them on unread; the stage knows nothing of them.
//
// Calls come on the owner's thread.
#pragma once

#include "proto/control.pb.h"

namespace hearth::node {

class ProofPort {
 public:
  virtual ~ProofPort() = default;
  virtual void on_countersign(const control::v1::Countersign& message) = 0;
  virtual void on_seal_order(const control::v1::SealOrder& order) = 0;
  virtual void on_open_order(const control::v1::OpenOrder& order) = 0;
  virtual void on_accusation(const control::v1::Accusation& accusation) = 0;
  virtual void on_self_check(const control::v1::SelfCheck& check) = 0;
};

}  // namespace hearth::node
