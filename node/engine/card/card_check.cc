#include "node/engine/card/card_check.h"

#include <algorithm>
#include <utility>

#include "model/synthetic.h"

namespace hearth::node {
namespace {

constexpr std::uint32_t kVocabulary = 384;
constexpr std::uint32_t kPrompt = 37;  // rows of tensor cores and of decoding, and a second page
// So that a decoded row's context is cut into splits (kernels/cuda/attention.cu).
constexpr std::uint32_t kLongPrompt = 258;
constexpr std::uint32_t kLongContext = 288;
constexpr SequenceId kSequence{1};

Result<Bytes> model_bytes(const std::string& family, const std::vector<model::TensorType>& types,
                          std::size_t first) {
  const auto type = [&](std::size_t i) { return types[(first + i) % types.size()]; };
  model::SyntheticOptions options;
  options.family = family;
  const model::FamilyTraits* traits = model::find_family(family);
  REQUIRE(traits != nullptr, "the self-test has no known answers for the model family ", family);
  options.layers = std::max(2U, traits->period());
  options.hidden = 256;
  options.feed_forward = 256;
  options.heads = 4;
  options.kv_heads = 2;
  options.head_dim = 64;
  options.vocabulary = kVocabulary;
  options.context = 64;
  options.sliding_window = 20;
  options.tied_output = false;
  options.attention_type = type(0);
  options.feed_forward_type = type(1);
  options.embedding_type = type(2);
  options.output_type = type(3);
  return model::synthetic_model_bytes(options);
}

// As little as a long context needs: what cuts it depends on no type and on no family.
Result<Bytes> long_model_bytes() {
  model::SyntheticOptions options;
  options.layers = 1;
  options.hidden = 32;
  options.feed_forward = 32;
  options.heads = 2;
  options.kv_heads = 1;
  options.head_dim = 32;
  options.vocabulary = kVocabulary;
  options.context = kLongContext;
  return model::synthetic_model_bytes(options);
}

// The prompt in one step, then some tokens one by one.
StepBatch batch_of(std::uint32_t prompt, std::uint32_t step) {
  StepBatch batch;
  if (step == 0) {
    batch.opens.push_back({kSequence, prompt, true, {}});
    batch.opens[0].sampling.temperature = 0.0F;
  }
  const std::uint32_t begin = step == 0 ? 0 : prompt + step - 1;
  for (Position i = begin; i < prompt + step; ++i) {
    const bool last = i + 1 == prompt + step;
    batch.rows.push_back({kSequence, i, static_cast<TokenId>((i * 97 + 11) % kVocabulary),
                          last ? BatchRow::kSample : std::uint8_t{0}});
  }
  return batch;
}

struct Answers {
  std::vector<SampledToken> tokens;
  std::vector<RowHash> hashes;
  std::vector<Hash256> kv;
};

Result<Answers> ask(Engine& engine, std::uint32_t prompt) {
  Answers answers;
  for (std::uint32_t step = 0; step < 4; ++step) {
    StepBatch batch = batch_of(prompt, step);
    StepResult result;
    TRY_VOID(engine.step(batch, result));
    std::move(result.tokens.begin(), result.tokens.end(), std::back_inserter(answers.tokens));
    std::move(result.hashes.begin(), result.hashes.end(), std::back_inserter(answers.hashes));
  }
  TRY(answers.kv, engine.kv_hashes(kSequence));
  return Result<Answers>(std::move(answers));
}

Result<Answers> answers_of(const std::shared_ptr<const model::GgufFile>& file,
                           const model::ModelSpec& spec, std::uint32_t prompt, Device* device) {
  EngineOptions options;
  options.layers = {0, spec.layers};
  options.kv_budget_bytes = 1 << 20;
  options.batch_rows = prompt;
  options.device = device;
  TRY(const auto engine, Engine::load(file, spec, options));
  return ask(*engine, prompt);
}

Status compare(Device& device, const Bytes& bytes, std::uint32_t prompt, const std::string& which) {
  TRY(const auto file, model::GgufFile::parse(bytes, "known answers"));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(const Answers found, answers_of(file, spec, prompt, &device));
  TRY(const Answers known, answers_of(file, spec, prompt, nullptr));
  const char* what = found.kv != known.kv           ? "keys and values"
                     : found.hashes != known.hashes ? "hashes"
                     : found.tokens != known.tokens ? "tokens"
                                                    : nullptr;
  if (what == nullptr) return ok_status();
  return Error::of(ErrorCode::kNumeric, "self-test of ", device.name(), ": ", what, " of a small ",
                   which,
                   " differ from the CPU's; this GPU would give wrong results and must not serve: "
                   "use --device cpu");
}

}  // namespace

Status check_device(Device& device, const std::string& family,
                    const std::vector<model::TensorType>& types) {
  for (std::size_t first = 0; first < types.size(); first += 4) {
    TRY(const Bytes bytes, model_bytes(family, types, first));
    TRY_VOID(compare(device, bytes, kPrompt, family + " model"));
  }
  TRY(const Bytes bytes, long_model_bytes());
  return compare(device, bytes, kLongPrompt, "model over a long context");
}

std::vector<model::TensorType> weight_types(const model::GgufFile& file,
                                            const model::ModelSpec& spec) {
  std::vector<model::TensorType> types;
  const auto add = [&](const std::vector<model::ExpectedTensor>& tensors) {
    for (const model::ExpectedTensor& tensor : tensors) {
      const model::TensorInfo* info = tensor.is_matrix ? file.find_tensor(tensor.name) : nullptr;
      if (info == nullptr || std::find(types.begin(), types.end(), info->type) != types.end()) {
        continue;
      }
      types.push_back(info->type);
    }
  };
  add(model::outer_tensors(spec));
  for (std::uint32_t i = 0; i < spec.layers; ++i) add(model::layer_tensors(spec, i));
  return types;
}

}  // namespace hearth::node
