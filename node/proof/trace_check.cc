#include "node/proof/trace_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/limits.h"
#include "ledger/merkle.h"
#include "node/engine/step_hash.h"
#include "node/proof/tracer.h"
#include "proto/sampling_codec.h"

namespace hearth::node {
namespace {

using ledger::DisputeEvidence;
using ledger::DisputeFound;
using ledger::DisputeGame;
using ledger::DisputeWeights;
using ledger::TraceOp;
using ledger::TraceShape;
using ledger::TraceSlot;

bool is_product(TraceOp op) {
  return op == TraceOp::kQuery || op == TraceOp::kKey || op == TraceOp::kValue ||
         op == TraceOp::kAttentionOutput || op == TraceOp::kGate || op == TraceOp::kUp ||
         op == TraceOp::kDown || op == TraceOp::kLogits;
}

// Bytes of a value from `offset` on.
struct Computed {
  std::size_t offset = 0;
  Bytes bytes;
};

// The file's bytes of one row or vector, as the kernels want them.
struct Weights {
  kernels::PackedMatrix row;
  std::vector<std::vector<float>> vectors;  // in the order of trace_tensors(); absent ones are not
};

Result<kernels::PackedMatrix> pack_row(const DisputeWeights& part) {
  const auto known = model::tensor_type_info(part.type);
  REQUIRE(known != nullptr, "tensor " + part.tensor + " is of an unknown type");
  TRY(const kernels::WeightType type,
      model::weight_type(static_cast<model::TensorType>(part.type), part.tensor));
  return kernels::PackedMatrix::pack(type, 1, part.cols, part.bytes);
}

Result<Weights> read_weights(const TraceShape& shape, const TraceSlot& slot,
                             const std::vector<DisputeWeights>& parts, std::uint32_t row) {
  const std::vector<TraceTensor> tensors = trace_tensors(shape, slot);
  REQUIRE(parts.size() == tensors.size(),
          "the evidence has not the tensors of " + std::string(trace_op_name(slot.op)));
  Weights out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const DisputeWeights& part = parts[i];
    const TraceTensor& tensor = tensors[i];
    REQUIRE(part.tensor == tensor.name && part.cols == tensor.cols &&
                part.row == (tensor.is_matrix ? row : DisputeWeights::kWhole),
            "the evidence has not row " + std::to_string(row) + " of tensor " + tensor.name);
    if (tensor.is_matrix) {
      TRY(out.row, pack_row(part));
      continue;
    }
    REQUIRE(part.type == static_cast<std::uint32_t>(model::TensorType::kF32) &&
                part.bytes.size() == part.cols * sizeof(float),
            "tensor " + part.tensor + " is no vector of F32");
    out.vectors.push_back(floats_of(part.bytes));
    REQUIRE(std::ranges::all_of(out.vectors.back(), [](float v) { return std::isfinite(v); }),
            "tensor " + part.tensor + " is not finite");
  }
  return out;
}

// One value by the scalar reference.
class Recomputed {
 public:
  Recomputed(const DisputeGame& game, const ledger::DisputeFile& file, const DisputeFound& found,
             const kernels::Kernels& scalar)
      : game_(game),
        file_(file),
        found_(found),
        shape_(game.dispute().said.shape),
        math_(scalar, shape_) {}

  // Where the weights are a token's row: that the evidence has the token that came in.
  Status check_entry() { return found_.what.op == TraceOp::kEnter ? read_inputs() : ok_status(); }

  // kInvalidInput: the evidence does not fit; kNotFound: it needs the request's tokens.
  Result<Computed> value() {
    const TraceOp op = found_.what.op;
    TRY_VOID(check_rest());
    if (op == TraceOp::kIncoming) return incoming();
    TRY_VOID(read_inputs());
    const std::uint32_t row = op == TraceOp::kEnter ? token_ : found_.element;
    TRY(weights_, read_weights(shape_, found_.what, file_.evidence->weights, row));
    if (is_product(op)) {
      TRY(Bytes bytes, math_.multiply(weights_.row, in(0)));
      return Computed{found_.element * sizeof(float), std::move(bytes)};
    }
    if (op == TraceOp::kAttention) return attention();
    TRY(Bytes bytes, whole());
    return Computed{0, std::move(bytes)};
  }

 private:
  const Bytes& in(std::size_t index) const { return file_.evidence->inputs[index].value; }
  std::vector<float> vector(std::uint8_t trait, std::size_t index) const {
    return shape_.has(trait) && index < weights_.vectors.size() ? weights_.vectors[index]
                                                                : std::vector<float>();
  }

