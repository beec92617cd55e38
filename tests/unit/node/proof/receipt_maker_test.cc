#include "node/proof/receipt_maker.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

// The owner's thread, played by the test's.
struct Owner {
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    wake.notify_one();
  }
  void run_one() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(wake.wait_for(lock, std::chrono::seconds(60), [this] { return !tasks.empty(); }));
    const auto task = std::move(tasks.front());
    tasks.erase(tasks.begin());
    lock.unlock();
    task();
  }
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::function<void()>> tasks;
};

struct ReceiptMakerTest : ::testing::Test {
  ReceiptMakerTest() {
    maker->set_send([this](const control::v1::WorkerMessage& message) { sent.push_back(message); });
    Assignment assignment;
    assignment.epoch = Epoch(1);
    assignment.layers = {0, 2};
    maker->begin(assignment, {});
  }
  static StepBatch request(std::uint64_t sequence) {
    StepBatch batch;
    batch.epoch = Epoch(1);
    SequenceOpen open{SequenceId(sequence), 1, false, {}};
    open.receipt.emplace().request.fill(std::byte(sequence));
    batch.opens.push_back(std::move(open));
    batch.rows.push_back({SequenceId(sequence), 0, 5, 0});
    batch.releases.push_back(SequenceId(sequence));
    return batch;
  }

  testing::FakeClock clock;
  Owner owner;
  std::vector<control::v1::WorkerMessage> sent;
  std::unique_ptr<ReceiptMaker> maker = std::make_unique<ReceiptMaker>(
      ReceiptIdentity{SecretKey::generate(), SecretKey::generate().public_key(), "build"}, clock,
      [this](std::function<void()> task) { owner.post(std::move(task)); });
};

TEST_F(ReceiptMakerTest, ClaimsThenSigns) {
  EXPECT_EQ(maker->build(), "build");
  maker->step(request(1), {});
  owner.run_one();
  ASSERT_EQ(sent.size(), 1u);
  const control::v1::WindowClaim claim = sent[0].window_claims().windows(0);
  EXPECT_EQ(claim.positions(), 1u);
  control::v1::CoordinatorMessage order;
  control::v1::Countersign& message = *order.mutable_countersign();
  message.set_previous(std::string(32, '\0'));
  control::v1::Countersigned& window = *message.add_windows();
  window.set_request(claim.request());
  window.set_epoch(claim.epoch());
  window.set_in_signature(claim.in_signature());
  window.set_out_signature(claim.out_signature());
  maker->take(order);
  owner.run_one();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].receipts().receipts_size(), 1);
  maker->take(order);
  owner.run_one();
  EXPECT_EQ(sent[2].receipts().receipts_size(), 0) << "an answer, though there is nothing to say";
}

TEST_F(ReceiptMakerTest, SealsThenOpens) {
  maker->step(request(1), {});
  owner.run_one();
  const control::v1::WindowClaim claim = sent.at(0).window_claims().windows(0);
  control::v1::CoordinatorMessage order;
  control::v1::AuditedWindow& window = *order.mutable_seal_order()->add_windows();
  window.set_request(claim.request());
  window.set_epoch(claim.epoch());
  window.set_entry(9);
  maker->take(order);
  owner.run_one();
  ASSERT_EQ(sent.at(1).seals().seals_size(), 1);
  order.mutable_open_order()->add_entries(9);
  maker->take(order);
  owner.run_one();
  ASSERT_EQ(sent.at(2).openings().openings_size(), 1);
  EXPECT_EQ(sent.at(2).openings().openings(0).root(), claim.out_root());
}

TEST_F(ReceiptMakerTest, WhatItCannotKeepUpWithIsLeftOut) {
  StepBatch large = request(1);
  large.activations.resize(limits::kReceiptQueueBytes);
  maker->step(std::move(large), {});
  maker->step(request(2), {});
  owner.run_one();
  ASSERT_EQ(sent[0].window_claims().windows_size(), 1);
  EXPECT_EQ(sent[0].window_claims().windows(0).request(), std::string(16, '\2'));
}

TEST_F(ReceiptMakerTest, WhatWasOpenAtAGapHasNone) {
  StepBatch opened = request(1);
  opened.releases.clear();
  maker->step(std::move(opened), {});
  StepBatch large;
  large.epoch = Epoch(1);
  large.activations.resize(limits::kReceiptQueueBytes + 1);
  maker->step(std::move(large), {});
  StepBatch released;
  released.epoch = Epoch(1);
  released.releases.push_back(SequenceId(1));
  maker->step(std::move(released), {});
  maker->step(request(2), {});
  owner.run_one();
  ASSERT_EQ(sent[0].window_claims().windows_size(), 1);
  EXPECT_EQ(sent[0].window_claims().windows(0).request(), std::string(16, '\2'));
}

TEST_F(ReceiptMakerTest, SendsNothingAfterItsEnd) {
  maker->step(request(1), {});
  {
    std::unique_lock lock(owner.mutex);
    ASSERT_TRUE(owner.wake.wait_for(lock, std::chrono::seconds(60),
                                    [this] { return !owner.tasks.empty(); }));
  }
  maker.reset();
  owner.run_one();
  EXPECT_TRUE(sent.empty());
}

}  // namespace
}  // namespace hearth::node
