#include "kernels/opencl/opencl_context.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/opencl/prelude.h"

namespace hearth::kernels::cuda::opencl {
namespace {

constexpr std::size_t kAlignment = 256;

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  api()->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  api()->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  return log.substr(0, 2000);
}

std::string build_options(cl_device_id device) {
  const unsigned language = language_of(device);
  return "-cl-std=CL" + std::to_string(language / 100) + "." + std::to_string(language / 10 % 10) +
         " -cl-fp32-correctly-rounded-divide-sqrt";
}

}  // namespace

Error error_of(const char* what, cl_int error) {
  return Error::of(ErrorCode::kIo, what, ": OpenCL error ", error);
}

Result<Context*> Context::of(std::uint32_t index) {
  static std::mutex mutex;
  static std::map<std::uint32_t, Context*> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(index); found != known.end()) return found->second;
  const std::vector<cl_device_id> all = devices();
  if (index >= all.size()) {
    return Error::of(ErrorCode::kUnavailable, "there are ", all.size(), " OpenCL devices");
  }
  TRY_VOID(check_abilities(all[index]));
  auto* made = new Context;  // lives as long as the process, whose driver may have threads
  TRY_VOID(made->open(all[index]));
  known[index] = made;
  return made;
}

Status Context::open(cl_device_id device) {
  cl_int error = CL_SUCCESS;
  device_ = device;
  context_ = api()->clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return error_of("a context", error);
  TRY(queue_, make_queue());
  return ok_status();
}

std::uint64_t Context::memory() const {
  return number_of<cl_ulong>(device_, CL_DEVICE_GLOBAL_MEM_SIZE);
}

std::uint64_t Context::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Result<cl_command_queue> Context::make_queue() {
  cl_int error = CL_SUCCESS;
  cl_command_queue queue =
      api()->clCreateCommandQueueWithProperties(context_, device_, nullptr, &error);
  if (error != CL_SUCCESS) return error_of("a queue", error);
  const std::lock_guard lock(mutex_);
  queues_.insert(queue);
  return queue;
}

void Context::release_queue(cl_command_queue queue) {
  api()->clFinish(queue);
  const std::lock_guard lock(mutex_);
  queues_.erase(queue);
  api()->clReleaseCommandQueue(queue);
}

std::byte* Context::allocate(std::size_t bytes) {
  void* begin = api()->clSVMAlloc(context_, CL_MEM_READ_WRITE, bytes + kAlignment, 0);
  if (begin == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  auto* data = static_cast<std::byte*>(begin) + (kAlignment - address % kAlignment) % kAlignment;
  const std::lock_guard lock(mutex_);
  allocations_[data] = {begin, bytes};
  used_ += bytes;
  ++memory_changes_;
  return data;
}

void Context::release(std::byte* data) {
  const std::lock_guard lock(mutex_);
  for (cl_command_queue queue : queues_) api()->clFinish(queue);
  const auto found = allocations_.find(data);
  api()->clSVMFree(context_, found->second.begin);
  used_ -= found->second.bytes;
  allocations_.erase(found);
  ++memory_changes_;
}

Result<cl_kernel> Context::build(const Call& call) {
  cl_int error = CL_SUCCESS;
  std::array<const char*, 2> texts = {prelude(), call.text};
  cl_program program =
      api()->clCreateProgramWithSource(context_, texts.size(), texts.data(), nullptr, &error);
  if (error != CL_SUCCESS) return error_of("a program", error);
  error =
      api()->clBuildProgram(program, 1, &device_, build_options(device_).c_str(), nullptr, nullptr);
  if (error != CL_SUCCESS) {
    return Error::of(ErrorCode::kIo, "building ", call.name, ": OpenCL error ", error, ": ",
                     build_log(program, device_));
  }
  cl_kernel kernel = api()->clCreateKernel(program, call.name, &error);
  api()->clReleaseProgram(program);  // the kernel keeps it
  if (error != CL_SUCCESS) return error_of(call.name, error);
  return kernel;
}

// With the mutex.
Result<cl_kernel> Context::kernel(const Call& call) {
  Built& built = kernels_[call.name];
  if (built.kernel == nullptr) {
    TRY(built.kernel, build(call));
  }
  if (built.memory_seen == memory_changes_) return built.kernel;
  std::vector<void*> pointers;
  for (const auto& [data, allocation] : allocations_) pointers.push_back(allocation.begin);
  const cl_int error = api()->clSetKernelExecInfo(built.kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                                  pointers.size() * sizeof(void*), pointers.data());
  if (error != CL_SUCCESS) return error_of("a kernel's memory", error);
  built.memory_seen = memory_changes_;
  return built.kernel;
}

Status Context::set_arguments(cl_kernel kernel, const Call& call) {
  cl_uint index = 0;
  const auto set = [&](std::size_t bytes, const void* value) -> Status {
    const cl_int error = api()->clSetKernelArg(kernel, index++, bytes, value);
    return error == CL_SUCCESS ? ok_status() : Status(error_of("an argument", error));
  };
  for (const auto& argument : call.arguments) TRY_VOID(set(argument.size(), argument.data()));
  const std::size_t shared = std::max<std::size_t>(call.launch.shared_bytes, 16);
  const std::size_t slots = std::size_t{2} * call.slots * call.launch.threads * sizeof(cl_uint);
  const auto most = number_of<cl_ulong>(device_, CL_DEVICE_LOCAL_MEM_SIZE);
  REQUIRE(shared + slots + 64 <= most, call.name, " needs ", shared + slots + 64,
          " bytes of local memory, and the device has ", most);
  TRY_VOID(set(shared, nullptr));
  return set(slots, nullptr);
}

Status Context::run(const Call& call, cl_command_queue queue) {
  const std::lock_guard lock(mutex_);
  TRY(cl_kernel kernel, this->kernel(call));
  TRY_VOID(set_arguments(kernel, call));
  const std::array<std::size_t, 2> local = {call.launch.threads, 1};
  const std::array<std::size_t, 2> global = {
      std::size_t{call.launch.blocks_x} * call.launch.threads, call.launch.blocks_y};
  const cl_int error = api()->clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, global.data(),
                                                     local.data(), 0, nullptr, nullptr);
  return error == CL_SUCCESS ? ok_status() : Status(error_of(call.name, error));
}

}  // namespace hearth::kernels::cuda::opencl
