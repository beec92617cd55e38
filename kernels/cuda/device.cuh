// The part of CUDA that device code may use: functions over intrinsics and PTX, and memory behind
// get and put. No call costs more than the instruction that it stands for. With HEARTH_EMULATED, a
// header with the same interface replaces this one, and the kernels run as checked plain C++
// (tests/emulated). Code that uses anything else does not compile there, so tests can run all code
// that runs on a GPU. With HEARTH_OPENCL, kernels/opencl replaces it in the same way.
//
// Warp operations are of all 32 lanes. Only sync_warp and sync_threads order memory.
#pragma once

#include "kernels/cuda/stream.h"

#if defined(HEARTH_EMULATED)
#include "emulated_device.h"
#elif defined(HEARTH_OPENCL)
#include "opencl_device.cuh"
#else

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define HEARTH_KERNEL(threads, blocks) static __global__ void __launch_bounds__(threads, blocks)
#define HEARTH_DEVICE __device__ __forceinline__
#define HEARTH_UNROLL _Pragma("unroll")
#define HEARTH_ROLL _Pragma("unroll 1")

namespace hearth::kernels::cuda {

HEARTH_DEVICE unsigned thread_index() { return threadIdx.x; }
HEARTH_DEVICE unsigned block_index_x() { return blockIdx.x; }
HEARTH_DEVICE unsigned block_index_y() { return blockIdx.y; }
HEARTH_DEVICE unsigned block_threads() { return blockDim.x; }
HEARTH_DEVICE unsigned grid_x() { return gridDim.x; }

struct alignas(16) Words4 {
  std::uint32_t at[4];
};

namespace memory {

HEARTH_DEVICE Words4 words(uint4 v) { return {{v.x, v.y, v.z, v.w}}; }
HEARTH_DEVICE uint4 vector(const Words4& v) { return {v.at[0], v.at[1], v.at[2], v.at[3]}; }

template <typename T>
HEARTH_DEVICE T load(const T* from) {
  if constexpr (std::is_same_v<T, Words4>) {
    return words(*reinterpret_cast<const uint4*>(from));
  } else {
    return *from;
  }
}

template <typename T>
HEARTH_DEVICE void store(T* to, const T& value) {
  if constexpr (std::is_same_v<T, Words4>) {
    *reinterpret_cast<uint4*>(to) = vector(value);
  } else {
    *to = value;
  }
}

}  // namespace memory

// Global memory: one raw pointer.
template <typename T>
class Global {
 public:
  Global() = default;
  __host__ __device__ explicit Global(T* data) : data_(data) {}

  HEARTH_DEVICE std::remove_const_t<T> get(std::size_t i) const {
    return memory::load<std::remove_const_t<T> >(data_ + i);
  }
  // Written by no kernel, as weights are.
  HEARTH_DEVICE std::remove_const_t<T> get_constant(std::size_t i) const { return get(i); }
  // The same, and read once: the caches drop it first.
  HEARTH_DEVICE std::remove_const_t<T> get_once(std::size_t i) const {
    if constexpr (std::is_same_v<std::remove_const_t<T>, Words4>) {
      return memory::words(__ldcs(reinterpret_cast<const uint4*>(data_ + i)));
    } else {
      return __ldcs(data_ + i);
    }
  }
  HEARTH_DEVICE void put(std::size_t i, T value) const { memory::store(data_ + i, value); }
  // The same memory as another type.
  template <typename U>
  __host__ __device__ Global<U> as() const {
    return Global<U>(reinterpret_cast<U*>(data_));
  }
  __host__ __device__ Global at(std::size_t i) const { return Global(data_ + i); }
  HEARTH_DEVICE bool is_null() const { return data_ == nullptr; }
  HEARTH_DEVICE T* raw() const { return data_; }

 private:
  T* data_ = nullptr;
};

template <typename T, unsigned kCount>
class SharedArray {
 public:
  HEARTH_DEVICE T get(std::size_t i) const { return memory::load(data_ + i); }
  HEARTH_DEVICE void put(std::size_t i, T value) { memory::store(data_ + i, value); }
  HEARTH_DEVICE T* raw(std::size_t i) { return data_ + i; }
  // Word `i` of the array's bytes.
  HEARTH_DEVICE std::uint32_t word(std::size_t i) const {
    return reinterpret_cast<const std::uint32_t*>(data_)[i];
  }

