// What --device names: the processor, or an NVIDIA card of this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"

namespace hearth::cli {

// "auto": the first card where this build runs on cards and a driver answers, else the processor;
// "cpu"; "cuda" or "cuda:N", N among the cards that CUDA_VISIBLE_DEVICES leaves.
struct DeviceChoice {
  enum class Kind : std::uint8_t { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  std::uint32_t index = 0;
};
Result<DeviceChoice> parse_device(const std::string& text);
CLI::Validator device_text();

// 0 where there is no driver, or no device code in this build.
std::uint32_t cards_here();

// The choices of so many local workers: a card each with "auto", as long as there are cards, and
// the processor for the others; else the choice itself for all.
std::vector<std::string> worker_devices(const std::string& choice, std::uint32_t workers,
                                        std::uint32_t cards);

// kUnsupported where a card is asked for and this build has no device code.
Status check_device_choice(const std::string& choice);

// Null: the processor. `say` gets sentences for the log. A card has answered the known questions
// for the model's family and types before it is given out. Errors of check_device_choice;
// kUnavailable where the driver has no such card, kNumeric where it gives other answers. A card
// that fails later, or does not answer, ends the process with kExitDevice.
Result<std::unique_ptr<node::Device>> open_device(const std::string& choice,
                                                  const model::GgufFile& file,
                                                  const model::ModelSpec& spec,
                                                  std::function<void(std::string_view)> say);

// The same, but nobody has asked the card anything: for those who compare what it answers.
Result<std::unique_ptr<node::Device>> open_unasked_device(
    const std::string& choice, std::function<void(std::string_view)> say);

}  // namespace hearth::cli
