// The exactness suite on the first OpenCL device: the sources of tests/emulated, linked with the
// OpenCL code of the kernels. Exit code 77 without an OpenCL device.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/cuda/runtime.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const auto count = hearth::kernels::cuda::device_count();
  if (!count.ok() || *count == 0) {
    std::printf("there is no OpenCL device: nothing was run\n");
    return 77;
  }
  const auto info = hearth::kernels::cuda::device_info(0);
  if (!info.ok()) {
    std::printf("%s\n", info.error().message.c_str());
    return 1;
  }
  std::printf("OpenCL device %s\n", info->name.c_str());
  return RUN_ALL_TESTS();
}
