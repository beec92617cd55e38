// kernels/cuda/runtime.h over OpenCL. Device memory is shared virtual memory, so that kernels find
// addresses in their arguments; pinned memory is any memory of the host. A graph is a list of what
// was queued.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "kernels/cuda/lost_card.h"
#include "kernels/cuda/runtime.h"
#include "kernels/opencl/opencl_context.h"

namespace {

using Operation = std::function<hearth::Status(cl_command_queue)>;

}  // namespace

struct CUevent_st {
  cl_event event = nullptr;  // null: never recorded
};

struct CUgraphExec_st {
  std::vector<Operation> operations;
};

struct CUstream_st {
  hearth::kernels::cuda::opencl::Context* context = nullptr;
  cl_command_queue queue = nullptr;
  bool capturing = false;
  std::vector<Operation> captured;
};

namespace hearth::kernels::cuda {
namespace {

using opencl::api;
using opencl::Context;

thread_local Context* chosen = nullptr;

Result<Context*> context() {
  TRY_VOID(LostCard::status());
  if (chosen == nullptr) {
    TRY(chosen, Context::of(0));
  }
  return chosen;
}

Status answer(const char* what, cl_int error) {
  if (error == CL_SUCCESS) return ok_status();
  return LostCard::heard(opencl::error_of(what, error));
}

// Runs on the stream, or is recorded by it. On the null stream, the host waits.
Status queue(Stream stream, Operation operation) {
  TRY_VOID(LostCard::status());
  if (stream == nullptr) {
    TRY(Context* const here, context());
    TRY_VOID(LostCard::heard(operation(here->queue())));
    return answer("waiting for the device", api()->clFinish(here->queue()));
  }
  if (stream->capturing) {
    stream->captured.push_back(std::move(operation));
    return ok_status();
  }
  return LostCard::heard(operation(stream->queue));
}

Status copy(void* to, const void* from, std::size_t bytes, Stream stream, const char* what) {
  if (bytes == 0) return ok_status();
  return queue(stream, [=](cl_command_queue queue) {
    return answer(what,
                  api()->clEnqueueSVMMemcpy(queue, CL_FALSE, to, from, bytes, 0, nullptr, nullptr));
  });
}

// 0: done; negative: an error of what it stands behind.
Result<cl_int> status_of(cl_event event) {
  cl_int status = 0;
  TRY_VOID(
      answer("asking for an event", api()->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                          sizeof status, &status, nullptr)));
  if (status < 0) TRY_VOID(answer("the work before an event", status));
  return status;
}

}  // namespace

Result<std::uint32_t> device_count() {
  TRY_VOID(LostCard::status());
  return static_cast<std::uint32_t>(opencl::devices().size());
}

Result<DeviceInfo> device_info(std::uint32_t device) {
  TRY_VOID(LostCard::status());
  TRY(const Context* const context, Context::of(device));
  const unsigned language = opencl::language_of(context->device());
  DeviceInfo info;
  info.name = opencl::text_of(context->device(), CL_DEVICE_NAME);
  info.major = language / 100;
  info.minor = language / 10 % 10;
  info.multiprocessors = opencl::number_of<cl_uint>(context->device(), CL_DEVICE_MAX_COMPUTE_UNITS);
  info.memory_bytes = context->memory();
  return info;
}

std::string_view device_kind() { return "opencl"; }

// The versions of OpenCL C for which programs are built.
std::vector<std::uint32_t> architectures() { return {12, 20, 30}; }

Status use_device(std::uint32_t device) {
  TRY_VOID(LostCard::status());
  TRY(chosen, Context::of(device));
  return ok_status();
}

std::uint32_t multiprocessors() {
  const auto here = context();
  if (!here.ok()) return 0;
  return opencl::number_of<cl_uint>((*here)->device(), CL_DEVICE_MAX_COMPUTE_UNITS);
}

// OpenCL does not tell what other programs take.
Result<MemoryInfo> memory_info() {
  TRY(const Context* const here, context());
  const std::uint64_t total = here->memory();
  const std::uint64_t used = here->used();
  return MemoryInfo{total - std::min(total, used), total};
}

void DeviceMemory::Free::operator()(std::byte* data) const {
  const auto here = context();
  if (here.ok()) (*here)->release(data);
}

Result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes) {
  TRY(Context* const here, context());
  DeviceMemory memory;
  memory.data_.reset(here->allocate(bytes));
  memory.bytes_ = bytes;
  if (memory.data_ == nullptr) {
    const auto most = opencl::number_of<cl_ulong>(here->device(), CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    return Error::of(ErrorCode::kNoCapacity, "OpenCL has no ", bytes,
                     " bytes of memory in one piece; its limit is ", most);
  }
  return Result<DeviceMemory>(std::move(memory));
}

std::byte* DeviceMemory::part(std::size_t offset, std::size_t) { return data_.get() + offset; }

void PinnedMemory::Free::operator()(std::byte* data) const {
  if (!LostCard::lost()) std::free(data);
}

Result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  TRY_VOID(LostCard::status());
  PinnedMemory memory;
  memory.data_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  memory.bytes_ = bytes;
  if (memory.data_ == nullptr) {
    return Error::of(ErrorCode::kNoCapacity, "no ", bytes, " bytes of memory of the host");
  }
  return Result<PinnedMemory>(std::move(memory));
}