 private:
  T data_[kCount];
};

// The block's shared memory, of sizeof(S) bytes at the launch: a struct of SharedArrays.
template <typename S>
HEARTH_DEVICE S& shared_memory() {
  extern __shared__ __align__(16) unsigned char block_shared_memory[];
  return *reinterpret_cast<S*>(block_shared_memory);
}

HEARTH_DEVICE void sync_threads() { __syncthreads(); }
HEARTH_DEVICE void sync_warp() { __syncwarp(); }
// All blocks see this thread's earlier writes to global memory before its later ones.
HEARTH_DEVICE void fence_device() { __threadfence(); }

// For kernels of launch_early(): returns when the kernel before this one in the stream has ended
// and its writes are seen. Every thread calls it once. Before it, a kernel reads global memory only
// with get_constant() and get_once(), and writes none. The kernel after this one may begin once all
// blocks of this one have come here; it then waits in the same way.
HEARTH_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

template <typename T>
HEARTH_DEVICE T shuffle(T value, unsigned lane) {
  return __shfl_sync(kAllLanes, value, static_cast<int>(lane));
}
// From lane + distance; the last lanes keep their own.
template <typename T>
HEARTH_DEVICE T shuffle_down(T value, unsigned distance) {
  return __shfl_down_sync(kAllLanes, value, distance);
}
template <typename T>
HEARTH_DEVICE T shuffle_xor(T value, unsigned mask) {
  return __shfl_xor_sync(kAllLanes, value, static_cast<int>(mask));
}
HEARTH_DEVICE std::uint32_t warp_max(std::uint32_t mine) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, mine);
#else
  for (unsigned mask = 16; mask > 0; mask /= 2) mine = max(mine, shuffle_xor(mine, mask));
  return mine;
#endif
}
HEARTH_DEVICE std::int32_t warp_add(std::int32_t mine) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, mine);
#else
  for (unsigned mask = 16; mask > 0; mask /= 2) mine += shuffle_xor(mine, mask);
  return mine;
#endif
}
HEARTH_DEVICE std::uint32_t warp_ballot(bool mine) { return __ballot_sync(kAllLanes, mine); }
HEARTH_DEVICE bool warp_any(bool mine) { return __any_sync(kAllLanes, mine) != 0; }

// The value before. Integers only: their order cannot matter.
template <typename T>
HEARTH_DEVICE T atomic_add(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  using Wide = unsigned long long;  // the only one of 64 bits; sums of either sign wrap alike
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(
        atomicAdd(reinterpret_cast<Wide*>(to.raw() + i), static_cast<Wide>(value)));
  } else {
    return atomicAdd(to.raw() + i, value);
  }
}
template <typename T>
HEARTH_DEVICE T atomic_exchange(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  using Wide = unsigned long long;
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(
        atomicExch(reinterpret_cast<Wide*>(to.raw() + i), static_cast<Wide>(value)));
  } else {
    return atomicExch(to.raw() + i, value);
  }
}
template <typename T>
HEARTH_DEVICE T atomic_max(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  return atomicMax(to.raw() + i, value);
}
template <typename T>
HEARTH_DEVICE T atomic_or(Global<T> to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  return atomicOr(to.raw() + i, value);
}
template <typename T, unsigned kCount>
HEARTH_DEVICE T atomic_add(SharedArray<T, kCount>& to, std::size_t i, T value) {
  static_assert(std::is_integral_v<T>);
  using Wide = unsigned long long;
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(atomicAdd(reinterpret_cast<Wide*>(to.raw(i)), static_cast<Wide>(value)));
  } else {
    return atomicAdd(to.raw(i), value);
  }
}

// Words i to i + 3 of an array that lies at a multiple of 16 bytes; i is a multiple of four.
template <unsigned kCount>
HEARTH_DEVICE Words4 get_four(SharedArray<std::uint32_t, kCount>& from, std::size_t i) {
  return memory::load(reinterpret_cast<const Words4*>(from.raw(i)));
}
template <unsigned kCount>
HEARTH_DEVICE void put_four(SharedArray<std::uint32_t, kCount>& to, std::size_t i,
                            const Words4& words) {
  memory::store(reinterpret_cast<Words4*>(to.raw(i)), words);
}

// 16 bytes on their way to shared memory; this thread sees them after the wait, others after a
// barrier that follows it. copy_wait leaves the newest groups on their way.
template <unsigned kCount>
HEARTH_DEVICE void copy_async(SharedArray<Words4, kCount>& to, std::size_t i,
                              Global<const Words4> from, std::size_t j) {
#if __CUDA_ARCH__ >= 800
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to.raw(i)));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from.raw() + j)
               : "memory");
#else
  to.put(i, from.get(j));
#endif
}
HEARTH_DEVICE void copy_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <unsigned kGroupsLeft>
HEARTH_DEVICE void copy_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
#endif
}

// sum + the products of four bytes: signed with signed, unsigned with signed.
HEARTH_DEVICE std::int32_t dot_signed(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}
HEARTH_DEVICE std::int32_t dot_unsigned(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

// Byte i of the result is byte (selector >> 4 i) % 8 of the eight of low and high; a selector's
// bit 3 asks for that byte's sign instead.
HEARTH_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high,
                                       std::uint32_t selector) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

// fp16 to fp32, exact.
HEARTH_DEVICE float widen_half(std::uint16_t half) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(half));
  return result;
}

