// A library with the entries of NVML that card_sensors.cc asks for, and one card at 0000:01:00.0.
// The environment says what it refuses: HEARTH_FAKE_NVML=quiet answers no reading, and with
// HEARTH_FAKE_NVML=container the process ids are those of another namespace. What other processes
// use of the card is the number in the file HEARTH_FAKE_NVML_FOREIGN, where there is one.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_mode(const char* wanted) {
  const char* mode = std::getenv("HEARTH_FAKE_NVML");
  return mode != nullptr && std::strcmp(mode, wanted) == 0;
}
bool quiet() { return is_mode("quiet"); }

unsigned long long foreign_compute() {
  const char* name = std::getenv("HEARTH_FAKE_NVML_FOREIGN");
  std::FILE* file = name == nullptr ? nullptr : std::fopen(name, "r");
  unsigned long long bytes = 1'000'000'000;
  if (file == nullptr) return bytes;
  if (std::fscanf(file, "%llu", &bytes) != 1) bytes = 0;
  std::fclose(file);
  return bytes;
}

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
int card = 0;

struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned instances[2];
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  *device = &card;
  return std::strcmp(bus_id, "0000:01:00.0") == 0 ? 0 : kNotFound;
}
int nvmlDeviceGetTemperature(void*, unsigned sensor, unsigned* celsius) {
  *celsius = 61;
  return quiet() || sensor != 0 ? kNotSupported : 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 310'400;
  return quiet() ? kNotSupported : 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 97;
  rates[1] = 40;
  return quiet() ? kNotSupported : 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 24'000'000'000;
  memory[1] = 3'900'000'000;
  memory[2] = 20'100'000'000;
  return quiet() ? kNotSupported : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  const auto own = static_cast<unsigned>(getpid());
  processes[0] = {is_mode("container") ? own + 100'000'000 : own, 18'000'000'000, {}};
  processes[1] = {1, foreign_compute(), {}};
  *count = 2;
  return quiet() ? kNotSupported : 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  processes[0] = {1, 200'000'000, {}};
  *count = 1;
  return quiet() ? kNotSupported : 0;
}
}
