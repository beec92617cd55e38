// One OpenCL device as this process uses it: its context, the programs that have been built for it,
// and the memory that kernels reach by address. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/opencl/opencl_api.h"
#include "kernels/opencl/opencl_launch.h"

namespace hearth::kernels::cuda::opencl {

// A kernel with its arguments, ready to be queued any number of times.
struct Call {
  const char* name = nullptr;
  const char* text = nullptr;
  std::uint32_t slots = 1;
  Launch launch;
  std::vector<std::vector<std::byte>> arguments;
};

class Context {
 public:
  // That of device `index`; made once, and never destroyed. kUnavailable without such a device,
  // kUnsupported where it lacks an ability.
  static Result<Context*> of(std::uint32_t index);

  cl_device_id device() const { return device_; }
  cl_command_queue queue() const { return queue_; }  // of the null stream
  std::uint64_t memory() const;
  std::uint64_t used() const;

  Result<cl_command_queue> make_queue();
  void release_queue(cl_command_queue queue);
  // Null where memory is short.
  std::byte* allocate(std::size_t bytes);
  // Waits for everything that is queued.
  void release(std::byte* data);
  // Builds the program at the first call of a kernel.
  Status run(const Call& call, cl_command_queue queue);

 private:
  Context() = default;
  Status open(cl_device_id device);
  Result<cl_kernel> kernel(const Call& call);
  Result<cl_kernel> build(const Call& call);
  Status set_arguments(cl_kernel kernel, const Call& call);

  struct Allocation {
    void* begin = nullptr;
    std::size_t bytes = 0;
  };
  struct Built {
    cl_kernel kernel = nullptr;
    std::uint64_t memory_seen = 0;  // memory_changes_ when it was told of the allocations
  };
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  mutable std::mutex mutex_;
  std::set<cl_command_queue> queues_;
  std::map<std::byte*, Allocation> allocations_;
  std::uint64_t used_ = 0;
  std::uint64_t memory_changes_ = 1;
  std::map<std::string, Built> kernels_;
};

Error error_of(const char* what, cl_int error);

}  // namespace hearth::kernels::cuda::opencl
