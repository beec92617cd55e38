#include "card.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace hearth::card {
namespace {

constexpr std::size_t kMargin = 256;
constexpr int kPattern = 0xC7;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::_Exit(1);
}

}  // namespace

std::byte* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes + 2 * kMargin), "cudaMalloc");
  check(cudaMemset(memory, kPattern, bytes + 2 * kMargin), "cudaMemset");
  return static_cast<std::byte*>(memory) + kMargin;
}

bool release(std::byte* data, std::size_t bytes) {
  check(cudaDeviceSynchronize(), "a kernel");
  std::vector<std::byte> margins(2 * kMargin);
  check(cudaMemcpy(margins.data(), data - kMargin, kMargin, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaMemcpy(&margins[kMargin], data + bytes, kMargin, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(data - kMargin), "cudaFree");
  return std::all_of(margins.begin(), margins.end(),
                     [](std::byte b) { return b == std::byte{kPattern}; });
}

void copy_in(std::byte* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void copy_out(void* to, const std::byte* from, std::size_t bytes) {
  check(cudaDeviceSynchronize(), "a kernel");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void report_overrun(std::size_t bytes) {
  ADD_FAILURE() << "a kernel has written beside its memory of " << bytes << " bytes";
}

}  // namespace hearth::card
