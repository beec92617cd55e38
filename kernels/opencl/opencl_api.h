// The functions of OpenCL that this folder uses, from the library that the system has: looked for
// when the first of them is needed, so that a program runs with and without it. Any thread.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::kernels::cuda::opencl {

#define HEARTH_OPENCL_FUNCTIONS(each)                                                             \
  each(clGetPlatformIDs) each(clGetPlatformInfo) each(clGetDeviceIDs) each(clGetDeviceInfo)       \
      each(clCreateContext) each(clCreateCommandQueueWithProperties) each(clReleaseCommandQueue)  \
          each(clSVMAlloc) each(clSVMFree) each(clEnqueueSVMMemcpy) each(clEnqueueSVMMemFill)     \
              each(clEnqueueMarkerWithWaitList) each(clEnqueueBarrierWithWaitList)                \
                  each(clWaitForEvents) each(clGetEventInfo) each(clReleaseEvent) each(clFlush)   \
                      each(clFinish) each(clCreateProgramWithSource) each(clBuildProgram)         \
                          each(clGetProgramBuildInfo) each(clReleaseProgram) each(clCreateKernel) \
                              each(clSetKernelArg) each(clSetKernelExecInfo)                      \
                                  each(clEnqueueNDRangeKernel)

struct Api {
#define HEARTH_OPENCL_FIELD(name) decltype(&::name) name = nullptr;
  HEARTH_OPENCL_FUNCTIONS(HEARTH_OPENCL_FIELD)
#undef HEARTH_OPENCL_FIELD
};

// Null where the library is not there, or lacks a function.
const Api* api();

// The devices of all platforms, in their order. Empty without a library or a platform.
std::vector<cl_device_id> devices();

std::string text_of(cl_device_id device, cl_device_info what);
template <typename T>
T number_of(cl_device_id device, cl_device_info what) {
  T number{};
  const cl_int error = api()->clGetDeviceInfo(device, what, sizeof number, &number, nullptr);
  return error == CL_SUCCESS ? number : T{};
}

// kUnsupported, with what the device lacks, unless it says that it has all that the kernels need:
// memory whose addresses host and device share, 64-bit atomics, and exact arithmetic.
Status check_abilities(cl_device_id device);
// The version of OpenCL C for which programs are built: 300, 200 or 120.
unsigned language_of(cl_device_id device);

}  // namespace hearth::kernels::cuda::opencl
