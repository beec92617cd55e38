// Host operations on a GPU: memory, copies, streams, events, graphs. It includes no CUDA header, so
// code that uses it compiles everywhere. runtime.cu implements it with CUDA, kernels/opencl with
// OpenCL, tests/emulated with an emulator, which stores queued work and runs it in an order drawn
// from a seed.
//
// Errors: kNoCapacity where memory is short, kUnavailable where there is no driver or no such card,
// else kIo with the runtime's words. After a kIo the card's context must not be used again by this
// process: CUDA answers every later call with the same error, or worse, does not. All calls ensure
// that themselves (lost_card.h): they return that error, and release nothing.
//
// Threads: the card chosen by use_device() is the calling thread's. One thread at a time a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/cuda/stream.h"

namespace hearth::kernels::cuda {

struct DeviceInfo {
  std::string name;
  std::string bus_id;       // of PCI, "0000:01:00.0": how NVML knows the same card
  std::uint32_t major = 0;  // compute capability; with OpenCL, the version of its language
  std::uint32_t minor = 0;
  std::uint32_t multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

// What the devices of this program are called before their number: "cuda" or "opencl".
std::string_view device_kind();
// Numbers count the GPUs that CUDA_VISIBLE_DEVICES allows, in its order. The count is 0 where there
// is no driver or no GPU, and kUnavailable where there is a driver that does not work: too old for
// this program, or half installed. The GPU is not lost by that. With OpenCL, they count the devices
// of all drivers, as `clinfo -l` lists them.
Result<std::uint32_t> device_count();
Result<DeviceInfo> device_info(std::uint32_t device);
// Compute capabilities with compiled code, times ten: 75 is 7.5.
std::vector<std::uint32_t> architectures();
Status use_device(std::uint32_t device);
// Of the GPU that this process uses, asked for once; 0 where the GPU does not answer.
std::uint32_t multiprocessors();

struct MemoryInfo {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};
Result<MemoryInfo> memory_info();

// One allocation, 256-byte aligned, not initialised.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static Result<DeviceMemory> allocate(std::size_t bytes);
  // `bytes` from `offset` on, a multiple of 256, as an array of its own: the emulator lets kernels
  // touch nothing else.
  std::byte* part(std::size_t offset, std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

// Pinned memory of the host, which copies reach directly.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  static Result<PinnedMemory> allocate(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }
  MutableByteSpan bytes() const { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

struct CloseStream {
  void operator()(Stream stream) const;
};
struct CloseEvent {
  void operator()(Event event) const;
};
struct CloseGraph {
  void operator()(Graph graph) const;
};
using OwnedStream = std::unique_ptr<CUstream_st, CloseStream>;
using OwnedEvent = std::unique_ptr<CUevent_st, CloseEvent>;
using OwnedGraph = std::unique_ptr<CUgraphExec_st, CloseGraph>;

Result<OwnedStream> make_stream();
Result<OwnedEvent> make_event();

// Queued on the stream. The host's side is pinned memory and stays untouched until the copy is
// done.
Status copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream);
Status copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream);
Status fill_zero(void* to, std::size_t bytes, Stream stream);

// The event stands behind what the stream holds now; a later record moves it.
Status record(Event event, Stream stream);
// Work queued on the stream from now on waits for the event.
Status wait(Stream stream, Event event);
// Whether the event has passed; true for one that was never recorded.
Result<bool> passed(Event event);
// The calling thread waits.
Status synchronize(Event event);
Status synchronize(Stream stream);

// Between the two calls, work queued on the stream is recorded and not run; every address and size
// in it is then fixed.
Status begin_capture(Stream stream);
Result<OwnedGraph> end_capture(Stream stream);
Status launch(Graph graph, Stream stream);

}  // namespace hearth::kernels::cuda
