// `hearth bench model` with the matrix product of the best table replaced by one that adds up
// floats in the order they come: what freedom from order costs is the difference
// (tests/bench/plain-sum).
//   bench_plain_sum MODEL PROMPT GENERATE THREADS
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/bench/bench.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"

namespace hearth::kernels {

#define HEARTH_PLAIN_TABLE(name)                                                        \
  namespace name {                                                                      \
  void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin, \
              std::uint32_t group_end, float* out, std::size_t out_stride);             \
  }
HEARTH_PLAIN_TABLE(avx2_plain)
HEARTH_PLAIN_TABLE(avx512_plain)
#undef HEARTH_PLAIN_TABLE

}  // namespace hearth::kernels

int main(int argc, char** argv) {
  using namespace hearth;  // NOLINT
  if (argc != 5) {
    std::fputs("usage: bench_plain_sum MODEL PROMPT GENERATE THREADS\n", stderr);
    return 2;
  }
  const auto exact = kernels::select_kernels();
  if (!exact.ok()) {
    std::fprintf(stderr, "%s\n", exact.error().message.c_str());
    return 1;
  }
  kernels::Kernels plain = **exact;
  // A table proves itself once; after it, this one is given the product that cannot.
  if (const Status known = kernels::require_known_answers(plain); !known.ok()) {
    std::fprintf(stderr, "%s\n", known.error().message.c_str());
    return 1;
  }
  if (plain.name == "avx2") {
    plain.matmul = kernels::avx2_plain::matmul;
  } else if (plain.name == "avx512") {
    plain.matmul = kernels::avx512_plain::matmul;
  } else {
    std::fputs("HEARTH_ISA must be avx2 or avx512\n", stderr);
    return 2;
  }
  const std::string name = std::string(plain.name) + ", plain float sum";
  plain.name = name;
  const auto number = [argv](int i) {
    return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10));
  };
  cli::BenchModelOptions options;
  options.model = argv[1];
  options.prompt = {number(2)};
  options.generate = {number(3)};
  options.threads = {number(4)};
  options.repetitions = 1;
  options.json = true;
  options.kernels = &plain;
  return cli::run_bench_model(options);
}
