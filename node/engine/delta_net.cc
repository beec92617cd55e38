#include "node/engine/delta_net.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::node {
namespace {

constexpr std::uint64_t kDeltaProducts = 65'536;  // worth a claim: some microseconds

std::size_t padded_state(const model::ModelSpec& spec) {
  constexpr std::size_t kLine = AlignedBuffer<float>::kAlignment / sizeof(float);
  return (spec.state_values() + kLine - 1) / kLine * kLine;
}

std::uint32_t layers_with_state(const model::ModelSpec& spec, LayerRange range) {
  std::uint32_t count = 0;
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) count += spec.is_delta(layer);
  return count;
}

std::uint64_t quantised(std::uint64_t width) { return width + 3 * 4 * width / kernels::kBlock; }

void mark_failed(const DeltaNet::Step& step, std::uint32_t row) {
  step.failed[row].store(true, std::memory_order_relaxed);
}

}  // namespace

DeltaNet::DeltaNet(const model::ModelSpec& spec, LayerRange range,
                   const std::vector<LayerWeights>& layers, const kernels::Kernels& kernels,
                   const Loops& loops, std::uint32_t batch_rows, std::uint32_t states)
    : spec_(spec),
      shape_(spec.delta->shape),
      layers_(layers),
      kernels_(kernels),
      loops_(loops),
      state_values_(padded_state(spec)),
      pool_(states) {
  INVARIANT(layers.size() == range.size() && states != 0, "a stage has states for its layers");
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) {
    places_.push_back(layers_with_);
    if (spec.is_delta(layer)) ++layers_with_;
  }
  INVARIANT(layers_with_ == layers_with_state(spec, range), "states are counted alike");
  states_ = AlignedBuffer<float>(std::size_t{states} * layers_with_ * state_values_);
  const std::size_t rows = batch_rows;
  const std::size_t heads = shape_.value_heads;
  if (spec.delta->joint_input) {
    input_ = AlignedBuffer<float>(rows * (shape_.channels() + shape_.inner()));
  }
  mixed_ = AlignedBuffer<float>(rows * shape_.channels());
  heads_ = AlignedBuffer<float>(rows * shape_.channels());
  gate_ = AlignedBuffer<float>(rows * shape_.inner());
  beta_ = AlignedBuffer<float>(rows * 2 * heads);
  alpha_ = AlignedBuffer<float>(rows * heads);
  numbers_ = AlignedBuffer<kernels::DeltaNumbers>(rows * heads);
  out_ = AlignedBuffer<float>(rows * shape_.inner());
  quant_ = QuantBuffer(batch_rows, shape_.inner());
  runs_.reserve(rows);
  run_of_.reserve(rows);
}

std::uint64_t DeltaNet::state_bytes(const model::ModelSpec& spec, LayerRange range) {
  return std::uint64_t{layers_with_state(spec, range)} * padded_state(spec) * sizeof(float);
}

std::uint64_t DeltaNet::row_bytes(const model::ModelSpec& spec) {
  const kernels::DeltaShape& shape = spec.delta->shape;
  std::uint64_t values = 2ULL * shape.channels() + 2ULL * shape.inner() + 5ULL * shape.value_heads;
  if (spec.delta->joint_input) values += shape.channels() + shape.inner();
  return 4 * values + quantised(shape.inner()) + sizeof(Run) + sizeof(std::uint32_t);
}

ByteSpan DeltaNet::state(std::uint32_t state, std::uint32_t index) const {
  INVARIANT(state < pool_.states() && index < places_.size(), "the state and the layer are there");
  return {reinterpret_cast<const std::byte*>(state_of(state, index)),
          spec_.state_values() * sizeof(float)};
}

std::uint32_t DeltaNet::key_head(std::uint32_t value_head) const {
  if (spec_.family->tiled_heads) return value_head % shape_.key_heads;
  return value_head / (shape_.value_heads / shape_.key_heads);
}

// Rows of a sequence stand together, and no other sequence has its state.
void DeltaNet::find_runs(const Step& step) {
  runs_.clear();
  run_of_.clear();
  for (std::uint32_t row = 0; row < step.rows.size(); ++row) {
    INVARIANT(step.rows[row].state < pool_.states(), "a row's sequence has a state");
    if (row == 0 || step.rows[row].state != step.rows[row - 1].state) {
      runs_.push_back({row, row});
    } else {
      INVARIANT(step.rows[row].position == step.rows[row - 1].position + 1,
                "positions of a sequence follow each other");
    }
    runs_.back().end = row + 1;
    run_of_.push_back(static_cast<std::uint32_t>(runs_.size() - 1));
  }
}

