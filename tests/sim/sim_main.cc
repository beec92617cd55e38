// sim [--seeds N] [--first S] [--least G]: runs N swarms, each twice; fails when a property breaks,
// when the two runs of a seed differ, when two seeds give the same trace, or when fewer than G
// generations end as the reference.
// sim --seed S: runs one, printing its trace.
// sim --many N [--first S]: N swarms of 24 to 60 nodes that are placed by measurement, each twice.
// sim --served N [--first S]: how much N of those serve, and what no placement exceeds.
// sim --scale N [--first S] [--quiet Q] [--churn C]: one coordinator with N machines, Q seconds
// without faults and C seconds in which 5 % of the machines a minute leave.
// sim --route N [--first S]: what it takes to choose a pipeline among those of N nodes, in cells.
// sim --hours N [--first S] [--short 1]: N hours of one swarm with receipts, audits and wrong
// clocks, or so many short ones of some minutes. A seed gives the same run everywhere.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/seeded_system.h"
#include "tests/sim/sim_days.h"
#include "tests/sim/sim_many.h"
#include "tests/sim/sim_scale.h"
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
  sum.accepted += one.accepted;
  sum.dropped += one.dropped;
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
  sum.tally.cached += one.tally.cached;
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
      "%llu times a sequence went on elsewhere; %llu rows were said again, and %llu positions of "
      "prompts were computed by no stage; %u frames of lost pipelines among quiet ones, %llu "
      "late frames or answers dropped\n",
      static_cast<unsigned long long>(o.resumed), static_cast<unsigned long long>(o.replayed),
      static_cast<unsigned long long>(t.cached), o.stale_frames,
      static_cast<unsigned long long>(o.late_frames));
  std::printf(
      "%llu submitted: %llu finished as the reference, %llu typed errors, %llu refused, "
      "%llu cancelled, %llu abandoned\n",
      static_cast<unsigned long long>(t.submitted), static_cast<unsigned long long>(t.finished),
      static_cast<unsigned long long>(t.failed), static_cast<unsigned long long>(t.refused),
      static_cast<unsigned long long>(t.cancelled), static_cast<unsigned long long>(t.abandoned));
  std::printf("%llu drafts accepted, %llu dropped\n", static_cast<unsigned long long>(o.accepted),
              static_cast<unsigned long long>(o.dropped));
  std::printf("%llu tokens, %llu hashes, %llu sequences with hashes missing after the wait\n",
              static_cast<unsigned long long>(t.tokens), static_cast<unsigned long long>(t.hashes),
              static_cast<unsigned long long>(t.short_hashes));
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
                    sum.pauses > 0 && sum.resumed > 0 && sum.replayed > 0 && sum.stale_frames > 0 &&
                    sum.tally.cached > 0 && sum.accepted > 0 && sum.dropped > 0;
  if (sum.tally.finished < least || (seeds >= 50 && !much)) {
    std::printf("too little happened\n");
    return 1;
  }
  return good ? 0 : 1;
}

unsigned long long long_of(std::uint64_t value) { return value; }

int run_many_nodes_of(std::uint64_t first, std::uint64_t seeds, bool trace) {
  EnginePool pool(kManyLayers);
  const Reference reference(pool);
  bool good = true;
  ManyOutcome sum;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const ManyOutcome once = run_many_nodes(seed, pool, reference, trace);
    bool right = once.violations.empty();
    for (const std::string& violation : once.violations) {
      std::printf("seed %llu: %s\n", long_of(seed), violation.c_str());
    }
    if (!trace && run_many_nodes(seed, pool, reference, false).trace_hash != once.trace_hash) {
      std::printf("seed %llu: its two runs differ\n", long_of(seed));
      right = false;
    }
    std::printf("seed %llu: %u nodes, %u pipelines; %llu finished as the reference\n",
                long_of(seed), once.nodes, once.pipelines, long_of(once.tally.finished));
    good = good && right;
    sum.crashes += once.crashes;
    sum.freezes += once.freezes;
    sum.pauses += once.pauses;
    sum.other_faults += once.other_faults;
    sum.joined += once.joined;
    sum.resumed += once.resumed;
    sum.tally.finished += once.tally.finished;
    sum.tally.tokens += once.tally.tokens;
    sum.tally.failed += once.tally.failed;
  }
  std::printf(
      "%u crashes, %u freezes, %u pauses, %u links broken, %u joined; %llu times a sequence went "
      "on elsewhere; %llu finished as the reference with %llu tokens, %llu failed\n",
      sum.crashes, sum.freezes, sum.pauses, sum.other_faults, sum.joined, long_of(sum.resumed),
      long_of(sum.tally.finished), long_of(sum.tally.tokens), long_of(sum.tally.failed));
  const bool much = sum.tally.finished > 0 && sum.crashes > 0 && sum.freezes > 0 &&
                    sum.joined > 0 && sum.resumed > 0;
  if (seeds >= 3 && !much) std::printf("too little happened\n");
  return good && (seeds < 3 || much) ? 0 : 1;
}

