#include "node/engine/stage_memory.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/available_memory.h"
#include "base/check.h"
#include "base/limits.h"
#include "kernels/canonical.h"
#include "node/engine/delta_net.h"
#include "node/engine/forward.h"
#include "node/engine/kv_cache.h"
#include "node/engine/latent_attention.h"
#include "node/engine/ranks/rank_rows.h"
#include "node/engine/stage_forward.h"
#include "node/engine/weights.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB",
                static_cast<double>(bytes) / static_cast<double>(limits::kGiB));
  return text;
}

std::uint64_t quantised_bytes(std::uint64_t width) {
  return width + 3 * 4 * width / kernels::kBlock;
}

// Bytes for a row's experts beside the buffers that every feed-forward has (Forward::Mixture).
std::uint64_t expert_bytes(const model::ModelSpec& spec) {
  const std::uint64_t hidden = spec.hidden;
  const std::uint64_t shared = spec.shared_feed_forward;
  const std::uint64_t index = 2 * 2 + 3 * 4;              // of a pair: expert, weight, place, row
  std::uint64_t bytes = 4 * std::uint64_t{spec.experts};  // logits
  bytes += spec.experts_used *
           (quantised_bytes(hidden) + quantised_bytes(spec.feed_forward) + 4 * hidden + index);
  if (shared > 0) bytes += quantised_bytes(shared) + 4 * (2 * shared + hidden + 1);
  return bytes;
}

// The buffers that a rank has beside those of its narrowed model: those of RankParts, and what is
// as wide as the whole model.
std::uint64_t rank_bytes(const model::ModelSpec& whole, const model::ModelSpec& own,
                         const EngineOptions& options) {
  const RankGroup& group = *options.group;
  const std::uint64_t rows = options.batch_rows;
  const std::uint64_t head_rows =
      options.layers.end == whole.layers ? std::min<std::uint64_t>(rows, kHeadRows) : 0;
  std::uint64_t row = quantised_bytes(std::max(own.widest_queries(), own.feed_forward));
  row += quantised_bytes(std::max(whole.widest_queries(), whole.widest_feed_forward()));
  row += whole.experts_used * quantised_bytes(whole.feed_forward);
  row += 4 * (std::uint64_t{group.own().hidden.size()} + 1);
  return rows * row + std::uint64_t{kHeadRows} * group.own().vocabulary.size() * 4 +
         RankRows::bytes_of(whole, group, options.batch_rows,
                            static_cast<std::uint32_t>(head_rows));
}

// The model as the stage computes it: all of it, or a rank's share.
model::ModelSpec computed(const model::ModelSpec& spec, const EngineOptions& options) {
  return options.group != nullptr ? narrowed(spec, options.group->own()) : spec;
}

// The buffers of Forward, of the samplers and of the step.
std::uint64_t buffer_bytes(const model::ModelSpec& spec, const EngineOptions& options) {
  const std::uint64_t rows = options.batch_rows;
  const std::uint64_t wide = spec.widest_queries();
  const std::uint64_t narrow = spec.widest_keys();
  const std::uint64_t widest =
      std::max({std::uint64_t{spec.hidden}, wide, std::uint64_t{spec.widest_feed_forward()}});
  std::uint64_t row = 4 * (1 + 2 * spec.hidden + 2 * spec.feed_forward_values() + spec.head_dim +
                           std::max(spec.head_dim, spec.local_head_dim));  // floats
  row += LayerInputs::row_bytes(spec);
  row += spec.latent ? LatentAttention::row_bytes(spec) : 4 * (2 * wide + 2 * narrow);
  if (spec.family->attention_gate) row += 4 * 3 * wide;
  if (DeltaNet::state_bytes(spec, options.layers) > 0) row += DeltaNet::row_bytes(spec);
  row += quantised_bytes(widest);
  row += 2 * 2 * spec.hidden;  // residuals, here and in the batch
  if (spec.experts > 0) row += expert_bytes(spec);
  const std::uint64_t positions = spec.context + 2 * kernels::kPageTokens;
  std::uint64_t thread =
      spec.latent ? LatentAttention::thread_bytes(spec) : 4 * spec.largest_group() * positions;
  std::uint64_t bytes = rows * row;
  if (options.layers.end == spec.layers) {
    bytes += std::min<std::uint64_t>(rows, kHeadRows) * spec.vocabulary * 4;
    thread += 16 * std::uint64_t{spec.vocabulary};  // a sampler
  }
  return bytes + options.threads * thread;
}

