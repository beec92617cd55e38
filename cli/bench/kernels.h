// hearth bench kernels: the speed of every kernel beside what this machine can do at most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::cli {

struct BenchKernelsOptions {
  std::vector<std::string> tables;                 // --isa; empty: all but scalar that run here
  std::vector<std::string> types;                  // --type; empty: all
  std::vector<std::uint32_t> tokens = {1, 8, 64};  // --tokens: rows of activations of a product
  std::uint32_t rows = 4096;                       // of the weight matrix
  std::uint32_t cols = 4096;                       // a multiple of 256
  std::uint32_t threads = 0;                       // -t; 0: all cores
  double seconds = 0.3;                            // of each measurement, after its warm-up
  bool json = false;
};

int run_bench_kernels(const BenchKernelsOptions& options);

}  // namespace hearth::cli
