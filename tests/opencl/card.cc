#include "tests/gpu/card.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/cuda/runtime.h"

namespace hearth::card {
namespace {

namespace cuda = kernels::cuda;

constexpr std::size_t kMargin = 256;
constexpr int kPattern = 0xC7;

void check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.error().message.c_str());
  std::_Exit(1);
}

std::map<std::byte*, cuda::DeviceMemory>& memories() {
  static auto* all = new std::map<std::byte*, cuda::DeviceMemory>;  // the device ends before it
  return *all;
}

}  // namespace

std::byte* allocate(std::size_t bytes) {
  auto memory = cuda::DeviceMemory::allocate(bytes + 2 * kMargin);
  if (!memory.ok()) check(memory.error(), "memory");
  std::byte* const data = memory->data() + kMargin;
  const std::vector<std::byte> pattern(bytes + 2 * kMargin, std::byte{kPattern});
  copy_in(memory->data(), pattern.data(), pattern.size());
  memories().emplace(data, std::move(*memory));
  return data;
}

bool release(std::byte* data, std::size_t bytes) {
  std::vector<std::byte> margins(2 * kMargin);
  copy_out(margins.data(), data - kMargin, kMargin);
  copy_out(&margins[kMargin], data + bytes, kMargin);
  memories().erase(data);
  return std::all_of(margins.begin(), margins.end(),
                     [](std::byte b) { return b == std::byte{kPattern}; });
}

// On the null stream, the host waits.
void copy_in(std::byte* to, const void* from, std::size_t bytes) {
  check(cuda::copy_to_device(to, from, bytes, nullptr), "a copy");
}

void copy_out(void* to, const std::byte* from, std::size_t bytes) {
  check(cuda::copy_to_host(to, from, bytes, nullptr), "a copy");
}

void report_overrun(std::size_t bytes) {
  ADD_FAILURE() << "a kernel has written beside its memory of " << bytes << " bytes";
}

}  // namespace hearth::card
