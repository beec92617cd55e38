#include "node/pipeline/stage_proof.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "node/pipeline/stage.h"
#include "node/proof/receipt_maker.h"

namespace hearth::node {
namespace {

constexpr std::size_t kWaitingMax = 8;  // self-checks that wait for one hash of the weights

}  // namespace

StageProof::StageProof(const StageOptions& options, StageCompute& compute, Send send)
    : options_(options), compute_(compute), send_(std::move(send)) {
  if (options_.receipts != nullptr) options_.receipts->set_send(send_);
}

StageProof::~StageProof() {
  if (options_.receipts != nullptr) options_.receipts->set_send(nullptr);
}

void StageProof::on_control_lost() {
  if (options_.receipts != nullptr) options_.receipts->forget();
}

void StageProof::take(const control::v1::CoordinatorMessage& order) {
  if (order.has_self_check()) return take_self_check(order.self_check());
  if (options_.receipts == nullptr) return;
  if (order.has_accusation()) return take_accusation(order.accusation());
  options_.receipts->take(order);
}

void StageProof::take_accusation(const control::v1::Accusation& accusation) {
  spdlog::warn("{}: the output of this stage is in dispute (entry {} of the ledger)", options_.node,
               accusation.entry());
  control::v1::Accusation own = accusation;
  check_self([this, own = std::move(own)](const control::v1::SelfChecked& found) {
    options_.receipts->plead(own, found);
  });
}

void StageProof::take_self_check(const control::v1::SelfCheck& check) {
  spdlog::warn("{}: this node gets no work until it has checked its weights and kernels: {}",
               options_.node, check.why());
  check_self([this, number = check.number()](const control::v1::SelfChecked& found) {
    control::v1::WorkerMessage message;
    *message.mutable_self_checked() = found;
    message.mutable_self_checked()->set_number(number);
    send_(message);
  });
}

// An error that was computed once must not come again from a kept page.
// Beyond the limit an order is dropped, as by a node that does not answer.
void StageProof::check_self(Found done) {
  if (waiting_.size() >= kWaitingMax) return;
  waiting_.push_back(std::move(done));
  compute_.distrust();
  compute_.check_weights();  // also those that are kept for the next assignment
}

void StageProof::on_weights_checked(const Status& weights) {
  if (waiting_.empty()) return;
  const bool unloaded = !weights.ok() && weights.error().code == ErrorCode::kUnavailable;
  const Status kernels = options_.self_test ? options_.self_test() : ok_status();
  control::v1::SelfChecked found;
  found.set_weights_whole(weights.ok() || unloaded);
  found.set_self_test_passed(kernels.ok());
  if (!found.weights_whole()) found.set_what(weights.error().message);
  if (!kernels.ok()) found.set_what(kernels.error().message);
  for (const Found& done : std::exchange(waiting_, {})) done(found);
}

}  // namespace hearth::node
