// Days of a swarm with receipts and audits whose machines' wall clocks are wrong from the start, by
// up to a year, and are set ahead and back while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_compute.h"

namespace hearth::sim {

// Of the memory of the whole swarm when nothing runs, at the end of one hour.
struct Footprint {
  std::uint64_t requests = 0;    // so far
  std::uint64_t heap_bytes = 0;  // in use, without the log and the records of the test
  std::uint64_t log_bytes = 0;
  std::size_t links = 0;    // ends of them
  std::size_t nodes = 0;    // that the coordinator knows
  std::size_t pending = 0;  // events
};

struct DaysOutcome {
  std::uint32_t hours = 0;
  std::uint32_t jumps = 0;  // of wall clocks
  std::uint32_t crashes = 0;
  std::uint32_t freezes = 0;
  std::uint32_t pauses = 0;  // and drains
  std::uint32_t restarts = 0;
  std::uint32_t other_faults = 0;
  std::uint64_t resumed = 0;
  std::uint64_t quiet_requests = 0;  // answered in quiet parts
  std::uint64_t receipted = 0;       // of all that were answered, with a receipt of every stage
  std::uint64_t log_entries = 0;
  std::uint64_t audited = 0;  // windows that others computed again, with the same result
  std::uint64_t missed = 0;   // that were drawn in time of faults and could not be
  Tally tally;
  std::vector<Footprint> footprints;  // by hour
  std::vector<std::string> violations;
};

// `hours` times: faults, requests and jumps of clocks, then all machines there for a while, in
// which clocks jump as well. Machines are never so many away that a pipeline could not form: no
// answer fails, ever. In the quiet part besides: all are answered, every stage has its receipts in
// the log, every window that a draw selects is audited, and nothing is in use afterwards.
// `short_hours`: of minutes, for a test that is to end soon. In the end the log is checked, entry
// by entry.
DaysOutcome run_days(std::uint64_t seed, std::uint32_t hours, bool short_hours, EnginePool& pool,
                     const Reference& reference, bool print);

}  // namespace hearth::sim
