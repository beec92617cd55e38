#include "tests/emulated/emulated_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/lost_card.h"
#include "tests/emulated/emulator.h"
#include "tests/emulated/pinned_copies.h"
#include "tests/emulated/stream_order.h"

namespace {

using hearth::emulated::Clock;
using hearth::emulated::Fault;
using hearth::emulated::Stamp;
using Copied = hearth::emulated::PinnedCopies::Bytes;

enum class Pinned { kNone, kToDevice, kToHost };

struct Operation {
  std::function<void(const Copied& pinned)> run;
  CUevent_st* waits = nullptr;  // not before this event has been passed so often
  std::uint64_t passed = 0;
  Pinned pinned = Pinned::kNone;  // what it does to pinned memory, and where
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  Stamp stamp{};  // these two once it is queued
  Copied copied{};
};

}  // namespace

struct CUevent_st {
  std::uint64_t recorded = 0;  // times asked for
  std::uint64_t passed = 0;    // of them, those whose stream has come by
  Clock clock{};               // what the latest stands behind
};

struct CUgraphExec_st {
  std::vector<Operation> operations;
  std::uint64_t bytes = 0;
};

struct CUstream_st {
  unsigned number = 0;
  std::deque<Operation> queue;
  bool capturing = false;
  std::vector<Operation> captured;
};

namespace hearth::emulated {
namespace {

// The card and what is queued on it.
struct Card {
  std::uint32_t count = 1;
  std::string driver_fault;
  std::uint64_t memory = std::uint64_t{2} << 30;
  std::atomic<std::uint64_t> used{0};
  std::uint64_t foreign = 0;
  std::uint32_t major = 9;
  std::uint32_t minor = 0;
  std::uint64_t pinned = 0;
  std::uint64_t calls = 0;
  std::uint64_t calls_when_lost = 0;
  std::uint64_t allocations = 0;
  std::uint64_t graph_memory = 0;
  std::uint64_t graphs_made = 0;
  std::uint64_t graphs_launched = 0;
  Fail fail = Fail::kNothing;
  std::atomic<bool> fails_soon{false};
  std::atomic<bool> flips_soon{false};
  std::uint64_t operations_left = 0;
  std::function<void()> hang;
  bool lost = false;
  std::vector<void*> left;  // streams, events, graphs and memory of a lost card
  bool held = false;
  std::vector<CUstream_st*> streams;
  StreamOrder order;
  PinnedCopies copies;
  bool freed_early = false;  // pinned memory
  struct Allocation {
    std::size_t bytes = 0;
    std::vector<std::byte*> parts;
  };
  std::map<std::byte*, Allocation> allocated;
  std::byte* newest = nullptr;
  std::map<std::byte*, std::size_t> pinned_memory;
};

Card& card() {
  static Card one;
  return one;
}

bool can_run(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const Operation& next = stream.queue.front();
  return next.waits == nullptr || next.waits->passed >= next.passed;
}

// One operation of some stream; false when none can run.
bool run_one() {
  if (card().held) return false;
  std::vector<CUstream_st*> able;
  for (CUstream_st* stream : card().streams) {
    if (can_run(*stream)) able.push_back(stream);
  }
  if (able.empty()) return false;
  CUstream_st* stream = able[draw(able.size())];
  const Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  set_operation(operation.stamp);
  if (operation.run) operation.run(operation.copied);
  return true;
}

template <typename Done>
void run_until(Done done) {
  while (!done()) {
    if (!run_one()) throw Fault("the host waits for what no stream will ever do");
  }
}

Error lost_error() {
  return {ErrorCode::kIo, "the emulated card: an illegal memory access was encountered"};
}

// Counts the call, and meets with what the test has asked for.
Status reach() {
  Card& c = card();
  ++c.calls;
  if (c.fails_soon.exchange(false)) fail_after(Fail::kSticky, 0);
  if (c.flips_soon.exchange(false)) flip_bit(c.newest);
  if (c.lost) return lost_error();
  if (std::exchange(c.freed_early, false)) {
    throw Fault("pinned memory was freed before the host waited for its copies");
  }
  if (c.fail == Fail::kNothing || c.fail == Fail::kOutOfMemory) return ok_status();
  if (c.operations_left > 0) {
    --c.operations_left;
    return ok_status();
  }
  if (c.fail == Fail::kHang) {
    c.fail = Fail::kNothing;
    c.hang();
  }
  c.lost = true;
  c.calls_when_lost = c.calls;
  return lost_error();
}

// As runtime.cu does with every call.
Status meet() {
  TRY_VOID(kernels::cuda::LostCard::status());
  return kernels::cuda::LostCard::heard(reach());
}

std::uint64_t memory_free() {
  const Card& c = card();
  return c.memory - std::min(c.memory, c.used + c.foreign);
}

// Whether the allocation that asks is the one that Fail::kOutOfMemory is for.
bool runs_out() {
  Card& c = card();
  if (c.fail != Fail::kOutOfMemory) return false;
  if (c.operations_left-- > 0) return false;
  c.fail = Fail::kNothing;
  return true;
}

// Whether something may be given back; counts the call. What is left to a lost card stays where a
// leak checker finds it.
bool may_free(void* data) {
  if (kernels::cuda::LostCard::lost()) {
    card().left.push_back(data);
    return false;
  }
  ++card().calls;
  return true;
}

void host_waits(const Clock& clock) {
  card().order.host_waits(clock);
  card().copies.host_waited(card().order.host());
}

void stamp(Operation& operation, unsigned stream) {
  operation.stamp = card().order.queue(stream);
  PinnedCopies& copies = card().copies;
  if (operation.pinned == Pinned::kToDevice) {
    operation.copied = copies.to_device(operation.stamp, operation.at, operation.bytes);
  } else if (operation.pinned == Pinned::kToHost) {
    operation.copied = copies.to_host(operation.stamp, operation.at, operation.bytes);
  }
}

// Work on the null stream runs at once, and the host waits for it.
void queue(CUstream_st* stream, Operation operation) {
  if (stream == nullptr) {
    stamp(operation, 0);
    set_operation(operation.stamp);
    if (operation.run) operation.run(operation.copied);
    return host_waits(operation.stamp.clock);
  }
  if (stream->capturing) {
    stream->captured.push_back(std::move(operation));
    return;
  }
  stamp(operation, stream->number);
  stream->queue.push_back(std::move(operation));
  for (std::uint64_t n = draw(4); n > 1; --n) run_one();
}

// Freeing memory waits for everything that is queued, as CUDA's does.
void run_all() {
  try {
    while (run_one()) {
    }
  } catch (const Fault&) {  // the waiter for that stream has been told
  }
}

void check_pinned(const void* at, std::size_t bytes) {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(at));
  auto found = card().pinned_memory.upper_bound(begin);
  if (found == card().pinned_memory.begin()) throw Fault("a copy with memory that is not pinned");
  --found;
  if (begin + bytes > found->first + found->second) {
    throw Fault("a copy with memory that is not pinned");
  }
}

}  // namespace

