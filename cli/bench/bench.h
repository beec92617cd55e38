// hearth bench: measures this machine with the real engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::kernels {
struct Kernels;
}

namespace hearth::cli {

// Tokens per second. Flags and JSON fields are llama-bench's.
struct BenchModelOptions {
  std::string model;                            // file or pulled name
  std::vector<std::uint32_t> prompt = {512};    // -p; 0 leaves the prefill test out
  std::vector<std::uint32_t> generate = {128};  // -n; 0 leaves the decode test out
  std::vector<std::uint32_t> batch = {1};       // -b: sequences decoded at once
  std::vector<std::uint32_t> threads;           // -t; empty: all cores
  std::uint32_t repetitions = 5;                // -r
  std::uint32_t stages = 1;
  std::string device = "cpu";      // cli/worker/device.h
  bool pin = false;                // cli/worker/worker.h
  std::uint64_t memory_bytes = 0;  // 0: all memory that is available
  bool json = false;
  const kernels::Kernels* kernels = nullptr;  // null: what select_kernels() gives
};

int run_bench_model(const BenchModelOptions& options);

}  // namespace hearth::cli
