// Known answers: what every entry of a kernel table, for every weight type, and every function
// beside the tables gives on small fixed inputs. A process asks before it serves, so that a
// processor, a compiler or a memory that computes something else is found before anything relies on
// it. The answers are committed (self_test_answers.inc); they come from the scalar table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"

namespace hearth::kernels {

struct KnownAnswer {
  std::string_view name;     // the entry, and the weight type where it takes one: "matmul Q4_K"
  std::uint64_t digest = 0;  // first eight bytes of BLAKE2b over all outputs, little-endian
};

// What the canonical function gives, in a fixed order.
std::span<const KnownAnswer> known_answers();

// What `table` gives to the same questions, by the same names; about 15 ms of one core, scalar 100.
struct Answer {
  std::string name;
  std::uint64_t digest = 0;
};
Result<std::vector<Answer>> answers_of(const Kernels& table);

// kNumeric when an answer differs: the first such entry and the table are named.
Status self_test(const Kernels& table);

// The same for a table that stays for ever, at most once a process and table. Thread-safe.
Status require_known_answers(const Kernels& table);

}  // namespace hearth::kernels