  // Nothing lies about that is not read: who changed it would not be found out.
  Status check_rest() const {
    const DisputeEvidence& evidence = *file_.evidence;
    const TraceOp op = found_.what.op;
    const bool own_row = op == TraceOp::kIncoming && shape_.layer_begin > 0;
    REQUIRE(own_row || (evidence.incoming == Hash256{} && evidence.incoming_path.empty()),
            "the evidence has the hash of a row that nothing reads");
    REQUIRE(op == TraceOp::kAttention || evidence.chain == Hash256{},
            "the evidence has the hash of a chain that nothing reads");
    REQUIRE(op == TraceOp::kAttention || op == TraceOp::kEnter || evidence.rows.empty(),
            "the evidence has rows that nothing reads");
    REQUIRE(op != TraceOp::kIncoming || (evidence.inputs.empty() && evidence.weights.empty()),
            "the evidence has inputs that nothing reads");
    if (!file_.tokens) return ok_status();
    const auto given = tokens();
    return given.ok() ? ok_status() : Status(given.error());
  }

  Status read_inputs() {
    const std::vector<TraceSource> sources = trace_sources(shape_, found_.position, found_.what);
    const auto& inputs = file_.evidence->inputs;
    REQUIRE(inputs.size() == sources.size(), "the evidence has " + std::to_string(inputs.size()) +
                                                 " inputs; " +
                                                 std::string(trace_op_name(found_.what.op)) +
                                                 " has " + std::to_string(sources.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ledger::DisputeInput& input = inputs[i];
      REQUIRE(input.position == sources[i].position &&
                  input.slot == shape_.index_of(input.position, sources[i].slot),
              "an input of the evidence is another value than " +
                  std::string(trace_op_name(sources[i].slot.op)));
      TRY_VOID(game_.check_agreed({input.position, input.slot, input.value, input.position_root,
                                   input.slot_path, input.position_path}));
    }
    if (found_.what.op == TraceOp::kEnter) return read_entry();
    return ok_status();
  }

  // The token, or the row behind another stage, is what the agreed hash is of.
  Status read_entry() {
    const Bytes& row = file_.evidence->rows;
    const auto is = [this](const Hash256& hash) { return std::ranges::equal(hash.bytes, in(0)); };
    if (shape_.layer_begin > 0) {
      REQUIRE(row.size() == shape_.value_bytes(TraceOp::kEnter) &&
                  is(hash_activation(shape_.layer_begin, found_.position, row)),
              "the row of the evidence is not the one that came in");
      return ok_status();
    }
    REQUIRE(row.size() == sizeof(token_), "the evidence has no token");
    token_ = ByteReader(row).read<std::uint32_t>();
    REQUIRE(
        token_ < shape_.vocabulary && is(hash_token(found_.position, static_cast<TokenId>(token_))),
        "the token of the evidence is not the one that came in");
    return ok_status();
  }

  const ledger::Receipt& receipt_of(std::uint32_t position) const {
    const auto& receipts = game_.dispute().receipts;
    auto at = receipts.begin();
    while (position >= at->first_position + at->positions) ++at;
    return *at;
  }

  // The tokens are those that the receipt of the position has committed to.
  Result<ledger::DisputeTokens> tokens() const {
    if (!file_.tokens) {
      return Error{ErrorCode::kNotFound,
                   "only the tokens of the request show it, and the file has none: its owner may "
                   "let them in"};
    }
    const ledger::Receipt& receipt = receipt_of(found_.position);
    const auto& all = file_.tokens->tokens;
    for (const ledger::Receipt& each : game_.dispute().receipts) {
      if (each.first_position > receipt.first_position) break;
      REQUIRE(all.size() >= each.first_position + each.positions, "tokens of the file are missing");
      const std::span window = std::span(all).subspan(each.first_position, each.positions);
      REQUIRE(ledger::commit_tokens(game_.dispute().said.salt, each.first_position, window,
                                    file_.tokens->sampling) == each.tokens,
              "tokens or sampling of the file are not what the receipts commit to");
    }
    return *file_.tokens;
  }

  Result<Computed> incoming() const {
    Hash256 row = file_.evidence->incoming;
    if (shape_.layer_begin == 0) {
      TRY(const ledger::DisputeTokens given, tokens());
      row = hash_token(found_.position, static_cast<TokenId>(given.tokens[found_.position]));
    } else {
      const ledger::Receipt& receipt = receipt_of(found_.position);
      TRY_VOID(ledger::check_inclusion(
          ledger::boundary_leaf(game_.dispute().said.salt, found_.position, row),
          found_.position - receipt.first_position, receipt.positions,
          file_.evidence->incoming_path, receipt.in_root));
    }
    return Computed{0, {row.bytes.begin(), row.bytes.end()}};
  }

  Result<Computed> attention() const {
    const Bytes& rows = file_.evidence->rows;
    const std::uint32_t head = found_.element / shape_.head_dim;
    const std::uint32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    const std::uint32_t begin = shape_.first_visible(found_.what.layer, found_.position);
    const std::size_t size = shape_.stored_bytes();
    REQUIRE(rows.size() == (found_.position + 1 - begin) * size,
            "the evidence has not the keys and values of positions " + std::to_string(begin) +
                " to " + std::to_string(found_.position));
    Hash256 chain = file_.evidence->chain;
    REQUIRE(begin > 0 || chain == Hash256{}, "a chain begins with zeros");
    for (std::size_t at = 0; at < rows.size(); at += size) {
      chain = ledger::chain_hash(chain, ByteSpan(rows).subspan(at, size));
    }
    REQUIRE(std::ranges::equal(chain.bytes,
                               ByteSpan(in(1)).subspan(kv_head * sizeof(Hash256), sizeof(Hash256))),
            "keys and values of the evidence are not those that both agree on");
    const std::vector<float> query = floats_of(in(0));
    TRY(Bytes bytes,
        math_.attention_of(
            std::span(query).subspan(std::size_t{head} * shape_.head_dim, shape_.head_dim), rows));
    return Computed{std::size_t{head} * shape_.head_dim * sizeof(float), std::move(bytes)};
  }

  Result<Bytes> whole() const {
    const auto& parts = weights_.vectors;
    const std::uint32_t layer = found_.what.layer;
    const std::uint32_t position = found_.position;
    const bool biased = shape_.has(TraceShape::kBias);
    switch (found_.what.op) {
      case TraceOp::kEnter:
        return shape_.layer_begin > 0 ? Result<Bytes>(file_.evidence->rows)
                                      : math_.enter(weights_.row, 0);
      case TraceOp::kAttentionNorm:
      case TraceOp::kOutputNorm: return math_.norm(math_.expand(in(0)), parts[0]);
      case TraceOp::kFeedForwardNorm: return math_.norm(floats_of(in(0)), parts[0]);
      case TraceOp::kHeads:
        return math_.heads(floats_of(in(0)), vector(TraceShape::kBias, 0),
                           vector(TraceShape::kHeadNorm, biased ? 1 : 0), layer, position);
      case TraceOp::kStored:
        return math_.stored(floats_of(in(0)), floats_of(in(1)), vector(TraceShape::kBias, 0),
                            vector(TraceShape::kBias, 1),
                            vector(TraceShape::kHeadNorm, biased ? 2 : 0), layer, position);
      case TraceOp::kChain: return math_.chain(position == 0 ? ByteSpan() : ByteSpan(in(1)), in(0));
      case TraceOp::kMixed: return math_.quantise(floats_of(in(0)));
      case TraceOp::kActivated: return math_.activate(floats_of(in(0)), floats_of(in(1)));
      case TraceOp::kJoined: {
        TRY(const auto x,
            math_.join(math_.expand(in(0)), floats_of(in(1)), vector(TraceShape::kPostNorm, 0)));
        return bytes_of(x);
      }
      case TraceOp::kResidual: {
        TRY(auto x,
            math_.join(floats_of(in(0)), floats_of(in(1)), vector(TraceShape::kPostNorm, 0)));
        return math_.round(std::move(x));
      }
      case TraceOp::kToken: return token();
      default: return outgoing();
    }
  }

  Result<Bytes> token() const {
    TRY(const ledger::DisputeTokens given, tokens());
    TRY(const SamplingParams sampling, decode_sampling(given.sampling, shape_.vocabulary));
    std::vector<TokenId> all(given.tokens.begin(), given.tokens.end());
    TRY(const std::uint32_t drawn,
        trace_token(shape_, floats_of(in(0)), sampling, all, found_.position));
    Bytes out;
    ByteWriter(out).write(drawn);
    return out;
  }

  Result<Bytes> outgoing() const {
    Hash256 hash;
    if (shape_.layer_end < shape_.layers) {
      hash = hash_activation(shape_.layer_end, found_.position, in(0));
    } else {
      hash = hash_output(found_.position, shape_.samples(found_.position)
                                              ? ByteReader(in(0)).read<std::uint32_t>()
                                              : kNoToken);
    }
    return Bytes(hash.bytes.begin(), hash.bytes.end());
  }

  const DisputeGame& game_;
  const ledger::DisputeFile& file_;
  const DisputeFound& found_;
  const TraceShape& shape_;
  TraceMath math_;
  Weights weights_;
  std::uint32_t token_ = 0;
};

std::string where(const DisputeFound& found) {
  return "position " + std::to_string(found.position) + ", layer " +
         std::to_string(found.what.layer) + ", " + std::string(trace_op_name(found.what.op)) +
         ", element " + std::to_string(found.element);
}

// Sides whose bytes are not those computed, where the two overlap.
std::array<bool, ledger::kDisputeSides> compare(const TraceShape& shape, const DisputeFound& found,
                                                const Computed& right) {
  const std::size_t first = found.chunk * shape.chunk_bytes(found.what.op);
  const std::size_t begin = std::max(first, right.offset);
  const std::size_t end =
      std::min(first + found.chunks[0].size(), right.offset + right.bytes.size());
  std::array<bool, ledger::kDisputeSides> wrong{};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    wrong[i] =
        !std::ranges::equal(ByteSpan(found.chunks[i]).subspan(begin - first, end - begin),
                            ByteSpan(right.bytes).subspan(begin - right.offset, end - begin));
  }
  return wrong;
}

// The digest of the weights that the model has there.
Result<Hash256> true_digest(const model::GgufFile& model, const TraceShape& shape,
                            const DisputeFound& found, const DisputeEvidence& evidence) {
  std::uint32_t row = found.element;
  if (found.what.op == TraceOp::kEnter && shape.layer_begin == 0) {
    row = ByteReader(evidence.rows).read<std::uint32_t>();
  }
  std::vector<DisputeWeights> all;
  for (const TraceTensor& tensor : trace_tensors(shape, found.what)) {
    TRY(DisputeWeights part, weights_in(model, tensor, row));
    all.push_back(std::move(part));
  }
  return ledger::weights_digest(all);
}

// The shape is the model's; its prompt is what the receipts say, where they tell.
Result<TraceShape> true_shape(const model::GgufFile& model, const ledger::CheckedCase& of) {
  TRY(const model::ModelSpec spec, model::ModelSpec::read(model));
  const ledger::Receipt& last = of.disputed();
  std::uint32_t prompt = 0;
  for (const ledger::Receipt& receipt : of.receipts) prompt += receipt.prompt_positions;
  const bool goes_on = prompt == last.first_position + last.positions;
  REQUIRE(last.layer_end <= spec.layers, "the model has fewer layers than the receipt");
  const std::uint32_t said = of.said.shape.prompt;
  return trace_shape(spec, {last.layer_begin, last.layer_end},
                     goes_on ? std::max(prompt, said) : prompt);
}

// Two who signed different weights.
Result<DisputeFinding> check_weights(DisputeFinding out, const Hash256& right) {
  const DisputeFound& found = *out.found;
  for (std::size_t i = 0; i < out.wrong.size(); ++i) out.wrong[i] = found.weights[i] != right;
  out.decided = true;
  out.weights_tied = true;
  out.why = "the weights of " + where(found) + " are not the model's";
  return out;
}

}  // namespace

