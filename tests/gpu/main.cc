// The exactness suite on a card: the sources of tests/emulated, linked with what nvcc made of the
// kernels. Exit code 77 where no card answers.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  int cards = 0;
  const cudaError_t error = cudaGetDeviceCount(&cards);
  if (error != cudaSuccess || cards == 0) {
    std::printf("no NVIDIA card answers (%s): nothing was run\n",
                error != cudaSuccess ? cudaGetErrorString(error) : "no device was found");
    return 77;
  }
  return RUN_ALL_TESTS();
}
