// Two pipelines of the same cut, a and b, c and d; the desk of receipts, that of audits, and the
// log of both, which a stranger folds.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/proof/auditor.h"
#include "ledger/books.h"
#include "ledger/merkle.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::testing {

struct AuditLog {
  AuditLog() { open(coordinator::AuditMode::kSpot); }

  void open(coordinator::AuditMode mode) {
    desk = std::make_unique<coordinator::ReceiptCollector>(receipt_cluster(), clock);
    audits = std::make_unique<coordinator::Auditor>(receipt_cluster(), clock, mode);
    for (const Bytes& entry : entries) {
      ASSERT_TRUE(desk->recall(entry));
      ASSERT_TRUE(audits->recall(entry, ledger::leaf_hash(entry)));
    }
    begin(receipt_pipeline(stages));
    begin(receipt_pipeline(others, Epoch(5)));
  }
  void begin(const coordinator::ReceiptPipeline& pipeline) {
    desk->begin(pipeline);
    audits->begin(pipeline);
  }
  // One that ends by itself: two tokens are what it may have.
  static coordinator::ReceiptRequest request(unsigned char number) {
    coordinator::ReceiptRequest request = receipt_request(number);
    request.sampling.max_tokens = 2;
    return request;
  }
  void answer(const coordinator::ReceiptRequest& request) {
    desk->start(request.epoch, request.order.request, request.tokens.size());
    for (ReceiptStage& stage : stages) desk->take(stage.node, stage.claim(request));
    audits->over(request);
    desk->over(request);
    pump();
  }
  // Of the second pipeline, with these tokens.
  coordinator::ReceiptRequest computed(const coordinator::AuditRun& run,
                                       std::vector<TokenId> tokens) {
    coordinator::ReceiptRequest again;
    again.epoch = Epoch(5);
    again.order = run.order;
    again.prompt_tokens = static_cast<std::uint32_t>(run.prompt.size());
    again.tokens = std::move(tokens);
    again.sampling = run.sampling;
    return again;
  }
  void claim(const coordinator::ReceiptRequest& again) {
    for (ReceiptStage& stage : others) audits->take(stage.node, stage.claim(again));
  }
  void compute(const coordinator::AuditRun& run,
               std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7}) {
    const coordinator::ReceiptRequest again = computed(run, std::move(tokens));
    claim(again);
    audits->over(again);
    pump();
  }
  ReceiptStage& stage(const std::string& node) {
    for (auto* list : {&stages, &others, &third}) {
      for (ReceiptStage& one : *list) {
        if (one.node == node) return one;
      }
    }
    throw std::out_of_range(node);
  }
  // As LedgerService does, until no node has anything to say; what is asked of auditors stays in
  // `asked` when no node answers it.
  void pump() {
    for (bool any = true; any;) {
      any = false;
      if (const auto draw = audits->draw()) desk->log(*draw);
      for (const coordinator::Auditor::ForLog& one : audits->take_entries()) {
        if (!one.evidence.empty()) {
          evidence.push_back(one.evidence);
          if (one.member != PublicKey()) desk->bar(one.member);
        }
        if (one.member != PublicKey()) desk->enter(one.member);
        desk->log(one.body);
      }
      for (const Bytes& entry : desk->take_entries()) {
        any = true;
        const Status applied = books.apply(entry);
        EXPECT_TRUE(applied) << applied.error().message;
        entries.push_back(entry);
        EXPECT_TRUE(audits->logged(entry));
      }
      for (const coordinator::ReceiptCollector::Message& message : desk->take_messages()) {
        any = true;
        desk->take(message.node, stage(message.node).sign(message.body));
      }
      coordinator::Auditor::Output output = audits->take_output();
      for (coordinator::AuditRun& run : output.runs) runs.push_back(std::move(run));
      for (coordinator::AuditOutcome& one : output.outcomes) outcomes.push_back(std::move(one));
      for (const coordinator::Auditor::Message& message : output.messages) {
        asked.push_back(message);
        if (message.body.has_accusation() || message.body.has_self_check() ||
            message.body.has_ended() || !willing) {
          continue;
        }
        any = true;
        if (message.body.has_seal_order()) {
          audits->take(message.node, stage(message.node).seal(message.body.seal_order()));
        } else {
          audits->take(message.node, stage(message.node).open(message.body.open_order()));
        }
      }
    }
  }
  std::vector<coordinator::AuditOutcome> take_outcomes() {
    pump();
    return std::exchange(outcomes, {});
  }
  void later(Duration time) {
    clock.advance(time);
    audits->on_timer();
    pump();
  }
  std::uint64_t of_kind(std::size_t kind) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(entries, [kind](const Bytes& entry) {
      return ledger::parse_entry(entry)->body.index() == kind - 1;
    }));
  }

  FakeClock clock;
  std::vector<ReceiptStage> stages = receipt_stages();
  std::vector<ReceiptStage> others = other_receipt_stages();
  std::vector<ReceiptStage> third = {{"e", 0, 2}, {"f", 1, 2}};  // who begins it, has it
  std::unique_ptr<coordinator::ReceiptCollector> desk;
  std::unique_ptr<coordinator::Auditor> audits;
  ledger::Books books;  // of a stranger, who checks everything
  std::vector<Bytes> entries;
  std::vector<coordinator::AuditRun> runs;
  std::vector<coordinator::Auditor::Message> asked;
  std::vector<coordinator::AuditOutcome> outcomes;
  std::vector<Bytes> evidence;
  bool willing = true;  // auditors answer
};

}  // namespace hearth::testing
