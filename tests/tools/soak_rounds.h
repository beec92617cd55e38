// The soak: the exactness property over as many tokens as are asked for, round after round
// (tests/tools/soak_round.h), over small random models of every family and weight type and over
// given ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tests/tools/soak_round.h"

namespace hearth::cli {

struct SoakOptions {
  std::uint64_t tokens = 1'000'000;  // whole rounds, until at least so many are compared
  std::uint64_t seed = 1;            // the rounds and their order come from it alone
  std::uint32_t workers = 1;         // rounds at a time; changes no count
  SoakTables tables;                 // of the random models
  std::vector<SoakModel> models;     // take turns with the random ones
  SoakTables model_tables;           // of those
  std::function<void(const SoakCount&)> on_progress;  // one thread at a time
  std::function<bool()> stop;                         // from any thread
};

// All tables of this processor for the random models, the scalar one at fewer steps because it
// takes a hundred times as long; for given models, of any size, those but the scalar one.
void use_soak_tables(SoakOptions& options);

struct SoakResult {
  SoakCount count;
  std::uint64_t rounds = 0;
  bool interrupted = false;
};
Result<SoakResult> soak(const SoakOptions& options);

}  // namespace hearth::cli
