// Witness: a node cosigns its cluster's log (ledger/PROTOCOL.md, 1). It cosigns only a checkpoint
// that extends its last cosigned one, and stores the new one on its disk before it answers. A proof
// that the log has two histories goes to a second file.
//
// Threads: made, asked and destroyed on the main thread. A separate thread judges offers, one at a
// time, because each waits for the disk; `post` is called from there.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "ledger/witness.h"
#include "proto/control.pb.h"

namespace hearth::node {

struct WitnessOptions {
  std::string node;   // our name, for the process log
  std::string file;   // the last cosigned checkpoint. FILE.fork: the proof of a fork
  PublicKey cluster;  // whose log it is
  SecretKey key;      // ours
};

// kInvalidInput names the field. Any bytes.
Result<ledger::Offer> read_offer(const control::v1::CheckpointOffer& message);

// Makes a node's answer on this thread: reads the file, judges, writes it.
class WitnessBook {
 public:
  WitnessBook(WitnessOptions options, const Clock& clock);
  control::v1::Cosigned answer(const control::v1::CheckpointOffer& offer);

 private:
  Result<std::optional<ledger::Checkpoint>> latest() const;
  Result<control::v1::Cosigned> take(const control::v1::CheckpointOffer& offer);
  void keep_fork(const ledger::Fork& fork, const std::string& why);

  const WitnessOptions options_;
  const Clock& clock_;
  bool refuses_ = false;  // the latest offers were refused, and the process log says so
};

class Witness {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using Done = std::function<void(const control::v1::Cosigned& answer)>;

  Witness(WitnessOptions options, const Clock& clock, Post post);

  // `done` on the main thread. An offer is dropped without an answer while another one is
  // judged; the coordinator offers again.
  void ask(control::v1::CheckpointOffer offer, Done done);

 private:
  const Post post_;
  WitnessBook book_;
  std::future<void> judging_;  // waited for by the destructor, before the rest goes
};

}  // namespace hearth::node
