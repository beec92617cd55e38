// What a card says of itself and of whom it serves, through NVML, which is looked for at run time:
// nothing is linked, and a machine without it has no readings.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "proto/card_reading.h"

namespace hearth::node {

class CardSensors {
 public:
  // `bus_id`: of PCI, as kernels::cuda::DeviceInfo has it. kUnavailable where the library, one of
  // its functions or the card is not there.
  static Result<std::unique_ptr<CardSensors>> open(
      const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  virtual ~CardSensors() = default;
  // From one thread at a time; some milliseconds on a card that sleeps.
  virtual CardReading read() const = 0;
};

// Reads every two seconds on a thread of its own, for a card that sleeps answers late.
class CardWatch {
 public:
  explicit CardWatch(std::unique_ptr<CardSensors> sensors,
                     std::chrono::milliseconds every = std::chrono::seconds(2));
  ~CardWatch();
  CardWatch(const CardWatch&) = delete;
  CardWatch& operator=(const CardWatch&) = delete;
  CardReading latest() const;  // from any thread

 private:
  void watch(std::chrono::milliseconds every);

  const std::unique_ptr<CardSensors> sensors_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CardReading latest_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace hearth::node