int serve_many_of(std::uint64_t first, std::uint64_t seeds) {
  EnginePool pool(kManyLayers, kManyKvBytesPerLayer);
  const Reference reference(pool);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const Served served = serve_many(seed, pool, reference);
    std::printf("| %llu | %u | %u | %.0f | %.0f | %.2f |\n", long_of(seed), served.nodes,
                served.pipelines, served.bound, served.tokens_per_second,
                served.bound > 0 ? served.tokens_per_second / served.bound : 0.0);
    std::fflush(stdout);
  }
  return 0;
}

int run_scale_of(std::uint64_t seed, const CellOptions& options) {
  EnginePool pool(kManyLayers, kScaleKvBytesPerLayer);
  CellOutcome o = run_cell(seed, options, pool);
  for (const std::string& violation : o.violations) std::printf("%s\n", violation.c_str());
  std::printf(
      "%u nodes, %u pipelines; tokens a second: at most %.0f, planned %.0f, quiet %.0f, churn "
      "%.0f\n",
      o.nodes, o.pipelines, o.bound, o.planned, o.quiet, o.churned);
  std::printf("%u left, %u joined, %llu sequences went on elsewhere, %llu failed\n", o.left,
              o.joined, long_of(o.resumed), long_of(o.failed));
  const auto say = [&](const char* what, Cost& cost) {
    std::printf("%s: %zu calls, mean %.2f us, p50 %.2f, p99 %.2f, most %.0f; %.4f of a core\n",
                what, cost.nanoseconds.size(), cost.mean_microseconds(), cost.microseconds(0.5),
                cost.microseconds(0.99), cost.microseconds(1.0),
                cost.total_seconds() / o.simulated_seconds);
  };
  say("heartbeats", o.heartbeats);
  say("other messages", o.messages);
  say("timer", o.timer);
  say("submits", o.submits);
  std::printf("the coordinator held %.2f MB\n", static_cast<double>(o.bytes) / 1e6);
  constexpr double kGoodput = 0.8;  // of the tokens without churn
  const bool good = o.violations.empty() && o.failed == 0 && o.quiet > 0 &&
                    (options.churn == 0 || (o.resumed > 0 && o.churned >= kGoodput * o.quiet));
  if (!good) std::printf("requests failed, or too little was served\n");
  return good ? 0 : 1;
}

int run_route_of(std::uint64_t seed, std::uint32_t nodes) {
  constexpr std::uint32_t kRequests = 20'000;
  Cost cost = route_requests(seed, nodes, kRequests);
  std::printf("%u nodes: %zu decisions, mean %.1f us, p50 %.1f, p99 %.1f, most %.0f\n", nodes,
              cost.nanoseconds.size(), cost.mean_microseconds(), cost.microseconds(0.5),
              cost.microseconds(0.99), cost.microseconds(1.0));
  return 0;
}

// Bytes a request, by least squares, over the hours from `first` on.
double heap_slope(const std::vector<Footprint>& hours, std::size_t first) {
  double count = 0;
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = first; i < hours.size(); ++i) {
    ++count;
    mean_x += (static_cast<double>(hours[i].requests) - mean_x) / count;
    mean_y += (static_cast<double>(hours[i].heap_bytes) - mean_y) / count;
  }
  double both = 0;
  double square = 0;
  for (std::size_t i = first; i < hours.size(); ++i) {
    const double x = static_cast<double>(hours[i].requests) - mean_x;
    both += x * (static_cast<double>(hours[i].heap_bytes) - mean_y);
    square += x * x;
  }
  return square > 0 ? both / square : 0;
}

// What an hour leaves behind must not grow, once all that is bounded is full.
bool is_flat(const std::vector<Footprint>& hours) {
  constexpr double kSlope = 128;  // bytes a request
  constexpr std::size_t kFull = 24;
  constexpr std::size_t kTimers = 16;  // a few of each process, of which some wait at any moment
  const Footprint& early = hours[hours.size() / 2];
  const Footprint& last = hours.back();
  bool flat = last.links <= early.links && last.nodes <= early.nodes &&
              last.pending <= std::max(kTimers, 2 * early.pending);
  if (hours.size() > 2 * kFull) {
    const double slope = heap_slope(hours, kFull);
    std::printf("heap without the log: %+.0f bytes a request after hour %zu\n", slope, kFull);
    flat = flat && slope < kSlope;
  }
  if (!flat) std::printf("memory grows\n");
  return flat;
}

