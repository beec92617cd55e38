#include <cuda_runtime.h>

#include <atomic>

#include "kernels/cuda/lost_card.h"
#include "kernels/cuda/runtime.h"

namespace hearth::kernels::cuda {
namespace {

// An error that a new process would get as well does not count as the loss of a GPU.
bool no_card(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:  // another process has it for itself
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:  // updated, and the machine not started again
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorInitializationError: return true;
    default: return false;
  }
}

Error error_of(const char* what, cudaError_t error) {
  ErrorCode code = ErrorCode::kIo;
  if (error == cudaErrorMemoryAllocation) code = ErrorCode::kNoCapacity;
  if (no_card(error)) code = ErrorCode::kUnavailable;
  return {code, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                    cudaGetErrorName(error) + ")"};
}

std::string version_text(int cuda) {  // 12040 is 12.4
  return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
}

// Every call to CUDA except those that release something.
template <typename Call>
Status ask(const char* what, const Call& call) {
  TRY_VOID(LostCard::status());
  const cudaError_t error = call();
  if (error == cudaSuccess) return ok_status();
  cudaGetLastError();  // an error that is not sticky is reported once
  return LostCard::heard(error_of(what, error));
}

template <typename Call>
void give_back(const Call& call) {
  if (!LostCard::lost()) call();
}

}  // namespace

// The first call to CUDA. Its errors are those of a machine whose driver is not set up, some of
// which would lose a card if a later call had them.
Result<std::uint32_t> device_count() {
  TRY_VOID(LostCard::status());
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return static_cast<std::uint32_t>(count);
  cudaGetLastError();
  int driver = 0;  // the newest CUDA that it serves; 0 without one, where the error is the same
  const bool there = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  if (error == cudaErrorNoDevice || !there) return 0U;
  Error broken = error_of("looking for GPUs", error);
  broken.code = ErrorCode::kUnavailable;
  if (error == cudaErrorInsufficientDriver) {
    broken.message += "; the NVIDIA driver serves CUDA " + version_text(driver) +
                      ", and this program needs " + version_text(CUDART_VERSION) +
                      "; update the driver";
  }
  return broken;
}

Result<DeviceInfo> device_info(std::uint32_t device) {
  cudaDeviceProp properties{};
  TRY_VOID(ask("a card's properties",
               [&] { return cudaGetDeviceProperties(&properties, static_cast<int>(device)); }));
  char bus_id[32] = {};
  TRY_VOID(ask("a card's place on the bus", [&] {
    return cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, static_cast<int>(device));
  }));
  DeviceInfo info;
  info.name = properties.name;
  info.bus_id = bus_id;
  info.major = static_cast<std::uint32_t>(properties.major);
  info.minor = static_cast<std::uint32_t>(properties.minor);
  info.multiprocessors = static_cast<std::uint32_t>(properties.multiProcessorCount);
  info.memory_bytes = properties.totalGlobalMem;
  return info;
}

std::string_view device_kind() { return "cuda"; }

// nvcc names what it compiles for, a hundred times.
std::vector<std::uint32_t> architectures() {
  std::vector<std::uint32_t> all{__CUDA_ARCH_LIST__};
  for (std::uint32_t& each : all) each /= 10;
  return all;
}

Status use_device(std::uint32_t device) {
  return ask("choosing a card", [&] { return cudaSetDevice(static_cast<int>(device)); });
}

std::uint32_t multiprocessors() {
  static std::atomic<std::uint32_t> known{0};
  if (const std::uint32_t count = known.load()) return count;
  int device = 0;
  int count = 0;
  const Status asked = ask("counting multiprocessors", [&] {
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) return error;
    return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  });
  if (asked.ok()) known = static_cast<std::uint32_t>(count);
  return known;
}

Result<MemoryInfo> memory_info() {
  std::size_t free = 0;
  std::size_t total = 0;
  TRY_VOID(ask("asking for the card's memory", [&] { return cudaMemGetInfo(&free, &total); }));
  return MemoryInfo{free, total};
}

void DeviceMemory::Free::operator()(std::byte* data) const {
  give_back([&] { cudaFree(data); });
}

Result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes) {
  DeviceMemory memory;
  void* data = nullptr;
  TRY_VOID(ask("taking the card's memory", [&] { return cudaMalloc(&data, bytes); }));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.bytes_ = bytes;
  return Result<DeviceMemory>(std::move(memory));
}

std::byte* DeviceMemory::part(std::size_t offset, std::size_t) { return data_.get() + offset; }

void PinnedMemory::Free::operator()(std::byte* data) const {
  give_back([&] { cudaFreeHost(data); });
}

Result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  PinnedMemory memory;
  void* data = nullptr;
  TRY_VOID(ask("taking pinned memory", [&] { return cudaMallocHost(&data, bytes); }));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.bytes_ = bytes;
  return Result<PinnedMemory>(std::move(memory));
}

void CloseStream::operator()(Stream stream) const {
  give_back([&] { cudaStreamDestroy(stream); });
}
void CloseEvent::operator()(Event event) const {
  give_back([&] { cudaEventDestroy(event); });
}
void CloseGraph::operator()(Graph graph) const {
  give_back([&] { cudaGraphExecDestroy(graph); });
}

Result<OwnedStream> make_stream() {
  cudaStream_t stream = nullptr;
  TRY_VOID(
      ask("a stream", [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }));
  return OwnedStream(stream);
}

Result<OwnedEvent> make_event() {
  cudaEvent_t event = nullptr;
  TRY_VOID(
      ask("an event", [&] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }));
  return OwnedEvent(event);
}

Status copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
  return ask("a copy to the card",
             [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream); });
}

Status copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
  return ask("a copy from the card",
             [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream); });
}

Status fill_zero(void* to, std::size_t bytes, Stream stream) {
  return ask("clearing the card's memory", [&] { return cudaMemsetAsync(to, 0, bytes, stream); });
}

Status record(Event event, Stream stream) {
  return ask("an event on a stream", [&] { return cudaEventRecord(event, stream); });
}

Status wait(Stream stream, Event event) {
  return ask("a stream that waits", [&] { return cudaStreamWaitEvent(stream, event, 0); });
}

Result<bool> passed(Event event) {
  bool passed = true;
  TRY_VOID(ask("asking the card", [&] {
    const cudaError_t answer = cudaEventQuery(event);
    if (answer != cudaErrorNotReady) return answer;
    cudaGetLastError();  // the runtime keeps "not ready" like an error
    passed = false;
    return cudaSuccess;
  }));
  return passed;
}

Status synchronize(Event event) {
  return ask("waiting for the card", [&] { return cudaEventSynchronize(event); });
}

Status synchronize(Stream stream) {
  return ask("waiting for the card", [&] { return cudaStreamSynchronize(stream); });
}

Status begin_capture(Stream stream) {
  return ask("beginning a graph",
             [&] { return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal); });
}

Result<OwnedGraph> end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  TRY_VOID(ask("ending a graph", [&] { return cudaStreamEndCapture(stream, &graph); }));
  cudaGraphExec_t made = nullptr;
  const Status status =
      ask("making a graph", [&] { return cudaGraphInstantiate(&made, graph, 0); });
  give_back([&] { cudaGraphDestroy(graph); });
  TRY_VOID(status);
  return OwnedGraph(made);
}

Status launch(Graph graph, Stream stream) {
  return ask("starting a graph", [&] { return cudaGraphLaunch(graph, stream); });
}

}  // namespace hearth::kernels::cuda
