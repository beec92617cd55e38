// The launch of an OpenCL kernel, between the host code that asks for it and the runtime that
// queues it. Threads: a launch begins and ends on one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"

namespace hearth::kernels::cuda::opencl {

struct Launch {
  unsigned blocks_x = 1;
  unsigned blocks_y = 1;
  unsigned threads = 1;  // of a block, a multiple of 32
  std::size_t shared_bytes = 0;
};

void begin_launch(const Launch& launch, Stream stream);
// Null, or what the device says is wrong with it; valid until the thread's next launch.
const char* end_launch();

}  // namespace hearth::kernels::cuda::opencl

// Called between the two by the kernels of host code, which translate.py writes.
extern "C" {
// Name, text in OpenCL C, and how many words a lane hands to others at once. All outlive the
// process's last launch.
void hearth_opencl_kernel(const char* name, const char* text, std::uint32_t slots);
// The next argument.
void hearth_opencl_argument(const void* value, std::size_t bytes);
}
