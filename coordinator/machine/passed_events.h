// PassedEvents: forwards every event of a sequence to its receiver. A class that watches a sequence
// derives from it and overrides some events.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "coordinator/request.h"

namespace hearth::coordinator {

class PassedEvents : public SequenceEvents {
 public:
  explicit PassedEvents(std::shared_ptr<SequenceEvents> events) : events_(std::move(events)) {}

  void on_admitted() override { events_->on_admitted(); }
  void on_cached(std::uint32_t positions) override { events_->on_cached(positions); }
  void on_scores(std::vector<SampledToken> scores) override {
    events_->on_scores(std::move(scores));
  }
  void on_embedding(std::vector<float> values) override {
    events_->on_embedding(std::move(values));
  }
  void on_token(const SampledToken& token) override { events_->on_token(token); }
  void on_drafts(const DraftCounts& counts) override { events_->on_drafts(counts); }
  void on_hashes(std::vector<RowHash> hashes) override { events_->on_hashes(std::move(hashes)); }
  void on_error(const Error& error) override { events_->on_error(error); }
  void on_audit(const AuditOutcome& outcome) override { events_->on_audit(outcome); }
  void on_loading(const LoadProgress& progress) override { events_->on_loading(progress); }

 protected:
  // The receiver may destroy this object inside an event, so a caller copies the pointer first.
  const std::shared_ptr<SequenceEvents>& owner() const { return events_; }

 private:
  const std::shared_ptr<SequenceEvents> events_;
};

}  // namespace hearth::coordinator