std::vector<TraceSource> trace_sources(const TraceShape& shape, std::uint32_t position,
                                       const TraceSlot& slot) {
  const std::uint32_t layer = slot.layer;
  const auto own = [&](TraceOp op) { return TraceSource{position, {op, layer}}; };
  const TraceSource before = layer == shape.layer_begin
                                 ? TraceSource{position, {TraceOp::kEnter, layer}}
                                 : TraceSource{position, {TraceOp::kResidual, layer - 1}};
  const TraceSource last{position, {TraceOp::kResidual, shape.layer_end - 1}};
  switch (slot.op) {
    case TraceOp::kIncoming: return {};
    case TraceOp::kEnter: return {own(TraceOp::kIncoming)};
    case TraceOp::kAttentionNorm: return {before};
    case TraceOp::kQuery:
    case TraceOp::kKey:
    case TraceOp::kValue: return {own(TraceOp::kAttentionNorm)};
    case TraceOp::kHeads: return {own(TraceOp::kQuery)};
    case TraceOp::kStored: return {own(TraceOp::kKey), own(TraceOp::kValue)};
    case TraceOp::kChain:
      if (position == 0) return {own(TraceOp::kStored)};
      return {own(TraceOp::kStored), {position - 1, {TraceOp::kChain, layer}}};
    case TraceOp::kAttention: return {own(TraceOp::kHeads), own(TraceOp::kChain)};
    case TraceOp::kMixed: return {own(TraceOp::kAttention)};
    case TraceOp::kAttentionOutput: return {own(TraceOp::kMixed)};
    case TraceOp::kJoined: return {before, own(TraceOp::kAttentionOutput)};
    case TraceOp::kFeedForwardNorm: return {own(TraceOp::kJoined)};
    case TraceOp::kGate:
    case TraceOp::kUp: return {own(TraceOp::kFeedForwardNorm)};
    case TraceOp::kActivated: return {own(TraceOp::kGate), own(TraceOp::kUp)};
    case TraceOp::kDown: return {own(TraceOp::kActivated)};
    case TraceOp::kResidual: return {own(TraceOp::kJoined), own(TraceOp::kDown)};
    case TraceOp::kOutputNorm: return {last};
    case TraceOp::kLogits: return {own(TraceOp::kOutputNorm)};
    case TraceOp::kToken: return {own(TraceOp::kLogits)};
    case TraceOp::kOutgoing:
      if (shape.layer_end < shape.layers) return {last};
      if (shape.samples(position)) return {own(TraceOp::kToken)};
      return {};
  }
  return {};
}

