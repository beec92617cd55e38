// SimClient: submits requests of the reference and checks every event of each against it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "tests/sim/reference.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {

struct Tally {
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;   // ended in a typed error
  std::uint64_t refused = 0;  // at submit
  std::uint64_t cancelled = 0;
  std::uint64_t abandoned = 0;  // their coordinator died
  std::uint64_t tokens = 0;
  std::uint64_t hashes = 0;
  std::uint64_t cached = 0;           // positions of prompts that earlier requests had left
  std::uint64_t protocol_errors = 0;  // of those that failed: a peer broke the protocol
  std::uint64_t short_hashes = 0;     // sequences whose hashes did not all come within the wait
};

class SimClient {
 public:
  // `stages`: of every pipeline; 0: they differ, and no request asks for hashes.
  SimClient(SimWorld& world, const Reference& reference, std::uint32_t stages);

  // From here on every request wants receipts, by the order that `order` makes; `finished` is told
  // of each whose answer is whole.
  struct Receipts {
    std::function<ReceiptOrder()> order = {};
    std::function<void(const ReceiptOrder& of)> finished = {};
  };
  void want_receipts(Receipts receipts) { receipts_ = std::move(receipts); }

  // A random request, or the given one. Returns its index among all streams, or -1 when refused.
  int submit(coordinator::Coordinator& coordinator, int request = -1);
  void cancel_one(coordinator::Coordinator& coordinator);
  // The coordinator's process died: its open streams end unheard, its ids begin again.
  void abandon();
  // Those that have ended; finished() does not know them any more.
  void forget_ended();

  bool finished(int stream) const;
  std::uint32_t open_streams() const;
  const Tally& tally() const { return tally_; }
  const std::vector<std::string>& violations() const { return violations_; }
  void violation(const std::string& what);

 private:
  struct Stream;
  struct Submission;
  SimWorld& world_;
  const Reference& reference_;
  std::uint32_t stages_;
  std::map<int, std::shared_ptr<Stream>> streams_;
  int next_stream_ = 0;
  Receipts receipts_;
  std::uint64_t last_admitted_ = 0;
  Tally tally_;
  std::vector<std::string> violations_;
};

}  // namespace hearth::sim
