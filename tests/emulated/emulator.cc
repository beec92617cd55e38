#include "tests/emulated/emulator.h"

#include <sys/mman.h>

#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "tests/emulated/fiber.h"

namespace hearth::emulated {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

struct Region {
  std::size_t bytes;
  std::unique_ptr<Shadow> shadow;
  std::unique_ptr<StreamShadow> streams;
};

// An array, and a place in it.
struct Found {
  Region& region;
  std::size_t at;
};

struct Copy {
  std::byte* to;
  std::array<std::byte, 16> bytes;
};

enum class State { kReady, kBarrier, kExchange, kDone };

struct Thread {
  State state = State::kReady;
  bool waited = false;  // for the kernel before
  Where where;
  std::vector<std::vector<Copy>> groups;  // committed and not waited for, oldest first
  std::vector<Copy> open;                 // not committed yet
};

struct Warp {
  unsigned arrived = 0;
  unsigned parity = 0;
  std::uint32_t meetings = 0;
  const char* operation = nullptr;
  Where where;
  WarpWords words[2];
};

std::string place(Where where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

bool same_place(Where a, Where b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

// The device, and the block that runs on it. Threads are fibers of the host thread.
class Device {
 public:
  void seed(std::uint64_t seed) { random_.seed(seed); }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::uint64_t launches() const { return launch_serial_; }
  void run(const Launch& launch, const std::function<void()>& kernel);

  void sync_threads(Where where) { wait(State::kBarrier, where); }
  const WarpWords& exchange(const char* operation, const LaneWords& mine, bool orders, Where where);
  void check(const void* address, std::size_t bytes, std::size_t alignment, Access access,
             Where where);
  void check_update(const void* address, std::size_t bytes, Update kind, const void* value,
                    Where where);
  void look(const void* address, std::size_t bytes, Update kind);
  void fence() { order_.fence(thread_, barriers_); }
  void wait_for_previous_kernel() { threads_[thread_].waited = true; }
  void check_waited(Where where);
  void copy_async(void* to, const void* from, Where where);
  void copy_commit();
  void copy_wait(unsigned groups_left, Where where);
  void* shared(std::size_t bytes, Where where);
  [[noreturn]] void fault(const std::string& what, Where where);
  Found find_for_copy(const void* address, std::size_t bytes);
  void copy_touches(const Found& found, std::size_t bytes, bool writes);
  void set_operation(const Stamp& stamp) { operation_ = stamp; }

  unsigned thread() const { return thread_; }
  unsigned block() const { return block_; }
  const Launch& launch() const { return launch_; }
  std::map<std::uintptr_t, Region>& regions() { return regions_; }

 private:
  static void enter();
  void run_kernel();
  void run_block();
  void run_thread(unsigned index);
  void wait(State state, Where where);
  void finish_block_barrier();
  [[noreturn]] void stuck();
  // Where a thread may touch, in the order of streams too.
  Shadow& find(const void* address, std::size_t bytes, Access access, const char* what, Where where,
               std::size_t& at);
  Moment now() const;
  void check_alignment(const void* address, std::size_t alignment, Where where);
  void arrived(Copy& copy, Where where);

  std::mt19937_64 random_{1};
  std::map<std::uintptr_t, Region> regions_;
  std::uint32_t launch_serial_ = 0;
  Stamp operation_;
  Launch launch_;
  const std::function<void()>* kernel_ = nullptr;
  unsigned block_ = 0;
  unsigned thread_ = 0;
  bool running_ = false;
  std::uint32_t barriers_ = 0;
  BlockOrder order_;
  unsigned waiting_ = 0;  // at the block's barrier
  unsigned done_ = 0;
  std::vector<Thread> threads_;
  // One a thread of a block. Who has come to the end of its kernel rests and takes the next one;
  // who was left in the middle of one that failed begins anew.
  std::array<Fiber, kThreadsMost> fibers_;
  std::array<bool, kThreadsMost> rests_{};
  std::vector<Warp> warps_;
  std::vector<unsigned> ready_;
  std::exception_ptr failure_;
  Fiber scheduler_;
  std::byte* stacks_ = nullptr;
  alignas(256) std::byte shared_[kSharedMost];
  std::unique_ptr<Shadow> shared_shadow_;
};

Device& device() {
  static Device one;
  return one;
}

void Device::run(const Launch& launch, const std::function<void()>& kernel) {
  if (running_) throw Fault("a kernel launches a kernel");
  if (launch.threads == 0 || launch.threads > kThreadsMost || launch.threads % kWarp != 0) {
    throw Fault("a launch of " + std::to_string(launch.threads) + " threads a block");
  }
  if (launch.shared_bytes > kSharedMost) {
    throw Fault("a launch with " + std::to_string(launch.shared_bytes) + " bytes of shared memory");
  }
  if (launch.blocks_x == 0 || launch.blocks_y == 0 || launch.blocks_y > 65535) {
    throw Fault("a launch of an empty or too large grid");
  }
  if (stacks_ == nullptr) {
    void* memory = ::mmap(nullptr, kStackBytes * kThreadsMost, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Fault("no memory for the stacks");
    stacks_ = static_cast<std::byte*>(memory);
  }
  launch_ = launch;
  kernel_ = &kernel;
  ++launch_serial_;
  order_.begin_launch();
  std::vector<unsigned> order(std::size_t{launch.blocks_x} * launch.blocks_y);
  for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random_);
  running_ = true;
  for (const unsigned block : order) {
    block_ = block;
    run_block();
    if (failure_) break;
  }
  running_ = false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Device::run_block() {
  threads_ = std::vector<Thread>(launch_.threads);
  warps_ = std::vector<Warp>(launch_.threads / kWarp);
  ready_.clear();
  barriers_ = waiting_ = done_ = 0;
  order_.begin_block(block_ + 1, launch_.threads);
  shared_shadow_ = std::make_unique<Shadow>(launch_.shared_bytes, false, true);
  std::memset(shared_, 0xA5, launch_.shared_bytes);
  for (unsigned i = 0; i < launch_.threads; ++i) {
    if (!rests_[i]) fibers_[i].begin(stacks_ + i * kStackBytes, kStackBytes, &Device::enter);
    rests_[i] = false;
    ready_.push_back(i);
  }
  try {
    while (done_ < launch_.threads) {
      if (ready_.empty()) stuck();
      const std::size_t pick = random_() % ready_.size();
      const unsigned index = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      run_thread(index);
      if (failure_) return;
    }
  } catch (const Fault&) {
    failure_ = std::current_exception();
  }
}

void Device::run_thread(unsigned index) {
  thread_ = index;
  scheduler_.change(fibers_[index]);
  if (failure_) return;
  if (threads_[index].state == State::kDone) {
    ++done_;
  } else if (threads_[index].state == State::kBarrier) {
    if (++waiting_ == launch_.threads) finish_block_barrier();
  } else if (warps_[index / kWarp].arrived == 0) {  // it was the last lane of its warp
    const unsigned first = index / kWarp * kWarp;
    for (unsigned i = first; i < first + kWarp; ++i) {
      threads_[i].state = State::kReady;
      ready_.push_back(i);
    }
  }
}

// Where a fiber begins. An exception must not leave it.
void Device::enter() {
  for (Device& self = device();;) {
    self.run_kernel();
    self.rests_[self.thread_] = true;
    self.fibers_[self.thread_].change(self.scheduler_);
  }
}

void Device::run_kernel() {
  try {
    (*kernel_)();
    const Thread& thread = threads_[thread_];
    if (!thread.open.empty() || !thread.groups.empty()) {
      fault("ends before its asynchronous copies have arrived", Where{});
    }
    if (launch_.early && !thread.waited)
      fault("ends without waiting for the kernel before", Where{});
  } catch (...) {
    failure_ = std::current_exception();
  }
  threads_[thread_].state = State::kDone;
}

void Device::check_waited(Where where) {
  if (!launch_.early || threads_[thread_].waited) return;
  fault("touches global memory without waiting for the kernel before", where);
}

void Device::wait(State state, Where where) {
  Thread& thread = threads_[thread_];
  thread.state = state;
  thread.where = where;
  const unsigned index = thread_;
  fibers_[index].change(scheduler_);
  thread_ = index;
}

void Device::finish_block_barrier() {
  ++barriers_;
  order_.barrier();
  waiting_ = 0;
  for (unsigned i = 1; i < launch_.threads; ++i) {
    if (!same_place(threads_[i].where, threads_[0].where)) {
      thread_ = i;
      fault("waits at another barrier than thread 0, which is at " + place(threads_[0].where),
            threads_[i].where);
    }
  }
  for (unsigned i = 0; i < launch_.threads; ++i) {
    threads_[i].state = State::kReady;
    ready_.push_back(i);
  }
}

// No thread can go on: names one that waits and one that it waits for.
void Device::stuck() {
  unsigned waits = 0;
  while (threads_[waits].state == State::kDone) ++waits;
  const unsigned warp = waits / kWarp;
  const bool barrier = threads_[waits].state == State::kBarrier;
  std::string others;
  const unsigned first = barrier ? 0 : warp * kWarp;
  const unsigned last = barrier ? launch_.threads : first + kWarp;
  for (unsigned i = first; i < last && others.empty(); ++i) {
    if (threads_[i].state == threads_[waits].state) continue;
    others = "thread " + std::to_string(i) +
             (threads_[i].state == State::kDone ? " has ended"
                                                : " waits at " + place(threads_[i].where));
  }
  thread_ = waits;
  fault("waits forever: " + others, threads_[waits].where);
}

void Device::fault(const std::string& what, Where where) {
  throw Fault("block (" + std::to_string(block_ % launch_.blocks_x) + ", " +
              std::to_string(block_ / launch_.blocks_x) + ") thread " + std::to_string(thread_) +
              " " + what + ", " + place(where));
}

Moment Device::now() const {
  const unsigned warp = thread_ / kWarp;
  return {launch_serial_,
          block_ + 1,
          barriers_,
          warps_[warp].meetings,
          order_.fences(thread_),
          static_cast<std::uint16_t>(thread_),
          &order_};
}

const WarpWords& Device::exchange(const char* operation, const LaneWords& mine, bool orders,
                                  Where where) {
  Warp& warp = warps_[thread_ / kWarp];
  const unsigned parity = warp.parity;
  if (warp.arrived == 0) {
    warp.operation = operation;
    warp.where = where;
  } else if (std::strcmp(warp.operation, operation) != 0 || !same_place(warp.where, where)) {
    fault(std::string("does ") + operation + " while its warp does " + warp.operation + " at " +
              place(warp.where),
          where);
  }
  warp.words[parity][thread_ % kWarp] = mine;
  if (++warp.arrived == kWarp) {
    warp.arrived = 0;
    warp.parity ^= 1U;
    if (orders) ++warp.meetings;
  }
  wait(State::kExchange, where);
  return warp.words[parity];
}

std::string beyond(std::size_t bytes) { return std::to_string(bytes) + " bytes beyond the end"; }

std::string unordered(bool writes, std::uint32_t other) {
  return std::string(writes ? "writes" : "reads") + " what an operation of stream " +
         std::to_string(stream_of(other)) + " touches, and nothing orders the two";
}

Shadow& Device::find(const void* address, std::size_t bytes, Access access, const char* what,
                     Where where, std::size_t& at) {
  const auto place_of = reinterpret_cast<std::uintptr_t>(address);
  const auto shared = reinterpret_cast<std::uintptr_t>(&shared_[0]);
  if (place_of >= shared && place_of < shared + kSharedMost) {
    at = place_of - shared;
    if (at + bytes > shared_shadow_->size()) {
      fault(std::string(what) + " beyond the shared memory of the launch", where);
    }
    return *shared_shadow_;
  }
  auto region = regions_.upper_bound(place_of);
  if (region == regions_.begin()) fault(std::string(what) + " outside all memory", where);
  --region;
  at = place_of - region->first;
  if (at + bytes > region->second.bytes) {
    fault(std::string(what) + " " + beyond(at + bytes - region->second.bytes) + " of its memory",
          where);
  }
  const bool writes = access == Access::kWrite;
  if (const auto other = region->second.streams->touch(at, bytes, writes, operation_)) {
    fault(unordered(writes, other), where);
  }
  return *region->second.shadow;
}

Found Device::find_for_copy(const void* address, std::size_t bytes) {
  if (running_) throw Fault("a copy inside a kernel");
  const auto place_of = reinterpret_cast<std::uintptr_t>(address);
  auto region = regions_.upper_bound(place_of);
  if (region == regions_.begin()) throw Fault("a copy outside all memory");
  --region;
  const std::size_t at = place_of - region->first;
  if (at + bytes > region->second.bytes) {
    throw Fault("a copy " + beyond(at + bytes - region->second.bytes) + " of its memory");
  }
  return {region->second, at};
}

void Device::copy_touches(const Found& found, std::size_t bytes, bool writes) {
  const auto other = found.region.streams->touch(found.at, bytes, writes, operation_);
  if (other == 0) return;
  throw Fault("a copy or clearing of stream " + std::to_string(stream_of(operation_.id)) + " " +
              unordered(writes, other));
}

void Device::check_alignment(const void* address, std::size_t alignment, Where where) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    fault("touches an address that is not aligned to " + std::to_string(alignment), where);
  }
}

void Device::check(const void* address, std::size_t bytes, std::size_t alignment, Access access,
                   Where where) {
  if (!running_) throw Fault("device memory is touched outside a kernel, " + place(where));
  const bool reads = access == Access::kRead;
  std::size_t at = 0;
  Shadow& shadow = find(address, bytes, access, reads ? "reads" : "writes", where, at);
  check_alignment(address, alignment, where);
  const char* wrong = reads ? shadow.read(at, bytes, now()) : shadow.write(at, bytes, now());
  if (wrong != nullptr) fault(wrong, where);
}

void Device::check_update(const void* address, std::size_t bytes, Update kind, const void* value,
                          Where where) {
  if (!running_) throw Fault("device memory is touched outside a kernel, " + place(where));
  std::size_t at = 0;
  Shadow& shadow = find(address, bytes, Access::kWrite, "updates", where, at);
  check_alignment(address, bytes, where);
  const bool changes = std::memcmp(address, value, bytes) != 0;
  if (const char* wrong = shadow.update(at, bytes, kind, changes, now(), order_)) {
    fault(wrong, where);
  }
}

void Device::look(const void* address, std::size_t bytes, Update kind) {
  std::size_t at = 0;
  find(address, bytes, Access::kWrite, "updates", Where{}, at).look(at, bytes, now());
  if (kind == Update::kAdd) order_.ticket(reinterpret_cast<std::uintptr_t>(address), thread_);
}

void Device::copy_async(void* to, const void* from, Where where) {
  check(from, 16, 16, Access::kRead, where);
  std::size_t at = 0;
  Shadow& shadow = find(to, 16, Access::kWrite, "copies", where, at);
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0) {
    fault("copies to an address that is not aligned to 16", where);
  }
  if (const char* wrong = shadow.announce(at, 16, now())) fault(wrong, where);
  Copy copy{static_cast<std::byte*>(to), {}};
  std::memcpy(copy.bytes.data(), from, 16);
  threads_[thread_].open.push_back(copy);
}

void Device::copy_commit() {
  Thread& thread = threads_[thread_];
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void Device::copy_wait(unsigned groups_left, Where where) {
  Thread& thread = threads_[thread_];
  while (thread.groups.size() > groups_left) {
    for (Copy& copy : thread.groups.front()) arrived(copy, where);
    thread.groups.erase(thread.groups.begin());
  }
}

void Device::arrived(Copy& copy, Where where) {
  std::size_t at = 0;
  Shadow& shadow = find(copy.to, 16, Access::kWrite, "copies", where, at);
  shadow.arrive(at, 16, now());
  std::memcpy(copy.to, copy.bytes.data(), 16);
}

void* Device::shared(std::size_t bytes, Where where) {
  if (bytes > launch_.shared_bytes) {
    fault("asks for " + std::to_string(bytes) + " bytes of shared memory, the launch gives " +
              std::to_string(launch_.shared_bytes),
          where);
  }
  return &shared_[0];
}

}  // namespace

void set_seed(std::uint64_t seed) { device().seed(seed); }
void run(const Launch& launch, const std::function<void()>& kernel) {
  device().run(launch, kernel);
}
std::uint64_t draw(std::uint64_t below) { return device().draw(below); }
std::uint64_t launches() { return device().launches(); }

void wait_for_previous_kernel() { device().wait_for_previous_kernel(); }
void check_waited(Where where) { device().check_waited(where); }
unsigned thread_index() { return device().thread(); }
unsigned block_index_x() { return device().block() % device().launch().blocks_x; }
unsigned block_index_y() { return device().block() / device().launch().blocks_x; }
const Launch& current_launch() { return device().launch(); }

void* shared_memory(std::size_t bytes, Where where) { return device().shared(bytes, where); }
void sync_threads(Where where) { device().sync_threads(where); }
const WarpWords& exchange(const char* operation, const LaneWords& mine, Where where) {
  return device().exchange(operation, mine, false, where);
}
void sync_warp(Where where) { device().exchange("sync_warp", {}, true, where); }
void check(const void* address, std::size_t bytes, std::size_t alignment, Access access,
           Where where) {
  device().check(address, bytes, alignment, access, where);
}
void check_update(const void* address, std::size_t bytes, Update kind, const void* value,
                  Where where) {
  device().check_update(address, bytes, kind, value, where);
}
void look(const void* address, std::size_t bytes, Update kind) {
  device().look(address, bytes, kind);
}
void fence() { device().fence(); }
void outside_array(std::size_t index, std::size_t count, Where where) {
  device().fault(
      "touches element " + std::to_string(index) + " of an array of " + std::to_string(count),
      where);
}
void copy_async(void* to, const void* from, Where where) { device().copy_async(to, from, where); }
void copy_commit() { device().copy_commit(); }
void copy_wait(unsigned groups_left, Where where) { device().copy_wait(groups_left, where); }

void set_operation(const Stamp& stamp) { device().set_operation(stamp); }
void add_memory(const void* begin, std::size_t bytes, bool written, bool writable) {
  device().regions()[reinterpret_cast<std::uintptr_t>(begin)] = {
      bytes, std::make_unique<Shadow>(bytes, written, writable),
      std::make_unique<StreamShadow>(bytes)};
}
void remove_memory(const void* begin) {
  device().regions().erase(reinterpret_cast<std::uintptr_t>(begin));
}
void copy_writes(const void* begin, std::size_t bytes) {
  const Found found = device().find_for_copy(begin, bytes);
  device().copy_touches(found, bytes, true);
  found.region.shadow->fill(found.at, bytes);
}
void clear_writes(const void* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  auto& regions = device().regions();
  for (auto at = regions.lower_bound(first); at != regions.end() && at->first < first + bytes;
       ++at) {
    copy_writes(reinterpret_cast<const void*>(at->first),
                std::min(at->second.bytes, first + bytes - at->first));
  }
}
void copy_reads(const void* begin, std::size_t bytes) {
  const Found found = device().find_for_copy(begin, bytes);
  device().copy_touches(found, bytes, false);
  if (!found.region.shadow->filled(found.at, bytes)) {
    throw Fault("a copy reads what no thread has written");
  }
}

}  // namespace hearth::emulated
