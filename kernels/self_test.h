// Known answers: what every entry of a kernel table, for every weight type, and every function
// beside the tables gives on small fixed inputs. A process runs this test before it serves. So a
// processor, compiler or memory that gives other results is found before anything relies on it. The
// answers are committed (self_test_answers.inc); they come from the scalar table.
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

// The answers of the canonical function, in a fixed order.
std::span<const KnownAnswer> known_answers();

// The answers of `table` to the same questions, with the same names; about 15 ms of one core,
// scalar 100.
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
