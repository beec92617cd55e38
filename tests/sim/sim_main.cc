// sim [--seeds N] [--first S] [--least G]: runs N swarms, each twice; fails when a property breaks,
// when the two runs of a seed differ, when two seeds give the same trace, or when fewer than G
// generations end as the reference.
// sim --seed S: runs one, printing its trace.
// --defect D plants one of proto/defect.h, in a build that has them.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "proto/defect.h"
#include "tests/sim/sim_swarm.h"

namespace hearth::sim {
namespace {

bool report(const Outcome& outcome) {
  for (const std::string& violation : outcome.violations) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(outcome.seed),
                violation.c_str());
  }
  return outcome.violations.empty();
}

void add(Outcome& sum, const Outcome& one) {
  sum.events += one.events;
  sum.crashes += one.crashes;
  sum.restarts += one.restarts;
  sum.freezes += one.freezes;
  sum.pauses += one.pauses;
  sum.stale_frames += one.stale_frames;
  sum.resumed += one.resumed;
  sum.other_faults += one.other_faults;
  sum.replays += one.replays;
  sum.late_frames += one.late_frames;
  sum.replayed += one.replayed;
  sum.tally.submitted += one.tally.submitted;
  sum.tally.finished += one.tally.finished;
  sum.tally.failed += one.tally.failed;
  sum.tally.refused += one.tally.refused;
  sum.tally.cancelled += one.tally.cancelled;
  sum.tally.abandoned += one.tally.abandoned;
  sum.tally.tokens += one.tally.tokens;
  sum.tally.hashes += one.tally.hashes;
  sum.tally.protocol_errors += one.tally.protocol_errors;
  sum.tally.short_hashes += one.tally.short_hashes;
}

void print(const Outcome& o) {
  const Tally& t = o.tally;
  std::printf(
      "%llu events, %u crashes, %u freezes, %u pauses and drains, %u coordinator restarts, %u "
      "frames twice, disordered "
      "or "
      "of the past, %u other faults\n",
      static_cast<unsigned long long>(o.events), o.crashes, o.freezes, o.pauses, o.restarts,
      o.replays, o.other_faults);
  std::printf(
      "%llu times a sequence went on elsewhere, %llu rows of theirs were said again; %u frames of "
      "lost pipelines among quiet ones, %llu "
      "late frames or answers dropped\n",
      static_cast<unsigned long long>(o.resumed), static_cast<unsigned long long>(o.replayed),
      o.stale_frames, static_cast<unsigned long long>(o.late_frames));
  std::printf(
      "%llu submitted: %llu finished as the reference, %llu typed errors, %llu refused, "
      "%llu cancelled, %llu abandoned\n",
      static_cast<unsigned long long>(t.submitted), static_cast<unsigned long long>(t.finished),
      static_cast<unsigned long long>(t.failed), static_cast<unsigned long long>(t.refused),
      static_cast<unsigned long long>(t.cancelled), static_cast<unsigned long long>(t.abandoned));
  std::printf("%llu tokens, %llu hashes, %llu sequences with hashes missing after the wait\n",
              static_cast<unsigned long long>(t.tokens), static_cast<unsigned long long>(t.hashes),
              static_cast<unsigned long long>(t.short_hashes));
}

bool plant([[maybe_unused]] std::uint64_t defect) {
#ifdef HEARTH_SWARM_DEFECTS
  planted_swarm_defect = static_cast<SwarmDefect>(defect);
  return true;
#else
  return false;
#endif
}

int run_many(std::uint64_t first, std::uint64_t seeds, std::uint64_t least, EnginePool& pool,
             const Reference& reference) {
  std::set<std::uint64_t> hashes;
  Outcome sum;
  bool good = true;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome once = run_swarm(seed, pool, reference, false);
    const Outcome again = run_swarm(seed, pool, reference, false);
    bool right = report(once);
    if (once.trace_hash != again.trace_hash) {
      std::printf("seed %llu: its two runs differ\n", static_cast<unsigned long long>(seed));
      right = false;
    }
    if (!hashes.insert(once.trace_hash).second) {
      std::printf("seed %llu: the trace of another seed\n", static_cast<unsigned long long>(seed));
      right = false;
    }
    if (!right) std::printf("  replay: sim --seed %llu\n", static_cast<unsigned long long>(seed));
    good = good && right;
    add(sum, once);
  }
  std::printf("%llu seeds, each twice\n", static_cast<unsigned long long>(seeds));
  print(sum);
  // A suite in which nothing happens proves nothing.
  const bool much = sum.tally.finished > 0 && sum.tally.hashes > 0 && sum.tally.failed > 0 &&
                    sum.crashes > 0 && sum.restarts > 0 && sum.late_frames > 0 && sum.freezes > 0 &&
                    sum.pauses > 0 && sum.resumed > 0 && sum.replayed > 0 && sum.stale_frames > 0;
  if (sum.tally.finished < least || (seeds >= 50 && !much)) {
    std::printf("too little happened\n");
    return 1;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace hearth::sim

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t seeds = 200;
  std::uint64_t least = 0;
  bool replay = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      replay = true;
      first = value;
    } else if (std::strcmp(argv[i], "--first") == 0) {
      first = value;
    } else if (std::strcmp(argv[i], "--seeds") == 0) {
      seeds = value;
    } else if (std::strcmp(argv[i], "--least") == 0) {
      least = value;
    } else if (std::strcmp(argv[i], "--defect") == 0 && !hearth::sim::plant(value)) {
      std::printf("this build has no planted defects: -DHEARTH_SWARM_DEFECTS=ON\n");
      return 2;
    }
  }
  spdlog::set_level(spdlog::level::off);
  hearth::sim::EnginePool pool;
  const hearth::sim::Reference reference(pool);
  if (!replay) return hearth::sim::run_many(first, seeds, least, pool, reference);
  const hearth::sim::Outcome outcome = hearth::sim::run_swarm(first, pool, reference, true);
  hearth::sim::print(outcome);
  return hearth::sim::report(outcome) ? 0 : 1;
}
