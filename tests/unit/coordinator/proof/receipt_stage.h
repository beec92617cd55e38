// Two stages that make receipts as ledger/PROTOCOL.md says, without a model.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "coordinator/proof/receipt_collector.h"
#include "ledger/receipt.h"
#include "ledger/statements.h"
#include "proto/committed_sampling.h"
#include "proto/fixed_field.h"

namespace hearth::testing {

inline SecretKey receipt_key(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}
inline SecretKey receipt_cluster() { return receipt_key(1); }

// What passes between the two at each position, where both say this.
inline std::vector<Hash256> boundary_rows(const std::string& words, std::uint32_t positions) {
  return std::vector<Hash256>(positions, blake2b(as_bytes(words)));
}

class ReceiptStage {
 public:
  ReceiptStage(std::string name, std::uint16_t stage, unsigned char pipeline = 0)
      : node(std::move(name)),
        stage_(stage),
        key_(receipt_key(static_cast<unsigned char>(10 + 2 * pipeline + stage))) {}

  // That it computed all that was fed of the request.
  control::v1::WindowClaims claim(const coordinator::ReceiptRequest& request,
                                  std::uint32_t window = 0) {
    const auto positions = static_cast<std::uint32_t>(request.tokens.size() - 1);
    return claim(request, window, positions);
  }
  // And so many positions of one window.
  control::v1::WindowClaims claim(const coordinator::ReceiptRequest& request, std::uint32_t window,
                                  std::uint32_t positions) {
    const std::uint32_t first = window * limits::kWindowPositions;
    std::vector<std::uint32_t> tokens(positions);
    for (std::size_t i = 0; i < positions && first + i < request.tokens.size(); ++i) {
      tokens[i] = static_cast<std::uint32_t>(request.tokens[first + i]);
    }
    ledger::Receipt r;
    r.slot = {request.order.request, request.epoch.value, stage_, window};
    r.program = blake2b(as_bytes("program"));
    r.layer_begin = static_cast<std::uint16_t>(2 * stage_);
    r.layer_end = static_cast<std::uint16_t>(2 * stage_ + 2);
    r.stages = 2;
    r.first_position = first;
    r.positions = positions;
    r.prompt_positions = std::clamp(request.prompt_tokens, first, first + positions) - first;
    r.tokens = ledger::commit_tokens(request.order.salt, first, tokens,
                                     encode_committed(request.sampling));
    const std::vector<Hash256> rows = boundary_rows(boundary, positions);
    const Hash256 between = ledger::boundary_root(request.order.salt, first, rows);
    r.in_root = stage_ == 0 ? r.tokens : between;
    r.out_root = stage_ == 0 ? between : r.tokens;
    r.begun_ms = 1'700'000'000'000;
    waiting_[{r.slot.request, window}] = r;
    control::v1::WindowClaims claims;
    control::v1::WindowClaim& claim = *claims.add_windows();
    claim.set_request(to_field(r.slot.request));
    claim.set_epoch(r.slot.epoch);
    claim.set_window(window);
    claim.set_positions(positions);
    claim.set_in_root(to_field(r.in_root.bytes));
    claim.set_out_root(to_field(r.out_root.bytes));
    claim.set_in_signature(signature(ledger::in_edge(r)));
    claim.set_out_signature(signature(ledger::out_edge(r)));
    if (stage_ > 0) return claims;
    const ledger::ShownRow shown =
        ledger::show_row(ledger::out_edge(r), request.order.salt, first, rows);
    claim.set_shown_row(to_field(shown.row.bytes));
    for (const Hash256& one : shown.path) claim.mutable_shown_path()->append(to_field(one.bytes));
    return claims;
  }