void set_count(std::uint32_t cards) { card().count = cards; }
void set_driver_fault(std::string words) { card().driver_fault = std::move(words); }
void set_memory(std::uint64_t bytes) { card().memory = bytes; }
void set_foreign_memory(std::uint64_t bytes) { card().foreign = bytes; }
void set_capability(std::uint32_t major, std::uint32_t minor) {
  card().major = major;
  card().minor = minor;
}
std::uint64_t memory_used() { return card().used; }
std::uint64_t pinned_used() { return card().pinned; }
std::uint64_t runtime_calls() { return card().calls; }
std::uint64_t calls_since_lost() { return card().lost ? card().calls - card().calls_when_lost : 0; }
std::uint64_t allocations() { return card().allocations; }
void set_graph_memory(std::uint64_t bytes) { card().graph_memory = bytes; }
std::uint64_t graphs_made() { return card().graphs_made; }
std::uint64_t graphs_launched() { return card().graphs_launched; }

void fail_after(Fail fail, std::uint64_t operations, std::function<void()> hang) {
  card().fail = fail;
  card().operations_left = operations;
  card().hang = std::move(hang);
  card().lost = false;
  card().freed_early = false;
  kernels::cuda::LostCard::forget();
}

void forget_lost() {
  Card& c = card();
  for (const CUstream_st* stream : c.streams) c.order.close(stream->number);
  c.streams.clear();
  for (const auto& [data, allocation] : c.allocated) {
    for (std::byte* part : allocation.parts) remove_memory(part);
    ::operator delete[](data, std::align_val_t{256});
  }
  for (const auto& [data, bytes] : c.pinned_memory) {
    c.copies.forget(data, bytes);
    delete[] data;
  }
  c.allocated.clear();
  c.pinned_memory.clear();
  c.used = c.pinned = 0;
  fail_after(Fail::kNothing, 0);
}

