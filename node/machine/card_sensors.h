// Readings of a GPU and of the processes that use it, through NVML. NVML is opened at run time and
// not linked; a machine without it has no readings.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/worker_thread.h"
#include "proto/card_reading.h"

namespace hearth::node {

class CardSensors {
 public:
  // `bus_id`: of PCI, as kernels::cuda::DeviceInfo has it. kUnavailable where the library, one of
  // its functions or the card is not there.
  static Result<std::unique_ptr<CardSensors>> open(
      const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  virtual ~CardSensors() = default;
  // From one thread at a time; takes some milliseconds on a sleeping GPU.
  virtual CardReading read() const = 0;
};

// Reads every 2 s on its own thread, because a sleeping GPU answers late.
class CardWatch {
 public:
  explicit CardWatch(std::unique_ptr<CardSensors> sensors,
                     std::chrono::milliseconds every = std::chrono::seconds(2));
  CardReading latest() const;  // from any thread

 private:
  void watch(std::chrono::milliseconds every);

  const std::unique_ptr<CardSensors> sensors_;
  mutable Mutex mutex_;
  CardReading latest_ GUARDED_BY(mutex_);
  WorkerThread worker_{{.max_cost = 1}};  // last: it uses the above
};

}  // namespace hearth::node
