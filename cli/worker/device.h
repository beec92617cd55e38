// The values of --device: the CPU, or an NVIDIA GPU of this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/device.h"

namespace hearth::cli {

// "auto" or "auto:N": that card where this build runs on cards, a driver answers and the card does,
// else the CPU; "cpu"; "cuda" or "cuda:N". N among the cards that CUDA_VISIBLE_DEVICES leaves.
struct DeviceChoice {
  enum class Kind : std::uint8_t { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  std::uint32_t index = 0;
};
Result<DeviceChoice> parse_device(const std::string& text);
CLI::Validator device_text();
// 0 where there is no driver, or no device code in this build.
std::uint32_t cards_here();
// The choices of so many local workers: "auto:N" each with "auto", as long as there are cards, and
// the processor for the others; else the choice itself for all.
std::vector<std::string> worker_devices(const std::string& choice, std::uint32_t workers,
                                        std::uint32_t cards);
// Of "cuda", which leaves no choice, so that no new process would help: kUnavailable where the
// driver has no such card, kUnsupported where this build has no code for it, or for any.
Status check_device_choice(const std::string& choice);
// The least memory of a model that one process runs whole.
node::EngineOptions whole_model(const model::ModelSpec& spec);
// Null: the processor. `least`: what the card must hold; with "auto" a smaller card, and one that
// this build has no code for, leaves the work to the processor and says so on stderr. `say` gets
// sentences for the log. A card has answered the known questions for the model's family and types
// before it is given out. Errors of check_device_choice; kNoCapacity with the figures of `least`,
// kUnavailable where the driver has no such card, kNumeric where it gives other answers. A card
// that fails later, or does not answer, ends the process with kExitDevice.
Result<std::unique_ptr<node::Device>> open_device(const std::string& choice,
                                                  const model::GgufFile& file,
                                                  const model::ModelSpec& spec,
                                                  const node::EngineOptions& least,
                                                  std::function<void(std::string_view)> say);
// The same without the self-test, for callers that compare the GPU's results themselves.
Result<std::unique_ptr<node::Device>> open_unasked_device(
    const std::string& choice, std::function<void(std::string_view)> say);

}  // namespace hearth::cli
