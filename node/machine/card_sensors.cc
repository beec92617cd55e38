#include "node/machine/card_sensors.h"

#include <unistd.h>

#include <array>

#include "node/machine/shared_library.h"

namespace hearth::node {
namespace {

// NVML's own types and numbers, as its documentation gives them; its header is not needed to build.
using NvmlDevice = void*;
constexpr int kSuccess = 0;
constexpr unsigned kTemperatureOfChip = 0;
constexpr unsigned long long kNotAvailable = ~0ULL;
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlUtilization {
  unsigned gpu;
  unsigned memory;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
using ProcessesOf = int (*)(NvmlDevice, unsigned* count, NvmlProcess*);

struct Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*temperature)(NvmlDevice, unsigned sensor, unsigned* celsius) = nullptr;
  int (*power)(NvmlDevice, unsigned* milliwatts) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  ProcessesOf compute_processes = nullptr;
  ProcessesOf graphics_processes = nullptr;
};

Result<Functions> functions_of(const SharedLibrary& library) {
  Functions f;
  const auto find = [&](const char* name, auto& function) {
    return find_function(library, "NVML", name, function);
  };
  TRY_VOID(find("nvmlInit_v2", f.init));
  TRY_VOID(find("nvmlShutdown", f.shutdown));
  TRY_VOID(find("nvmlDeviceGetHandleByPciBusId_v2", f.by_bus_id));
  TRY_VOID(find("nvmlDeviceGetTemperature", f.temperature));
  TRY_VOID(find("nvmlDeviceGetPowerUsage", f.power));
  TRY_VOID(find("nvmlDeviceGetUtilizationRates", f.utilization));
  TRY_VOID(find("nvmlDeviceGetMemoryInfo", f.memory));
  TRY_VOID(find("nvmlDeviceGetComputeRunningProcesses_v3", f.compute_processes));
  TRY_VOID(find("nvmlDeviceGetGraphicsRunningProcesses_v3", f.graphics_processes));
  return f;
}

class Nvml final : public CardSensors {
 public:
  Nvml(SharedLibrary library, const Functions& functions, NvmlDevice device)
      : library_(std::move(library)), nvml_(functions), device_(device) {}
  ~Nvml() override { nvml_.shutdown(); }

  CardReading read() const override {
    CardReading reading;
    unsigned value = 0;
    if (nvml_.temperature(device_, kTemperatureOfChip, &value) == kSuccess) reading.celsius = value;
    if (nvml_.power(device_, &value) == kSuccess) reading.watts = value / 1000.0;
    NvmlUtilization rates{};
    if (nvml_.utilization(device_, &rates) == kSuccess) reading.busy_percent = rates.gpu;
    NvmlMemory memory{};
    if (nvml_.memory(device_, &memory) == kSuccess) reading.memory_used = memory.used;
    const auto compute = users(nvml_.compute_processes);
    const auto graphics = users(nvml_.graphics_processes);
    // In a container most drivers give the process ids of the machine. This process, which holds a
    // context on the GPU, then seems to be missing, and its memory looks like that of another.
    if (compute && graphics && compute->own) {
      reading.foreign_memory = compute->foreign + graphics->foreign;
    }
    return reading;
  }

 private:
  struct Users {
    bool own = false;           // this process is among them
    std::uint64_t foreign = 0;  // bytes of the others
  };
  std::optional<Users> users(ProcessesOf processes_of) const {
    std::array<NvmlProcess, 128> processes{};
    auto count = static_cast<unsigned>(processes.size());
    if (processes_of(device_, &count, processes.data()) != kSuccess) return std::nullopt;
    Users all;
    for (unsigned i = 0; i < count && i < processes.size(); ++i) {
      if (processes[i].pid == static_cast<unsigned>(getpid())) {
        all.own = true;
        continue;
      }
      if (processes[i].used_memory == kNotAvailable) return std::nullopt;
      all.foreign += processes[i].used_memory;
    }
    return all;
  }

  const SharedLibrary library_;
  const Functions nvml_;
  const NvmlDevice device_;
};

}  // namespace

Result<std::unique_ptr<CardSensors>> CardSensors::open(const std::string& bus_id,
                                                       const std::string& name) {
  SharedLibrary library = open_library(name);
  if (library == nullptr) {
    return Error::of(ErrorCode::kUnavailable, "cannot load NVML: ", dlerror());
  }
  TRY(const Functions nvml, functions_of(library));
  if (const int error = nvml.init(); error != kSuccess) {
    return Error::of(ErrorCode::kUnavailable, "NVML cannot start: error ", error);
  }
  NvmlDevice device = nullptr;
  if (const int error = nvml.by_bus_id(bus_id.c_str(), &device); error != kSuccess) {
    nvml.shutdown();
    return Error::of(ErrorCode::kUnavailable, "NVML knows no GPU at ", bus_id, ": error ", error);
  }
  return std::unique_ptr<CardSensors>(std::make_unique<Nvml>(std::move(library), nvml, device));
}

CardWatch::CardWatch(std::unique_ptr<CardSensors> sensors, std::chrono::milliseconds every)
    : sensors_(std::move(sensors)), latest_(sensors_->read()) {
  worker_.post([this, every] { watch(every); });
}

CardReading CardWatch::latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

void CardWatch::watch(std::chrono::milliseconds every) {
  while (worker_.sleep_for(every)) {
    const CardReading reading = sensors_->read();
    const MutexLock lock(mutex_);
    latest_ = reading;
  }
}

}  // namespace hearth::node