void CloseStream::operator()(Stream stream) const {
  if (LostCard::lost()) return;
  stream->context->release_queue(stream->queue);
  delete stream;
}
void CloseEvent::operator()(Event event) const {
  if (LostCard::lost()) return;
  if (event->event != nullptr) api()->clReleaseEvent(event->event);
  delete event;
}
void CloseGraph::operator()(Graph graph) const {
  if (!LostCard::lost()) delete graph;
}

Result<OwnedStream> make_stream() {
  TRY(Context* const here, context());
  OwnedStream stream(new CUstream_st);
  stream->context = here;
  const auto queue = here->make_queue();
  if (!queue.ok()) {
    delete stream.release();
    return queue.error();
  }
  stream->queue = *queue;
  return Result<OwnedStream>(std::move(stream));
}

Result<OwnedEvent> make_event() {
  TRY_VOID(LostCard::status());
  return OwnedEvent(new CUevent_st);
}

Status copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
  return copy(to, from, bytes, stream, "a copy to the device");
}

Status copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
  return copy(to, from, bytes, stream, "a copy from the device");
}

Status fill_zero(void* to, std::size_t bytes, Stream stream) {
  if (bytes == 0) return ok_status();
  return queue(stream, [=](cl_command_queue queue) {
    constexpr std::byte zero{0};
    return answer(
        "clearing the device's memory",
        api()->clEnqueueSVMMemFill(queue, to, &zero, sizeof zero, bytes, 0, nullptr, nullptr));
  });
}

Status record(Event event, Stream stream) {
  return queue(stream, [=](cl_command_queue queue) -> Status {
    cl_event made = nullptr;
    TRY_VOID(answer("an event on a queue",
                    api()->clEnqueueMarkerWithWaitList(queue, 0, nullptr, &made)));
    if (event->event != nullptr) api()->clReleaseEvent(event->event);
    event->event = made;
    return answer("starting a queue", api()->clFlush(queue));
  });
}

Status wait(Stream stream, Event event) {
  return queue(stream, [=](cl_command_queue queue) {
    if (event->event == nullptr) return ok_status();
    return answer("a queue that waits",
                  api()->clEnqueueBarrierWithWaitList(queue, 1, &event->event, nullptr));
  });
}

Result<bool> passed(Event event) {
  TRY_VOID(LostCard::status());
  if (event->event == nullptr) return true;
  TRY(const cl_int status, status_of(event->event));
  return status == CL_COMPLETE;
}

Status synchronize(Event event) {
  TRY_VOID(LostCard::status());
  if (event->event == nullptr) return ok_status();
  TRY_VOID(answer("waiting for the device", api()->clWaitForEvents(1, &event->event)));
  TRY_VOID(status_of(event->event));
  return ok_status();
}

Status synchronize(Stream stream) {
  TRY_VOID(LostCard::status());
  if (stream == nullptr) {
    TRY(Context* const here, context());
    return answer("waiting for the device", api()->clFinish(here->queue()));
  }
  return answer("waiting for the device", api()->clFinish(stream->queue));
}

Status begin_capture(Stream stream) {
  TRY_VOID(LostCard::status());
  stream->capturing = true;
  return ok_status();
}

Result<OwnedGraph> end_capture(Stream stream) {
  stream->capturing = false;
  std::vector<Operation> captured = std::exchange(stream->captured, {});
  TRY_VOID(LostCard::status());
  return OwnedGraph(new CUgraphExec_st{std::move(captured)});
}

Status launch(Graph graph, Stream stream) {
  for (const Operation& operation : graph->operations) TRY_VOID(queue(stream, operation));
  return ok_status();
}

namespace opencl {
namespace {

// The launch under way on this thread.
struct Pending {
  Call call;
  Stream stream = nullptr;
  std::string error;
};
thread_local Pending pending;

}  // namespace

void begin_launch(const Launch& launch, Stream stream) {
  pending.call = {};
  pending.call.launch = launch;
  pending.stream = stream;
}

const char* end_launch() {
  const auto here = context();
  Status status = ok_status();
  if (!here.ok()) {
    status = here.error();
  } else {
    Context* const device = pending.stream == nullptr ? *here : pending.stream->context;
    status =
        queue(pending.stream, [device, call = std::move(pending.call)](cl_command_queue queue) {
          return device->run(call, queue);
        });
  }
  if (status.ok()) return nullptr;
  pending.error = status.error().message;
  return pending.error.c_str();
}

}  // namespace opencl
}  // namespace hearth::kernels::cuda

extern "C" void hearth_opencl_kernel(const char* name, const char* text, std::uint32_t slots) {
  auto& call = hearth::kernels::cuda::opencl::pending.call;
  call.name = name;
  call.text = text;
  call.slots = slots;
}

extern "C" void hearth_opencl_argument(const void* value, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(value);
  hearth::kernels::cuda::opencl::pending.call.arguments.emplace_back(begin, begin + bytes);
}
