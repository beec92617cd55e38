// How many step batches a pipeline has in flight: as many as keep its slowest part at work.
//
// A step is `ring` seconds under way and occupies the slowest stage or link for `slowest` of them,
// so that ring / slowest steps keep that part at work (Little's law). S stages of equal time need
// S where the links are short, and have S + 1, because a step may be late. While a step is on a
// long link it occupies no stage, so a pipeline over long links needs more steps. No pipeline has
// fewer than S + 1.
#pragma once

#include <algorithm>
#include <cstdint>

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
  double slowest = 0.0;  // on the slowest stage or link
};

// Of the steps of one pipeline, by their rows.
struct StepTimes {
  std::uint32_t stages = 1;
  std::uint32_t batch_rows = 2;  // of RowSeconds::batch; at least 2
  RowSeconds ring = {};
  RowSeconds stage = {};  // on the slowest stage
  RowSeconds link = {};   // on the slowest link, without its delay

  StepSeconds at(double rows) const {
    const double slowest =
        std::max(at_rows(stage, rows, batch_rows), at_rows(link, rows, batch_rows));
    return {at_rows(ring, rows, batch_rows), slowest};
  }
};

// Where steps share rows: the most steps, from S + 1 to `most`, for which the slowest part has time
// within a round. `seconds_of`(steps) returns the StepSeconds of each of so many steps. With fewer,
// each has more rows and takes longer; with more, they wait for each other, and each reads the
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

// One row of each of `sequences` sequences.
inline std::uint32_t steps_of_sequences(const StepTimes& times, std::uint32_t sequences) {
  return steps_that_share(times.stages, kMostSteps, [&](std::uint32_t steps) {
    return times.at(std::max(1.0, static_cast<double>(sequences) / steps));
  });
}

// Steps of `rows` rows each, however many there are, as of a prompt: the slowest part never waits.
inline std::uint32_t steps_of_rows(const StepTimes& times, double rows) {
  constexpr double kSpare = 0.8;  // of a step; links of 0.2 of the slowest part need no further one
  const StepSeconds seconds = times.at(rows);
  std::uint32_t steps = times.stages + 1;
  while (steps < kMostSteps && (steps - kSpare) * seconds.slowest < seconds.ring) ++steps;
  return steps;
}

// The most steps of any rows: of one row, of the most rows, or of those that take as long on the
// slowest link as on the slowest stage. Between these, more rows need ever more steps, or ever
// fewer.
inline std::uint32_t steps_at_most(const StepTimes& times) {
  std::uint32_t most =
      std::max(steps_of_rows(times, 1.0), steps_of_rows(times, limits::kBatchRows));
  const auto growth = [](const RowSeconds& seconds) {
    return std::max(0.0, seconds.batch - seconds.one);
  };
  const double nearer = growth(times.link) - growth(times.stage);
  const double rows = 1.0 + (times.stage.one - times.link.one) / nearer * (times.batch_rows - 1.0);
  if (rows > 1.0 && rows < limits::kBatchRows) most = std::max(most, steps_of_rows(times, rows));
  return most;
}

}  // namespace hearth::placement
