// SimClient: submits requests of the reference and checks every event of each against it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
  std::uint64_t protocol_errors = 0;  // of those that failed: a peer broke the protocol
  std::uint64_t short_hashes = 0;     // sequences whose hashes did not all come within the wait
};

class SimClient {
 public:
  // `stages`: of every pipeline; 0: they differ, and no request asks for hashes.
  SimClient(SimWorld& world, const Reference& reference, std::uint32_t stages);

  // A random request, or the given one. Returns its index among all streams, or -1 when refused.
  int submit(coordinator::Coordinator& coordinator, int request = -1);
  void cancel_one(coordinator::Coordinator& coordinator);
  // The coordinator's process died: its open streams end unheard, its ids begin again.
  void abandon();

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
  std::vector<std::shared_ptr<Stream>> streams_;
  std::uint64_t last_admitted_ = 0;
  Tally tally_;
  std::vector<std::string> violations_;
};

}  // namespace hearth::sim