// Pages, and states where sequences keep them. Where the options name no number of states, these
// take half of the budget at most, and leave the pages of one sequence of the usual length; but one
// state is always taken.
Status ask_for_kv(const model::ModelSpec& spec, const EngineOptions& options, StageMemory& memory) {
  const std::uint64_t budget = options.kv_budget_bytes;
  memory.page = KvCache::page_bytes(spec.kv_layouts(options.layers));
  memory.state = DeltaNet::state_bytes(spec, options.layers);
  if (options.group != nullptr) {
    memory.pages = options.group->pages;
    memory.pages_least = memory.pages;
    return ok_status();
  }
  INVARIANT(memory.page + memory.state != 0, "a stage has layers and heads");
  if (memory.page + memory.state > budget) {
    std::string page = message_of("one page of ", kernels::kPageTokens, " positions takes ",
                                  memory.page, " bytes for ", options.layers.size(), " layers");
    if (memory.state > 0) {
      page += ", and the state of one sequence " + std::to_string(memory.state) + " bytes";
    }
    return Error::of(ErrorCode::kNoCapacity, "the KV budget of ", budget,
                     " bytes holds no page: ", page);
  }
  if (memory.state > 0) {
    const std::uint32_t usual = std::min(spec.context, limits::kDefaultMaxTokens);
    const std::uint64_t pages = memory.page * pages_for(usual, kernels::kPageTokens);
    const std::uint64_t beside = budget - std::min(budget, pages);
    const std::uint64_t half =
        std::min({limits::kSequenceStates, budget / 2 / memory.state, beside / memory.state});
    const std::uint64_t fit = (budget - memory.page) / memory.state;
    const std::uint64_t asked = options.sequences > 0 ? options.sequences : half;
    memory.states = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        asked, 1, std::min<std::uint64_t>(fit, limits::kRunningSequences)));
  }
  const std::uint64_t sequences = memory.state > 0 ? memory.states : limits::kRunningSequences;
  const std::uint64_t most =
      std::uint64_t{pages_for(spec.context, kernels::kPageTokens)} * sequences;
  const std::uint64_t left = budget - memory.state * memory.states;
  const std::uint64_t asked = memory.page > 0 ? left / memory.page : most;
  memory.pages = static_cast<std::uint32_t>(std::min({asked, most, std::uint64_t{0xFFFFFFFF}}));
  const std::uint32_t positions = std::min(spec.context, limits::kDefaultMaxTokens);
  memory.pages_least = std::min(memory.pages, pages_for(positions, kernels::kPageTokens));
  return ok_status();
}

}  // namespace

Result<StageMemory> stage_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                 const EngineOptions& options) {
  if (spec.is_whole() && options.layers.size() != spec.layers) {
    return Error::of(ErrorCode::kUnsupported, "a stage of ", options.layers.size(), " of the ",
                     spec.layers,
                     " layers; one stage must hold every layer of this model, because its layers "
                     "read more than the output of the layer before: use one stage");
  }
  if (options.group != nullptr) {
    TRY_VOID(check_shares(spec, options.group->shares));
    REQUIRE(options.group->rank < options.group->shares.size(), "rank ", options.group->rank,
            " is not in its group of ", options.group->shares.size(), " ranks");
  }
  StageMemory memory;
  const model::ModelSpec own = computed(spec, options);
  const Share* share = options.group != nullptr ? &options.group->own() : nullptr;
  TRY(memory.weights, StageWeights::bytes_of(file, spec, options.layers, share));
  memory.buffers = buffer_bytes(own, options);
  if (share != nullptr) memory.buffers += rank_bytes(spec, own, options);
  TRY_VOID(ask_for_kv(own, options, memory));
  return memory;
}