void hold(bool held) { card().held = held; }
void fail_soon() { card().fails_soon = true; }
void flip_bit_soon() { card().flips_soon = true; }

const std::byte* newest_memory() { return card().newest; }
void flip_bit(const std::byte* at) { *const_cast<std::byte*>(at) ^= std::byte{4}; }

// A launch that the host's side of a kernel asks for.
const char* submit(CUstream_st* stream, std::function<void()> run) {
  if (stream != nullptr && !meet()) return "an illegal memory access was encountered";
  queue(stream, {[run = std::move(run)](const Copied&) { run(); }});
  return nullptr;
}

}  // namespace hearth::emulated

namespace hearth::kernels::cuda {

using emulated::card;
using emulated::may_free;
using emulated::meet;
using emulated::queue;

Result<std::uint32_t> device_count() {
  TRY_VOID(meet());
  if (!card().driver_fault.empty()) return Error{ErrorCode::kUnavailable, card().driver_fault};
  return card().count;
}

Result<DeviceInfo> device_info(std::uint32_t device) {
  TRY_VOID(meet());
  const std::uint32_t count = card().count;
  if (device >= count) {
    return Error{ErrorCode::kUnavailable,
                 "of emulated cards there are " + std::to_string(count) + " here"};
  }
  const std::string bus = "0000:0" + std::to_string(device + 1) + ":00.0";
  return DeviceInfo{"emulated card",   bus,          card().major, card().minor,
                    multiprocessors(), card().memory};
}

std::string_view device_kind() { return "cuda"; }

std::vector<std::uint32_t> architectures() { return {75, 80, 86, 89, 90, 120}; }

Status use_device(std::uint32_t device) {
  const auto known = device_info(device);
  return known.ok() ? ok_status() : Status(known.error());
}

std::uint32_t multiprocessors() { return 1; }

Result<MemoryInfo> memory_info() {
  TRY_VOID(meet());
  return MemoryInfo{emulated::memory_free(), card().memory};
}

void DeviceMemory::Free::operator()(std::byte* data) const {
  if (!may_free(data)) return;
  emulated::run_all();
  const auto found = card().allocated.find(data);
  for (std::byte* part : found->second.parts) emulated::remove_memory(part);
  card().used -= found->second.bytes;
  card().allocated.erase(found);
  ::operator delete[](data, std::align_val_t{256});
}

Result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes) {
  TRY_VOID(meet());
  ++card().allocations;
  if (emulated::runs_out() || bytes > emulated::memory_free()) {
    return Error{ErrorCode::kNoCapacity, "the emulated card: out of memory"};
  }
  DeviceMemory memory;
  memory.data_.reset(new (std::align_val_t{256}) std::byte[bytes]);
  std::memset(memory.data_.get(), 0xA5, bytes);
  memory.bytes_ = bytes;
  card().used += bytes;
  card().allocated[memory.data_.get()] = {bytes, {}};
  card().newest = memory.data_.get();
  return Result<DeviceMemory>(std::move(memory));
}

std::byte* DeviceMemory::part(std::size_t offset, std::size_t bytes) {
  std::byte* begin = data_.get() + offset;
  if (offset % 256 != 0 || offset + bytes > bytes_) {
    throw emulated::Fault("a part that is not within its memory");
  }
  emulated::add_memory(begin, bytes, false, true);
  card().allocated.at(data_.get()).parts.push_back(begin);
  return begin;
}

void PinnedMemory::Free::operator()(std::byte* data) const {
  if (!may_free(data)) return;
  emulated::run_all();
  const std::size_t bytes = card().pinned_memory.at(data);
  if (card().copies.forget(data, bytes)) card().freed_early = true;
  card().pinned -= bytes;
  card().pinned_memory.erase(data);
  delete[] data;
}

