// The values of --device: the CPU, or a GPU of this machine.
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

// "auto" or "auto:N": that NVIDIA GPU if this build has CUDA code, and the driver and the GPU
// answer; otherwise the CPU; "cpu"; "cuda", "cuda:N", "opencl" or "opencl:N". N as
// kernels/cuda/runtime.h counts.
struct DeviceChoice {
  enum class Kind : std::uint8_t { kAuto, kCpu, kCuda, kOpencl };
  Kind kind = Kind::kAuto;
  std::uint32_t index = 0;
};
Result<DeviceChoice> parse_device(const std::string& text);
CLI::Validator device_text();
// Those that "auto" may take: 0 where there is no driver, or no CUDA code in this build; also, with
// a warning on stderr, where the driver does not work, for example because it is too old.
std::uint32_t cards_here();
// The devices of this many local workers. With "auto", each gets "auto:N" while there are GPUs, and
// the others get the CPU. Any other choice applies to all.
std::vector<std::string> worker_devices(const std::string& choice, std::uint32_t workers,
                                        std::uint32_t cards);
// Checks a choice of "cuda" or "opencl", whose failure no new process would repair: kUnavailable if
// the driver has no such GPU, kUnsupported if this build has no code for it, or for any GPU.
Status check_device_choice(const std::string& choice);
// The least memory of a model that one process runs whole.
node::EngineOptions whole_model(const model::ModelSpec& spec);
// Null: the processor. `least`: the memory that the GPU must have. With "auto", if the GPU is
// smaller or cannot compute this model, the CPU computes, with a warning on stderr. `say` gets
// sentences for the log. A GPU is returned only after it has passed the self-test for the model's
// family and types. Errors: those of check_device_choice; kNoCapacity with the figures of `least`;
// kUnavailable if the driver has no such GPU; kNumeric if it gives wrong answers. A GPU that fails
// later, or does not answer, ends the process with kExitDevice.
Result<std::unique_ptr<node::Device>> open_device(const std::string& choice,
                                                  const model::GgufFile& file,
                                                  const model::ModelSpec& spec,
                                                  const node::EngineOptions& least,
                                                  std::function<void(std::string_view)> say);
// The same without the self-test, for callers that compare the GPU's results themselves.
Result<std::unique_ptr<node::Device>> open_unasked_device(
    const std::string& choice, std::function<void(std::string_view)> say);

}  // namespace hearth::cli
