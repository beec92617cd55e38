// Device: an accelerator that runs a stage in place of the processor's cores. It outlives its
// engines.
//
// Threads: one stage is loaded, stepped and freed by one thread at a time; stages on threads of
// their own may share a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"
#include "node/engine/stage_forward.h"
#include "node/engine/stage_memory.h"

namespace hearth::node {

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;     // "cuda:0 NVIDIA GeForce RTX 4090"
  virtual const std::string& bus_id() const = 0;   // of PCI: for node/machine/card_sensors.h
  virtual bool emulates() const { return false; }  // it computes nothing: node/emulation
  // The device memory of a stage, to the byte, once its KV pages are chosen. Checks the same as
  // node::stage_memory.
  virtual Result<StageMemory> memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                     const EngineOptions& options) const = 0;
  // The device memory that stages may take.
  virtual Result<std::uint64_t> budget() const = 0;
  // kNoCapacity, with every figure, where the budget does not hold the stage and one sequence.
  virtual Status check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                              const EngineOptions& options) const = 0;
  // Bytes of packed weights a second in a product with one row of activations, for placement.
  virtual Result<double> measure_weight_rate() const = 0;
  // Errors as in check_memory().
  virtual Result<std::unique_ptr<StageForward>> load(const model::GgufFile& file,
                                                     const model::ModelSpec& spec,
                                                     const EngineOptions& options) = 0;
};

// How many layers of a model the device's memory holds, wherever the range begins; 0: not even one.
// The other options are as for a stage.
Result<std::uint32_t> layers_within(const Device& device, const model::GgufFile& file,
                                    const model::ModelSpec& spec, EngineOptions options);

// Shapes without weights are for emulated devices, and models for devices that compute (null: the
// processor). kInvalidInput for a shape on the one or a model on the other.
Status check_emulation(const model::ModelSpec& spec, const Device* device);

// The part of models of the family with so many experts that GPUs cannot compute, as text after
// "with"; empty when a GPU computes them. Builds without CUDA have the table too.
std::string_view what_no_card_computes(const model::FamilyTraits& family, std::uint32_t experts);
// Whether a GPU multiplies weights of the type.
bool card_computes(kernels::WeightType type);

}  // namespace hearth::node