void DeltaNet::project(const Step& step, std::uint32_t index) {
  const LayerWeights& weights = layers_[index];
  const Loops::Product numbers{&weights.delta_beta, beta_.data()};
  const Loops::Product alpha{&weights.delta_alpha, alpha_.data()};
  if (spec_.delta->joint_input) {
    loops_.multiply(step.residual, {{&weights.delta_input, input_.data()}, numbers, alpha});
  } else {
    loops_.multiply(step.residual, {{&weights.delta_input, mixed_.data()},
                                    {&weights.delta_gate, gate_.data()},
                                    numbers,
                                    alpha});
  }
}

// Of each key head in turn: a query, a key, its values and their gates.
void DeltaNet::split_input(std::uint32_t row) {
  const std::uint32_t channels = shape_.channels();
  const std::uint32_t keys = shape_.key_heads * shape_.head;
  const std::uint32_t values = shape_.inner() / shape_.key_heads;
  const float* from = input_.data() + std::size_t{row} * (channels + shape_.inner());
  float* mixed = mixed_.data() + std::size_t{row} * channels;
  float* gate = gate_.data() + std::size_t{row} * shape_.inner();
  for (std::uint32_t h = 0; h < shape_.key_heads; ++h) {
    std::copy_n(from, shape_.head, mixed + h * shape_.head);
    from += shape_.head;
    std::copy_n(from, shape_.head, mixed + keys + h * shape_.head);
    from += shape_.head;
    std::copy_n(from, values, mixed + 2 * keys + h * values);
    from += values;
    std::copy_n(from, values, gate + h * values);
    from += values;
  }
}

void DeltaNet::sort_row(const Step& step, std::uint32_t row, std::uint32_t index) {
  const LayerWeights& weights = layers_[index];
  if (spec_.delta->joint_input) split_input(row);
  const float* mixed = mixed_.data() + std::size_t{row} * shape_.channels();
  if (!kernels::is_delta_row(shape_, mixed)) mark_failed(step, row);
  const std::uint32_t heads = shape_.value_heads;
  const std::uint32_t each = heads / shape_.key_heads;
  const bool joint = spec_.family->joint_numbers;
  const float* betas = beta_.data() + std::size_t{row} * (joint ? 2 * heads : heads);
  const float* alphas = alpha_.data() + std::size_t{row} * heads;
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::size_t at = std::size_t{h} / each * 2 * each + h % each;
    const float beta = joint ? betas[at] : betas[h];
    const float alpha = joint ? betas[at + each] : alphas[h];
    const float t = alpha + weights.delta_bias[h];
    kernels::DeltaNumbers& out = numbers_.data()[std::size_t{row} * heads + h];
    if (!kernels::delta_numbers(weights.delta_decay[h], beta, t, out)) mark_failed(step, row);
  }
}

// The rows that the convolution reads are of this step, or those that the state holds.
void DeltaNet::convolve(const Step& step, std::uint32_t row, std::uint32_t index) {
  const std::uint32_t channels = shape_.channels();
  const std::uint32_t before = shape_.taps - 1;
  const Run& run = runs_[run_of_[row]];
  const float* history = state_of(step.rows[row].state, index);
  std::array<const float*, limits::kModelTaps> rows{};
  for (std::uint32_t j = 0; j < shape_.taps; ++j) {
    const std::uint32_t back = before - j;  // positions before this one
    if (back > step.rows[row].position) continue;
    const bool here = back <= row - run.begin;
    rows[j] = here ? mixed_.data() + std::size_t{row - back} * channels
                   : history + std::size_t{before - (back - (row - run.begin))} * channels;
  }
  float* heads = heads_.data() + std::size_t{row} * channels;
  if (!kernels::short_convolution(shape_, rows.data(), layers_[index].delta_taps.data(), heads)) {
    mark_failed(step, row);
  }
  kernels_.silu(heads, channels);
  const float factor = 1.0F / std::sqrt(static_cast<float>(shape_.head));
  for (std::uint32_t h = 0; h < 2 * shape_.key_heads; ++h) {
    float* head = heads + std::size_t{h} * shape_.head;
    const float scale = h < shape_.key_heads ? factor : 1.0F;
    if (!kernels::bounded_length(head, shape_.head, spec_.rms_epsilon, scale, head)) {
      mark_failed(step, row);
    }
  }
}