  control::v1::Receipts sign(const control::v1::Countersign& message) {
    control::v1::Receipts answer;
    Hash256 previous;
    (void)read_field(message.previous(), previous.bytes);
    for (const auto& window : message.windows()) {
      ledger::RequestId request{};
      (void)read_field(window.request(), request);
      ledger::Receipt receipt = waiting_.at({request, window.window()});
      receipt.previous = previous;
      (void)read_field(window.in_signature(), receipt.in_edge);
      (void)read_field(window.out_signature(), receipt.out_edge);
      if (message.now_ms() > 0) receipt.begun_ms = message.now_ms();
      if (spoil) spoil(receipt);
      const auto bytes = ledger::sign_receipt(receipt, receipt_cluster().public_key(), key_);
      if (!bytes) continue;
      previous = blake2b(*bytes);
      answer.add_receipts(to_field(*bytes));
    }
    return answer;
  }
  control::v1::Seals seal(const control::v1::SealOrder& order) {
    control::v1::Seals answer;
    for (const auto& window : order.windows()) {
      ledger::RequestId request{};
      (void)read_field(window.request(), request);
      const Hash256 root = waiting_.at({request, window.window()}).out_root;
      const Hash256 salt = blake2b(Bytes(1, std::byte(window.entry())));
      const ledger::SealEntry said =
          ledger::sign_seal(window.entry(), ledger::seal_of(window.entry(), key(), root, salt),
                            receipt_cluster().public_key(), key_);
      control::v1::Seal& seal = *answer.add_seals();
      seal.set_entry(window.entry());
      seal.set_seal(to_field(said.seal.bytes));
      seal.set_signature(to_field(said.signature));
      control::v1::Opening& opening = sealed_[window.entry()];
      opening.set_entry(window.entry());
      opening.set_root(to_field(root.bytes));
      opening.set_salt(to_field(salt.bytes));
    }
    return answer;
  }
  control::v1::Openings open(const control::v1::OpenOrder& order) {
    control::v1::Openings answer;
    for (const std::uint64_t entry : order.entries()) *answer.add_openings() = sealed_.at(entry);
    return answer;
  }
  control::v1::Answer plead(std::uint64_t entry, ledger::Plea plea, bool weights_whole) const {
    const ledger::Answer said = ledger::sign_answer({entry, {}, plea, weights_whole, true, {}},
                                                    receipt_cluster().public_key(), key_);
    control::v1::Answer answer;
    answer.set_entry(entry);
    answer.set_plea(static_cast<std::uint32_t>(plea));
    answer.mutable_found()->set_weights_whole(weights_whole);
    answer.mutable_found()->set_self_test_passed(true);
    answer.set_signature(to_field(said.signature));
    return answer;
  }
  PublicKey key() const { return key_.public_key(); }

  std::string node;
  std::string boundary = "what passed between the stages";
  std::function<void(ledger::Receipt&)> spoil;

 private:
  std::string signature(const ledger::Edge& edge) const {
    return to_field(ledger::sign_edge(edge, receipt_cluster().public_key(), key_));
  }
  std::uint16_t stage_;
  SecretKey key_;
  std::map<std::pair<ledger::RequestId, std::uint32_t>, ledger::Receipt> waiting_;
  std::map<std::uint64_t, control::v1::Opening> sealed_;
};

inline std::vector<ReceiptStage> receipt_stages() { return {{"a", 0}, {"b", 1}}; }

// Two others, that may be a second pipeline.
inline std::vector<ReceiptStage> other_receipt_stages() { return {{"c", 0, 1}, {"d", 1, 1}}; }

inline coordinator::ReceiptPipeline receipt_pipeline(const std::vector<ReceiptStage>& stages,
                                                     Epoch epoch = Epoch(4)) {
  coordinator::ReceiptPipeline pipeline{epoch, blake2b(as_bytes("program")), {}};
  std::uint32_t layer = 0;
  for (const ReceiptStage& stage : stages) {
    pipeline.stages.push_back({stage.node, stage.key(), {layer, layer + 2}});
    layer += 2;
  }
  return pipeline;
}

// Five prompt tokens, and two that were sampled.
inline coordinator::ReceiptRequest receipt_request(unsigned char number) {
  coordinator::ReceiptRequest request;
  request.epoch = Epoch(4);
  request.order.request.fill(std::byte{number});
  request.order.salt = blake2b(Bytes(1, std::byte{number}));
  request.prompt_tokens = 5;
  request.tokens = {1, 2, 3, 4, 5, 6, 7};
  return request;
}

}  // namespace hearth::testing
