#include "placement/even.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::placement {
namespace {

constexpr double kSame = 1e-9;  // relative; sums of the same figures differ by rounding

bool is_less(double a, double b) { return a < b * (1.0 - kSame); }

struct Score {
  double pace = 0.0;
  double squares = 0.0;
  bool better_than(const Score& other) const {
    if (is_less(pace, other.pace)) return true;
    return !is_less(other.pace, pace) && is_less(squares, other.squares);
  }
};

Score score_of(const Problem& problem, const std::vector<Stage>& stages) {
  Score score{pace_seconds(problem, stages, problem.batch_rows), 0.0};
  for (const Stage& stage : stages) {
    const double seconds = stage_seconds(problem, stage, problem.batch_rows);
    score.squares += seconds * seconds;
  }
  return score;
}

// The ranges of the stages between them move by one layer.
std::vector<Stage> moved(std::vector<Stage> stages, std::size_t from, std::size_t to) {
  for (std::size_t i = std::min(from, to); i < std::max(from, to); ++i) {
    if (from < to) {
      --stages[i].layers.end;
      --stages[i + 1].layers.begin;
    } else {
      ++stages[i].layers.end;
      ++stages[i + 1].layers.begin;
    }
  }
  return stages;
}

}  // namespace

std::vector<Stage> even_out(const Problem& problem, std::vector<Stage> stages) {
  if (stages.size() < 2 || stages.size() > limits::kExactNodes) return stages;
  const double margin = problem.objective == Objective::kAuto ? kEvenMargin : kSame;
  const double most = cost_seconds(problem, stages) * (1.0 + margin);
  Score now = score_of(problem, stages);
  // Two scores count as equal within rounding, so only a bound makes it certain that this ends.
  for (std::size_t move = 0; move < problem.layers() * stages.size(); ++move) {
    std::vector<Stage> best;
    for (std::size_t from = 0; from < stages.size(); ++from) {
      if (stages[from].layers.size() == 1) continue;
      for (std::size_t to = 0; to < stages.size(); ++to) {
        if (from == to) continue;
        std::vector<Stage> next = moved(stages, from, to);
        const Score score = score_of(problem, next);
        if (!score.better_than(now) || cost_seconds(problem, next) > most) continue;
        if (!std::ranges::all_of(next, [&](const Stage& one) { return fits(problem, one); })) {
          continue;
        }
        now = score;
        best = std::move(next);
      }
    }
    if (best.empty()) break;
    INVARIANT(best.size() == stages.size() && best.back().layers.end == problem.layers(),
              "an even split has the same stages and layers");
    stages = std::move(best);
  }
  return stages;
}

}  // namespace hearth::placement