Result<DisputeFinding> check_dispute(const ledger::DisputeFile& file,
                                     const model::GgufFile* model) {
  TRY_VOID(kernels::check_float_environment());
  TRY(const kernels::Kernels* scalar, kernels::kernels_named("scalar"));
  TRY(const DisputeGame game, ledger::replay(file));
  REQUIRE(ledger::program_id(file.model, file.build, kernels::kCanonicalVersion) ==
              game.dispute().disputed().program,
          "the receipts are of another model, build or canonical version than the file names");
  DisputeFinding out;
  if (!game.outcome()) {
    out.why = "the game is not over: " + std::to_string(game.moves()) +
              " moves are in the file, and who was late only the referee knows";
    return out;
  }
  const ledger::DisputeOutcome& outcome = *game.outcome();
  out.wrong = outcome.lost;
  out.why = outcome.why;
  out.decided = out.wrong[0] || out.wrong[1];
  if (out.decided) return out;
  const TraceShape& shape = game.dispute().said.shape;
  if (model != nullptr) {
    TRY(const TraceShape right, true_shape(*model, game.dispute()));
    if (outcome.shapes_differ) {
      const Hash256 digest = blake2b(ledger::encode(right));
      for (std::size_t i = 0; i < 2; ++i) out.wrong[i] = outcome.shapes[i] != digest;
      out.decided = true;
      out.why = "the shape of the trace is not the model's";
      return out;
    }
    REQUIRE(right == shape, "the trace has another shape than the model");
  }
  if (!outcome.found) {
    if (outcome.shapes_differ) out.why += "; give it with --model";
    return out;
  }
  out.found = outcome.found;
  const DisputeFound& found = *out.found;
  REQUIRE(file.evidence.has_value(), "the file has no evidence of " + where(found));
  Recomputed recomputed(game, file, found, *scalar);
  TRY_VOID(recomputed.check_entry());
  std::optional<Hash256> right;
  if (trace_tensors(shape, found.what).empty()) {
    right = ledger::weights_digest({});
  } else if (model != nullptr) {
    TRY(right, true_digest(*model, shape, found, *file.evidence));
  }
  out.weights_agreed = found.weights[0] == found.weights[1];
  if (!out.weights_agreed || (right && found.weights[0] != *right)) {
    if (right) return check_weights(std::move(out), *right);
    out.why = "they computed " + where(found) +
              " with different weights: only the model's file, given with --model, shows whose "
              "are the model's";
    return out;
  }
  REQUIRE(ledger::weights_digest(file.evidence->weights) == found.weights[0],
          "the weights of the evidence are not those that both have signed");
  out.weights_tied = right.has_value() || file.evidence->weights.empty();
  const auto value = recomputed.value();
  if (!value && value.error().code == ErrorCode::kNotFound) {
    out.why = value.error().message;
    return out;
  }
  TRY_VOID(value.ok() ? ok_status() : Status(value.error()));
  out.wrong = compare(shape, found, *value);
  out.decided = true;
  out.why = where(found) + " is another value by the scalar reference";
  return out;
}

}  // namespace hearth::node
