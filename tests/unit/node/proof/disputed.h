// Two who computed one stage of one sequence, what they signed of it, and the game between them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledger/dispute.h"
#include "model/synthetic.h"
#include "node/proof/dispute_player.h"
#include "node/proof/trace_check.h"
#include "node/proof/tracer.h"
#include "proto/committed_sampling.h"

namespace hearth::node {

inline SecretKey dispute_key(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

// What goes wrong: a value may be changed as it is computed.
using Fault = std::function<void(std::uint32_t position, const ledger::TraceSlot& slot, Bytes&)>;

class FaultyTracer final : public Tracer {
 public:
  FaultyTracer(Parts parts, Fault fault) : Tracer(std::move(parts)), fault_(std::move(fault)) {}

 private:
  void produced(std::uint32_t position, const ledger::TraceSlot& slot, Bytes& value) override {
    if (fault_) fault_(position, slot, value);
  }
  Fault fault_;
};

struct Disputed {
  static constexpr std::uint32_t kPositions = 9;
  static constexpr std::uint32_t kPrompt = 6;
  static constexpr const char* kBuild = "build";

  explicit Disputed(const model::SyntheticOptions& options, LayerRange range)
      : bytes(model::synthetic_model_bytes(options).value()),
        file(model::GgufFile::parse(bytes, "disputed").value()),
        layers(range) {
    for (std::uint32_t i = 0; i < kPositions; ++i) {
      input.tokens.push_back(static_cast<TokenId>(40 + 13 * i % 200));
    }
    input.prompt = kPrompt;
    input.sampling.temperature = 0.8F;
    input.sampling.seed = 5;
    input.salt = blake2b(as_bytes("salt"));
    if (range.begin > 0) {
      const auto before = tracer(*this, {0, range.begin}, {});
      input.rows = before->residuals();
    }
    honest = tracer(*this, range, {});
  }

  static std::unique_ptr<Tracer> tracer(const Disputed& of, LayerRange range, Fault fault,
                                        std::shared_ptr<const model::GgufFile> other = nullptr) {
    TraceInput given = of.input;
    if (range.begin == 0) given.rows.clear();
    auto parts = Tracer::prepare(other ? other : of.file, range, std::move(given),
                                 *kernels::select_kernels().value());
    EXPECT_TRUE(parts.ok()) << parts.error().message;
    auto out = std::make_unique<FaultyTracer>(std::move(parts).value(), std::move(fault));
    const Status done = out->run();
    EXPECT_TRUE(done.ok()) << done.error().message;
    return out;
  }
  std::unique_ptr<Tracer> liar(Fault fault) const {
    return tracer(*this, layers, std::move(fault));
  }
  std::unique_ptr<Tracer> with(std::shared_ptr<const model::GgufFile> other) const {
    return tracer(*this, layers, {}, std::move(other));
  }

  bool is_last() const { return layers.end == honest->shape().layers; }
  Hash256 root_of(const Tracer& of) const {
    return ledger::boundary_root(input.salt, 0, of.rows_out());
  }
  Hash256 commitment(std::uint32_t last) const {
    std::vector<std::uint32_t> tokens(input.tokens.begin(), input.tokens.end());
    tokens.back() += last;
    return ledger::commit_tokens(input.salt, 0, tokens, encode_committed(input.sampling));
  }
  // Whether the two have anything to dispute about.
  bool differ(const Tracer& one, const Tracer& other) const {
    return one.rows_out() != other.rows_out();
  }

  ledger::DisputeCase case_of(const Tracer& by_worker, const Tracer& by_auditor) const {
    ledger::DisputeCase out;
    out.cluster = cluster.public_key();
    out.salt = input.salt;
    out.shape = honest->shape();
    ledger::Receipt receipt;
    receipt.slot.request.fill(std::byte{7});
    receipt.slot.epoch = 3;
    receipt.slot.stage = layers.begin == 0 ? 0 : 1;
    receipt.stages = static_cast<std::uint16_t>(receipt.slot.stage + (is_last() ? 1 : 2));
    receipt.program = ledger::program_id(model_id(), kBuild, kernels::kCanonicalVersion);
    receipt.layer_begin = static_cast<std::uint16_t>(layers.begin);
    receipt.layer_end = static_cast<std::uint16_t>(layers.end);
    receipt.positions = kPositions;
    receipt.prompt_positions = kPrompt;
    receipt.tokens = commitment(0);
    receipt.in_root = layers.begin == 0 ? receipt.tokens
                                        : ledger::boundary_root(input.salt, 0, honest->rows_in());
    receipt.out_root = is_last() ? receipt.tokens : root_of(by_worker);
    out.opened_root = is_last() ? commitment(1) : root_of(by_auditor);
    receipt.begun_ms = 1'700'000'000'000;
    out.receipts.push_back(sign_receipt(receipt, out.cluster, worker).value());
    out.opened_salt = blake2b(as_bytes("opened"));
    const Hash256 seal =
        ledger::seal_of(17, auditor.public_key(), out.opened_root, out.opened_salt);
    out.seal = ledger::sign_seal(17, seal, out.cluster, auditor);
    return out;
  }
  Hash256 model_id() const { return blake2b(as_bytes(file->fingerprint().hex())); }

  // The whole game, and its file with the evidence of `witness` (0: the worker).
  ledger::DisputeFile play(Tracer& by_worker, Tracer& by_auditor, std::size_t witness) const {
    ledger::DisputeFile out;
    out.said = case_of(by_worker, by_auditor);
    out.model = model_id();
    out.build = kBuild;
    auto checked = ledger::check_case(out.said);
    EXPECT_TRUE(checked.ok()) << checked.error().message;
    if (!checked.ok()) return out;
    ledger::DisputeGame game(std::move(checked).value());
    DisputePlayer sides[] = {{by_worker, ledger::DisputeSide::kWorker, worker},
                             {by_auditor, ledger::DisputeSide::kAuditor, auditor}};
    while (!game.outcome()) {
      for (std::size_t i = 0; i < 2 && !game.outcome(); ++i) {
        auto move = sides[i].move(game);
        EXPECT_TRUE(move.ok()) << move.error().message;
        if (!move.ok()) return out;
        EXPECT_TRUE(game.take(*move, 0).ok());
        out.moves.push_back(std::move(move).value());
      }
    }
    if (game.outcome()->found) {
      auto evidence = sides[witness].evidence(game);
      EXPECT_TRUE(evidence.ok()) << evidence.error().message;
      if (evidence.ok()) out.evidence = std::move(evidence).value();
    }
    return out;
  }
  ledger::DisputeTokens tokens() const {
    return {{input.tokens.begin(), input.tokens.end()}, encode_committed(input.sampling)};
  }

  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
  LayerRange layers;
  TraceInput input;
  std::unique_ptr<Tracer> honest;
  SecretKey cluster = dispute_key(1);
  SecretKey worker = dispute_key(2);
  SecretKey auditor = dispute_key(3);
};

// A small model of a family; two kv heads share two query heads each.
inline model::SyntheticOptions disputed_model(const std::string& family) {
  model::SyntheticOptions options;
  options.family = family;
  options.layers = 3;
  options.hidden = 64;
  options.feed_forward = 96;
  options.head_dim = 32;
  options.heads = 4;
  options.sliding_window = 4;
  return options;
}

}  // namespace hearth::node
