#include "kernels/opencl/opencl_api.h"

#include <dlfcn.h>

#include <algorithm>

namespace hearth::kernels::cuda::opencl {
namespace {

const Api* load() {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static Api functions;
#define HEARTH_OPENCL_LOAD(name)                                                      \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) return nullptr;
  HEARTH_OPENCL_FUNCTIONS(HEARTH_OPENCL_LOAD)
#undef HEARTH_OPENCL_LOAD
  return &functions;
}

bool has_feature(cl_device_id device, const char* name) {
  std::size_t bytes = 0;
  if (api()->clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, 0, nullptr, &bytes) !=
      CL_SUCCESS) {
    return false;
  }
  std::vector<cl_name_version> features(bytes / sizeof(cl_name_version));
  if (api()->clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, bytes, features.data(),
                             nullptr) != CL_SUCCESS) {
    return false;
  }
  return std::any_of(features.begin(), features.end(),
                     [&](const cl_name_version& each) { return std::string(each.name) == name; });
}

}  // namespace

const Api* api() {
  static const Api* const functions = load();
  return functions;
}

std::vector<cl_device_id> devices() {
  std::vector<cl_device_id> all;
  if (api() == nullptr) return all;
  cl_uint count = 0;
  if (api()->clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return all;
  std::vector<cl_platform_id> platforms(count);
  if (api()->clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return all;
  for (cl_platform_id platform : platforms) {
    cl_uint here = 0;
    if (api()->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &here) != CL_SUCCESS) {
      continue;
    }
    const std::size_t before = all.size();
    all.resize(before + here);
    if (api()->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, here, &all[before], nullptr) !=
        CL_SUCCESS) {
      all.resize(before);
    }
  }
  return all;
}

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  if (api()->clGetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string text(bytes, '\0');
  if (api()->clGetDeviceInfo(device, what, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

unsigned language_of(cl_device_id device) {
  if (has_feature(device, "__opencl_c_atomic_scope_device")) return 300;
  const std::string version = text_of(device, CL_DEVICE_OPENCL_C_VERSION);  // "OpenCL C 2.0 ..."
  return version.starts_with("OpenCL C 2.") ? 200 : 120;
}

Status check_abilities(cl_device_id device) {
  const auto single = number_of<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  const auto svm = number_of<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES);
  const auto type = number_of<cl_device_type>(device, CL_DEVICE_TYPE);
  const std::string extensions = text_of(device, CL_DEVICE_EXTENSIONS) + " ";
  const struct {
    bool has;
    const char* what;
  } needs[] = {
      {number_of<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE, "a compiler"},
      {number_of<cl_uint>(device, CL_DEVICE_ADDRESS_BITS) == 64, "addresses of 64 bits"},
      {number_of<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_TRUE, "little-endian numbers"},
      {(svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0, "shared virtual memory"},
      {(single & CL_FP_ROUND_TO_NEAREST) != 0, "rounding to nearest"},
      {(single & CL_FP_INF_NAN) != 0, "infinities"},
      {(single & CL_FP_DENORM) != 0, "subnormal numbers"},
      {(single & CL_FP_FMA) != 0, "fused multiplication and addition"},
      {(single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0,
       "correctly rounded divisions and square roots"},
      {number_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0, "doubles"},
      {extensions.find("cl_khr_int64_base_atomics ") != std::string::npos,
       "atomic operations of 64 bits"},
      {(type & CL_DEVICE_TYPE_CPU) != 0 || language_of(device) >= 200,
       "fences between work groups"},
      {number_of<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE) >= 1024,
       "work groups of 1024"},
  };
  for (const auto& need : needs) {
    if (!need.has) {
      return Error::of(ErrorCode::kUnsupported, "OpenCL device ", text_of(device, CL_DEVICE_NAME),
                       " does not have ", need.what,
                       ", which exact results need; use --device cpu");
    }
  }
  return ok_status();
}

}  // namespace hearth::kernels::cuda::opencl
