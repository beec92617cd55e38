// How many step batches a pipeline has in flight: as many as keep its slowest part at work.
//
// The parts of a pipeline are its stages and the links between them. A step is `ring` seconds under
// way and occupies the slowest part for `slowest` of them, so ring / slowest steps keep that part
// at work (Little's law). Over short links that are as many steps as stages, and one more makes up
// for a step that is late. The delay of a link occupies no part, so a pipeline over long links
// needs more steps. No pipeline has fewer than its stages and one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::placement {

// More steps than this are never in flight, unless a pipeline has as many stages.
constexpr std::uint32_t kMostSteps = 64;

struct RowSeconds {
  double one = 0.0;    // of a step of one row
  double batch = 0.0;  // of a step of some number of rows above 1
};

// Of a step of `rows` rows, where `batch` is of batch_rows rows: linear.
inline double at_rows(const RowSeconds& seconds, double rows, std::uint32_t batch_rows) {
  const double share = (rows - 1.0) / (static_cast<double>(batch_rows) - 1.0);
  // A batch measured as quicker than one row is noise.
  return seconds.one + std::max(0.0, seconds.batch - seconds.one) * share;
}

struct StepSeconds {
  double ring = 0.0;     // once round the ring
  double slowest = 0.0;  // on the slowest part
};

// Of the steps of one pipeline, by their rows.
struct StepTimes {
  std::uint32_t stages = 1;
  std::uint32_t batch_rows = 2;  // of RowSeconds::batch; at least 2
  RowSeconds ring = {};
  std::vector<RowSeconds> parts = {};  // at least one

  StepSeconds at(double rows) const {
    StepSeconds seconds{at_rows(ring, rows, batch_rows), 0.0};
    for (const RowSeconds& part : parts) {
      seconds.slowest = std::max(seconds.slowest, at_rows(part, rows, batch_rows));
    }
    return seconds;
  }
};

// For steps that share rows: the most steps, from S + 1 to `most`, for which the slowest part has
// time within a round. `seconds_of`(steps) returns the StepSeconds of each of so many steps. Fewer
// steps have more rows each and take longer. More steps wait for each other, and each reads the
// weights again.
template <typename SecondsOf>
std::uint32_t steps_that_share(std::uint32_t stages, std::uint32_t most,
                               const SecondsOf& seconds_of) {
  INVARIANT(stages >= 1, "a pipeline has a stage");
  const auto have_time = [&](std::uint32_t steps) {
    const StepSeconds seconds = seconds_of(steps);
    return steps * seconds.slowest <= seconds.ring;
  };
  std::uint32_t steps = stages + 1;
  while (steps < most && have_time(steps + 1)) ++steps;
  return steps;
}

// One row of each of `sequences` sequences; a step has at most `rows` of them.
inline std::uint32_t steps_of_sequences(const StepTimes& times, std::uint32_t sequences,
                                        std::uint32_t rows = limits::kBatchRows) {
  INVARIANT(rows >= 1, "a step has room for a row");
  return steps_that_share(times.stages, kMostSteps, [&](std::uint32_t steps) {
    return times.at(std::clamp(static_cast<double>(sequences) / steps, 1.0, double{1.0} * rows));
  });
}

// For steps of `rows` rows each, as of a long prompt: so many that the slowest part never waits.
inline std::uint32_t steps_of_rows(const StepTimes& times, double rows) {
  constexpr double kSpare = 0.8;  // below 1: short links add a little to the ring, and no step
  const StepSeconds seconds = times.at(rows);
  std::uint32_t steps = times.stages + 1;
  while (steps < kMostSteps && (steps - kSpare) * seconds.slowest < seconds.ring) ++steps;
  return steps;
}

// The most that steps_of_rows() returns for any rows.
inline std::uint32_t steps_at_most(const StepTimes& times) {
  std::uint32_t most = 0;
  for (std::uint32_t rows = 1; rows <= limits::kBatchRows; ++rows) {
    most = std::max(most, steps_of_rows(times, rows));
  }
  return most;
}

}  // namespace hearth::placement