Result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  TRY_VOID(meet());
  ++card().allocations;
  if (emulated::runs_out()) {
    return Error{ErrorCode::kNoCapacity, "pinned memory beside the emulated card: out of memory"};
  }
  PinnedMemory memory;
  memory.data_.reset(new std::byte[bytes]());
  memory.bytes_ = bytes;
  card().pinned += bytes;
  card().pinned_memory[memory.data_.get()] = bytes;
  return Result<PinnedMemory>(std::move(memory));
}

void CloseStream::operator()(Stream stream) const {
  if (!may_free(stream)) return;
  std::erase(card().streams, stream);
  card().order.close(stream->number);
  delete stream;
}
void CloseEvent::operator()(Event event) const {
  if (!may_free(event)) return;
  delete event;
}
void CloseGraph::operator()(Graph graph) const {
  if (!may_free(graph)) return;
  card().used -= graph->bytes;
  delete graph;
}

Result<OwnedStream> make_stream() {
  TRY_VOID(meet());
  OwnedStream stream(new CUstream_st);
  stream->number = card().order.open();
  card().streams.push_back(stream.get());
  return Result<OwnedStream>(std::move(stream));
}

Result<OwnedEvent> make_event() {
  TRY_VOID(meet());
  return OwnedEvent(new CUevent_st);
}

Status copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
  TRY_VOID(meet());
  emulated::check_pinned(from, bytes);
  Operation copy{[=](const Copied& pinned) {
    emulated::copy_writes(to, bytes);
    std::memcpy(to, pinned->data(), bytes);
  }};
  copy.pinned = Pinned::kToDevice;
  copy.at = static_cast<std::byte*>(const_cast<void*>(from));
  copy.bytes = bytes;
  queue(stream, std::move(copy));
  return ok_status();
}

Status copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
  TRY_VOID(meet());
  emulated::check_pinned(to, bytes);
  Operation copy{[=](const Copied& pinned) {
    emulated::copy_reads(from, bytes);
    std::memcpy(pinned->data(), from, bytes);
  }};
  copy.pinned = Pinned::kToHost;
  copy.at = static_cast<std::byte*>(to);
  copy.bytes = bytes;
  queue(stream, std::move(copy));
  return ok_status();
}

Status fill_zero(void* to, std::size_t bytes, Stream stream) {
  TRY_VOID(meet());
  queue(stream, {[=](const Copied&) {
          emulated::clear_writes(to, bytes);
          std::memset(to, 0, bytes);
        }});
  return ok_status();
}

Status record(Event event, Stream stream) {
  TRY_VOID(meet());
  ++event->recorded;
  event->clock = card().order.behind(stream->number);
  queue(stream, {[event](const Copied&) { ++event->passed; }});
  return ok_status();
}

Status wait(Stream stream, Event event) {
  TRY_VOID(meet());
  card().order.stream_waits(stream->number, event->clock);
  queue(stream, {{}, event, event->recorded});
  return ok_status();
}

// The streams go on while the host asks.
Result<bool> passed(Event event) {
  TRY_VOID(meet());
  emulated::run_one();
  return event->passed >= event->recorded;
}

Status synchronize(Event event) {
  TRY_VOID(meet());
  emulated::run_until([=, until = event->recorded] { return event->passed >= until; });
  emulated::host_waits(event->clock);
  return ok_status();
}

Status synchronize(Stream stream) {
  TRY_VOID(meet());
  emulated::run_until([=] { return stream->queue.empty(); });
  emulated::host_waits(card().order.behind(stream->number));
  return ok_status();
}

Status begin_capture(Stream stream) {
  TRY_VOID(meet());
  stream->capturing = true;
  return ok_status();
}

Result<OwnedGraph> end_capture(Stream stream) {
  stream->capturing = false;
  std::vector<Operation> captured = std::exchange(stream->captured, {});
  TRY_VOID(meet());
  OwnedGraph graph(new CUgraphExec_st{std::move(captured)});
  if (card().graph_memory > emulated::memory_free()) {
    return Error{ErrorCode::kNoCapacity, "the emulated card: out of memory"};
  }
  graph->bytes = card().graph_memory;
  card().used += graph->bytes;
  ++card().graphs_made;
  return Result<OwnedGraph>(std::move(graph));
}

Status launch(Graph graph, Stream stream) {
  TRY_VOID(meet());
  ++card().graphs_launched;
  for (const Operation& operation : graph->operations) queue(stream, operation);
  return ok_status();
}

}  // namespace hearth::kernels::cuda