Result<KvShare> kv_asked(const model::ModelSpec& spec, const EngineOptions& options) {
  StageMemory memory;
  TRY_VOID(ask_for_kv(spec, options, memory));
  return KvShare{memory.pages, memory.states};
}

std::uint64_t kv_budget_of(const model::ModelSpec& spec, LayerRange layers, std::uint64_t pages,
                           std::uint64_t sequences) {
  return KvCache::page_bytes(spec.kv_layouts(layers)) * pages +
         DeltaNet::state_bytes(spec, layers) * sequences;
}

std::uint64_t most_buffer_bytes(const model::ModelSpec& spec, EngineOptions options) {
  options.layers = {0, spec.layers};
  return buffer_bytes(spec, options);
}

Status check_memory(const std::vector<StageMemory>& stages, std::uint64_t budget) {
  std::uint64_t weights = 0;
  std::uint64_t kv = 0;
  std::uint64_t buffers = 0;
  for (const StageMemory& stage : stages) {
    weights += stage.weights;
    kv += stage.kv_least();
    buffers += stage.buffers;
  }
  const std::uint64_t needed = weights + kv + buffers + kProcessBytes;
  if (needed <= budget) return ok_status();
  return Error::of(ErrorCode::kNoCapacity, "needs ", gib(needed), " of memory: weights ",
                   gib(weights), ", KV of one sequence ", gib(kv), ", buffers ", gib(buffers),
                   ", process ", gib(kProcessBytes), "; has ", gib(budget),
                   " (--memory, or the available memory of the machine)");
}

KvShare kv_within(const StageMemory& stage, std::uint64_t budget) {
  INVARIANT(stage.pages != 0, "a stage has KV pages, which may be empty");
  std::uint64_t rest = budget - std::min(budget, stage.weights + stage.buffers);
  KvShare share;
  if (stage.state > 0) {
    const std::uint64_t beside = rest - std::min(rest, stage.page * stage.pages_least);
    const std::uint64_t fit = std::min<std::uint64_t>(stage.states, beside / stage.state);
    share.states = std::max(1U, static_cast<std::uint32_t>(fit));
    rest -= std::min(rest, share.states * stage.state);
  }
  const std::uint64_t fit = stage.page > 0 ? rest / stage.page : stage.pages;
  share.pages = static_cast<std::uint32_t>(std::min<std::uint64_t>(stage.pages, fit));
  return share;
}

Result<std::uint64_t> replay_within(const model::GgufFile& file, const model::ModelSpec& spec,
                                    const EngineOptions& options) {
  if (options.replay_bytes == 0) return std::uint64_t{0};
  if (options.group != nullptr && options.memory_bytes == 0) return options.replay_bytes;
  if (options.memory_bytes == 0 || options.device != nullptr) {
    return std::min(options.replay_bytes, available_memory() / 4);
  }
  TRY(const StageMemory stage, stage_memory(file, spec, options));
  const std::uint64_t budget = options.memory_bytes - std::min(options.memory_bytes, kProcessBytes);
  const std::uint64_t taken = stage.weights + stage.buffers + kv_within(stage, budget).bytes(stage);
  const std::uint64_t left = budget - std::min(budget, taken);
  if (options.group == nullptr || options.replay_bytes <= left) {
    return std::min(options.replay_bytes, left);
  }
  return Error::of(ErrorCode::kNoCapacity, "rank ", options.group->rank, " has ", left,
                   " bytes of memory left for kept rows; each rank of its group keeps ",
                   options.replay_bytes);
}

std::uint64_t memory_budget(std::uint64_t given) { return given > 0 ? given : available_memory(); }

}  // namespace hearth::node