// Behind the convolutions of all rows, which read what is replaced here.
void DeltaNet::keep_rows(const Step& step, const Run& run, std::uint32_t index) {
  const std::uint32_t channels = shape_.channels();
  const std::uint32_t before = shape_.taps - 1;
  const std::uint32_t count = run.end - run.begin;
  const bool begins = step.rows[run.begin].position == 0;
  float* history = state_of(step.rows[run.begin].state, index);
  for (std::uint32_t i = 0; i < before; ++i) {  // ascending: a row moves to an earlier place
    float* to = history + std::size_t{i} * channels;
    if (i + count >= before) {
      const std::size_t row = run.end - (before - i);
      std::copy_n(mixed_.data() + row * channels, channels, to);
    } else if (begins) {
      std::fill_n(to, channels, 0.0F);
    } else {
      std::copy_n(history + std::size_t{i + count} * channels, channels, to);
    }
  }
}

void DeltaNet::go_on(const Step& step, const Run& run, std::uint32_t head, std::uint32_t index) {
  const std::uint32_t n = shape_.head;
  const std::uint32_t channels = shape_.channels();
  const std::size_t keys = std::size_t{shape_.key_heads} * n;
  const std::size_t matrix = std::size_t{n} * n;
  float* state = state_of(step.rows[run.begin].state, index) + shape_.history() + head * matrix;
  if (step.rows[run.begin].position == 0) std::fill_n(state, matrix, 0.0F);
  for (std::uint32_t row = run.begin; row < run.end; ++row) {
    const float* heads = heads_.data() + std::size_t{row} * channels;
    const float* query = heads + std::size_t{key_head(head)} * n;
    kernels::DeltaStep one;
    one.query = query;
    one.key = query + keys;
    one.value = heads + 2 * keys + std::size_t{head} * n;
    one.numbers = numbers_.data()[std::size_t{row} * shape_.value_heads + head];
    one.state = state;
    one.out = out_.data() + std::size_t{row} * shape_.inner() + std::size_t{head} * n;
    kernels_.delta_step(n, one);
  }
}

void DeltaNet::close_row(const Step& step, std::uint32_t row, std::uint32_t index) {
  const std::size_t at = std::size_t{row} * shape_.inner();
  float* out = out_.data() + at;
  for (std::uint32_t h = 0; h < shape_.value_heads; ++h) {
    float* head = out + std::size_t{h} * shape_.head;
    if (!kernels_.rms_norm(head, layers_[index].delta_norm.data(), spec_.rms_epsilon, shape_.head,
                           head)) {
      mark_failed(step, row);
    }
  }
  float* gate = gate_.data() + at;
  kernels_.silu(gate, shape_.inner());
  for (std::uint32_t i = 0; i < shape_.inner(); ++i) out[i] *= gate[i];
  const auto quant = quant_.view(static_cast<std::uint32_t>(step.rows.size()), shape_.inner());
  if (!kernels_.quantize(out, quant, row)) mark_failed(step, row);
}

void DeltaNet::compute(const Step& step, std::uint32_t index, float* delta) {
  const auto rows = static_cast<std::uint32_t>(step.rows.size());
  find_runs(step);
  project(step, index);
  // A row reads what those before it bring, so all are sorted first.
  loops_.for_rows(rows, shape_.channels() + shape_.inner(),
                  [&](std::uint32_t row) { sort_row(step, row, index); });
  loops_.for_rows(rows, shape_.channels() * shape_.taps,
                  [&](std::uint32_t row) { convolve(step, row, index); });
  const auto runs = static_cast<std::uint32_t>(runs_.size());
  loops_.for_rows(runs, shape_.history() + 1,
                  [&](std::uint32_t run) { keep_rows(step, runs_[run], index); });
  const std::uint32_t heads = shape_.value_heads;
  const std::uint64_t products = std::uint64_t{rows} * heads * shape_.head * shape_.head;
  const std::uint64_t least = kDeltaProducts * runs * heads / products + 1;
  loops_.for_units(runs * heads,
                   static_cast<std::uint32_t>(std::min<std::uint64_t>(runs * heads, least)),
                   [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                     for (std::uint32_t i = begin; i < end; ++i) {
                       go_on(step, runs_[i / heads], i % heads, index);
                     }
                   });
  loops_.for_rows(rows, shape_.inner(), [&](std::uint32_t row) { close_row(step, row, index); });
  loops_.multiply(quant_.view(rows, shape_.inner()), {{&layers_[index].attention_output, delta}});
}

}  // namespace hearth::node
