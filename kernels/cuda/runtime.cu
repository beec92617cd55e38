#include <cuda_runtime.h>

#include "kernels/cuda/runtime.h"

namespace hearth::kernels::cuda {
namespace {

Error error_of(const char* what, cudaError_t error) {
  ErrorCode code = ErrorCode::kIo;
  if (error == cudaErrorMemoryAllocation) code = ErrorCode::kNoCapacity;
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ||
      error == cudaErrorInvalidDevice || error == cudaErrorSystemNotReady ||
      error == cudaErrorInitializationError) {
    code = ErrorCode::kUnavailable;
  }
  return {code, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                    cudaGetErrorName(error) + ")"};
}

Status done(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return ok_status();
  cudaGetLastError();  // an error that is not sticky is told once
  return error_of(what, error);
}

}  // namespace

Result<std::uint32_t> device_count() {
  int count = 0;
  TRY_VOID(done("looking for cards", cudaGetDeviceCount(&count)));
  return static_cast<std::uint32_t>(count);
}

Result<DeviceInfo> device_info(std::uint32_t device) {
  cudaDeviceProp properties{};
  TRY_VOID(
      done("a card's properties", cudaGetDeviceProperties(&properties, static_cast<int>(device))));
  char bus_id[32] = {};
  TRY_VOID(done("a card's place on the bus",
                cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, static_cast<int>(device))));
  DeviceInfo info;
  info.name = properties.name;
  info.bus_id = bus_id;
  info.major = static_cast<std::uint32_t>(properties.major);
  info.minor = static_cast<std::uint32_t>(properties.minor);
  info.multiprocessors = static_cast<std::uint32_t>(properties.multiProcessorCount);
  info.memory_bytes = properties.totalGlobalMem;
  return info;
}

Status use_device(std::uint32_t device) {
  return done("choosing a card", cudaSetDevice(static_cast<int>(device)));
}

Result<MemoryInfo> memory_info() {
  std::size_t free = 0;
  std::size_t total = 0;
  TRY_VOID(done("asking for the card's memory", cudaMemGetInfo(&free, &total)));
  return MemoryInfo{free, total};
}

void DeviceMemory::Free::operator()(std::byte* data) const { cudaFree(data); }

Result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes) {
  DeviceMemory memory;
  void* data = nullptr;
  TRY_VOID(done("taking the card's memory", cudaMalloc(&data, bytes)));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.bytes_ = bytes;
  return Result<DeviceMemory>(std::move(memory));
}

std::byte* DeviceMemory::part(std::size_t offset, std::size_t) { return data_.get() + offset; }

void PinnedMemory::Free::operator()(std::byte* data) const { cudaFreeHost(data); }

Result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  PinnedMemory memory;
  void* data = nullptr;
  TRY_VOID(done("taking pinned memory", cudaMallocHost(&data, bytes)));
  memory.data_.reset(static_cast<std::byte*>(data));
  memory.bytes_ = bytes;
  return Result<PinnedMemory>(std::move(memory));
}

void CloseStream::operator()(Stream stream) const { cudaStreamDestroy(stream); }
void CloseEvent::operator()(Event event) const { cudaEventDestroy(event); }
void CloseGraph::operator()(Graph graph) const { cudaGraphExecDestroy(graph); }

Result<OwnedStream> make_stream() {
  cudaStream_t stream = nullptr;
  TRY_VOID(done("a stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  return OwnedStream(stream);
}

Result<OwnedEvent> make_event() {
  cudaEvent_t event = nullptr;
  TRY_VOID(done("an event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
  return OwnedEvent(event);
}

Status copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
  return done("a copy to the card",
              cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

Status copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
  return done("a copy from the card",
              cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
}

Status fill_zero(void* to, std::size_t bytes, Stream stream) {
  return done("clearing the card's memory", cudaMemsetAsync(to, 0, bytes, stream));
}

Status record(Event event, Stream stream) {
  return done("an event on a stream", cudaEventRecord(event, stream));
}

Status wait(Stream stream, Event event) {
  return done("a stream that waits", cudaStreamWaitEvent(stream, event, 0));
}

Result<bool> passed(Event event) {
  const cudaError_t answer = cudaEventQuery(event);
  if (answer != cudaErrorNotReady) TRY_VOID(done("asking the card", answer));
  cudaGetLastError();  // the runtime keeps "not ready" like an error
  return answer == cudaSuccess;
}

Status synchronize(Event event) {
  return done("waiting for the card", cudaEventSynchronize(event));
}

Status synchronize(Stream stream) {
  return done("waiting for the card", cudaStreamSynchronize(stream));
}

Status begin_capture(Stream stream) {
  return done("beginning a graph",
              cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

Result<OwnedGraph> end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  TRY_VOID(done("ending a graph", cudaStreamEndCapture(stream, &graph)));
  cudaGraphExec_t made = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  TRY_VOID(done("making a graph", error));
  return OwnedGraph(made);
}

Status launch(Graph graph, Stream stream) {
  return done("starting a graph", cudaGraphLaunch(graph, stream));
}

}  // namespace hearth::kernels::cuda