int run_days_of(std::uint64_t seed, std::uint32_t hours, bool short_hours, bool trace) {
  EnginePool pool;
  const Reference reference(pool);
  const DaysOutcome o = run_days(seed, hours, short_hours, pool, reference, trace);
  for (std::size_t i = 0; i < o.footprints.size(); i += std::max<std::size_t>(1, hours / 12)) {
    const Footprint& one = o.footprints[i];
    std::printf(
        "hour %zu: %llu requests, heap %.2f MB, log %.2f MB, %zu ends of links, %zu events\n",
        i + 1, long_of(one.requests), static_cast<double>(one.heap_bytes) / 1e6,
        static_cast<double>(one.log_bytes) / 1e6, one.links, one.pending);
  }
  for (const std::string& violation : o.violations) std::printf("%s\n", violation.c_str());
  const Tally& t = o.tally;
  std::printf(
      "%u hours, %u jumps of clocks, %u crashes, %u freezes, %u pauses and drains, %u coordinator "
      "restarts, %u other faults; %llu times a sequence went on elsewhere\n",
      o.hours, o.jumps, o.crashes, o.freezes, o.pauses, o.restarts, o.other_faults,
      long_of(o.resumed));
  std::printf(
      "%llu submitted: %llu finished as the reference, %llu failed, %llu refused, %llu cancelled, "
      "%llu abandoned; %llu finished in quiet times\n",
      long_of(t.submitted), long_of(t.finished), long_of(t.failed), long_of(t.refused),
      long_of(t.cancelled), long_of(t.abandoned), long_of(o.quiet_requests));
  std::printf(
      "%llu answers with all receipts in a sound log of %llu entries; %llu windows audited, %llu "
      "missed in time of faults; %llu positions of prompts computed by no stage\n",
      long_of(o.receipted), long_of(o.log_entries), long_of(o.audited), long_of(o.missed),
      long_of(t.cached));
  const bool much = o.jumps > 0 && o.crashes > 0 && o.pauses > 0 && o.restarts > 0 &&
                    o.resumed > 0 && o.quiet_requests > 0 && o.audited > 0 && t.cached > 0;
  if (!much) std::printf("too little happened\n");
  return o.violations.empty() && much && is_flat(o.footprints) ? 0 : 1;
}

}  // namespace
}  // namespace hearth::sim

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t seeds = 200;
  std::uint64_t least = 0;
  std::uint64_t many = 0;
  std::uint64_t served = 0;
  std::uint64_t hours = 0;
  std::uint64_t routed = 0;
  hearth::sim::CellOptions cell{0, 30, 120};
  bool is_short = false;
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
    } else if (std::strcmp(argv[i], "--many") == 0) {
      many = value;
    } else if (std::strcmp(argv[i], "--served") == 0) {
      served = value;
    } else if (std::strcmp(argv[i], "--scale") == 0) {
      cell.nodes = static_cast<std::uint32_t>(value);
    } else if (std::strcmp(argv[i], "--route") == 0) {
      routed = value;
    } else if (std::strcmp(argv[i], "--quiet") == 0) {
      cell.quiet = static_cast<std::uint32_t>(value);
    } else if (std::strcmp(argv[i], "--churn") == 0) {
      cell.churn = static_cast<std::uint32_t>(value);
    } else if (std::strcmp(argv[i], "--hours") == 0) {
      hours = value;
    } else if (std::strcmp(argv[i], "--short") == 0) {
      is_short = value != 0;
    }
  }
  spdlog::set_level(spdlog::level::off);
  if (hours > 0) {
    hearth::sim::seed_system_random(first);
    return hearth::sim::run_days_of(first, static_cast<std::uint32_t>(hours), is_short, replay);
  }
  if (routed > 0) return hearth::sim::run_route_of(first, static_cast<std::uint32_t>(routed));
  if (cell.nodes > 0) return hearth::sim::run_scale_of(first, cell);
  if (many > 0) return hearth::sim::run_many_nodes_of(first, many, many == 1);
  if (served > 0) return hearth::sim::serve_many_of(first, served);
  hearth::sim::EnginePool pool;
  const hearth::sim::Reference reference(pool);
  if (!replay) return hearth::sim::run_many(first, seeds, least, pool, reference);
  const hearth::sim::Outcome outcome = hearth::sim::run_swarm(first, pool, reference, true);
  hearth::sim::print(outcome);
  return hearth::sim::report(outcome) ? 0 : 1;
}