// fp32 to fp16, to the nearest even; beyond the range an infinity, NaN a NaN.
HEARTH_DEVICE std::uint16_t narrow_half(float value) {
  std::uint16_t result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

// A 16 x 8 product of bytes over 16 or 32 columns, spread over the lanes as mma.sync has it: with
// g = lane / 4 and c = lane % 4, a[i] holds row g + 8 (i % 2), columns 16 (i / 2) + 4 c ..+3; b[i]
// column g, rows 16 i + 4 c ..+3; sum[i] row g + 8 (i / 2), column 2 c + i % 2. a is signed or
// unsigned, b signed. 7.5 has these in parts of 8 x 8 x 16.
#define HEARTH_MULTIPLY_8(TYPE, low, high, left, right)                                      \
  asm("mma.sync.aligned.m8n8k16.row.col.s32." TYPE ".s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
      : "+r"(low), "+r"(high)                                                                \
      : "r"(left), "r"(right))
#if __CUDA_ARCH__ >= 800
#define HEARTH_MULTIPLY_16(TYPE, sum, a, b)                         \
  asm("mma.sync.aligned.m16n8k16.row.col.s32." TYPE                 \
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])      \
      : "r"(a[0]), "r"(a[1]), "r"(b))
#define HEARTH_MULTIPLY_32(TYPE, sum, a, b)                                     \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." TYPE                             \
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                  \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define HEARTH_MULTIPLY_16(TYPE, sum, a, b)         \
  HEARTH_MULTIPLY_8(TYPE, sum[0], sum[1], a[0], b); \
  HEARTH_MULTIPLY_8(TYPE, sum[2], sum[3], a[1], b)
#define HEARTH_MULTIPLY_32(TYPE, sum, a, b)            \
  HEARTH_MULTIPLY_8(TYPE, sum[0], sum[1], a[0], b[0]); \
  HEARTH_MULTIPLY_8(TYPE, sum[2], sum[3], a[1], b[0]); \
  HEARTH_MULTIPLY_8(TYPE, sum[0], sum[1], a[2], b[1]); \
  HEARTH_MULTIPLY_8(TYPE, sum[2], sum[3], a[3], b[1])
#endif
HEARTH_DEVICE void multiply_16x8x32(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  HEARTH_MULTIPLY_32("s8", sum, a, b);
}
HEARTH_DEVICE void multiply_16x8x32_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  HEARTH_MULTIPLY_32("u8", sum, a, b);
}
HEARTH_DEVICE void multiply_16x8x16(std::int32_t (&sum)[4], const std::uint32_t (&a)[2],
                                    std::uint32_t b) {
  HEARTH_MULTIPLY_16("s8", sum, a, b);
}
HEARTH_DEVICE void multiply_16x8x16_unsigned(std::int32_t (&sum)[4], const std::uint32_t (&a)[2],
                                             std::uint32_t b) {
  HEARTH_MULTIPLY_16("u8", sum, a, b);
}
#undef HEARTH_MULTIPLY_8
#undef HEARTH_MULTIPLY_16
#undef HEARTH_MULTIPLY_32

// Four groups of 8 rows of 16 bytes: lane l names row l % 8 of group l / 8, and gets word l % 4 of
// row l / 4 of each group.
template <unsigned kCount>
HEARTH_DEVICE void load_fragments(SharedArray<Words4, kCount>& from, std::size_t i,
                                  std::uint32_t (&words)[4]) {
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(from.raw(i)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

// The thread's index, read again. What is computed from it takes no register between two calls, as
// the compiler keeps what is computed from thread_index().
HEARTH_DEVICE unsigned reread_thread_index() {
  unsigned index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
};

namespace launches {

// A device gives a kernel 48 KiB of shared memory unasked.
template <typename... Parameters, typename... Arguments>
const char* run(cudaLaunchAttribute* attributes, unsigned count, void (*kernel)(Parameters...),
                Grid grid, unsigned threads, std::size_t shared_bytes, Stream stream,
                const Arguments&... arguments) {
  if (shared_bytes > 48 * 1024) {
    const cudaError_t refused = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (refused != cudaSuccess) return cudaGetErrorString(refused);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// Whether this program has machine code of the capability: code of an older one, which a driver
// compiles anew for the device, does not wait.
constexpr bool has_code_for(int major) {
  for (const int each : {__CUDA_ARCH_LIST__}) {
    if (each / 100 == major) return true;
  }
  return false;
}

inline bool may_begin_early() {
  int device = 0;
  int major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9 && has_code_for(major);
}

}  // namespace launches

// Null, or the runtime's error for the launch.
template <typename... Parameters, typename... Arguments>
const char* launch(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                   std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  return launches::run(nullptr, 0, kernel, grid, threads, shared_bytes, stream, arguments...);
}

// The same; on devices from 9.0 on, the kernel may begin before the one before it in the stream has
// ended (CUDA C++ Programming Guide, "Programmatic Dependent Launch"). It calls
// wait_for_previous_kernel().
template <typename... Parameters, typename... Arguments>
const char* launch_early(void (*kernel)(Parameters...), Grid grid, unsigned threads,
                         std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  return launches::run(&early, launches::may_begin_early() ? 1 : 0, kernel, grid, threads,
                       shared_bytes, stream, arguments...);
}

}  // namespace hearth::kernels::cuda

#endif
