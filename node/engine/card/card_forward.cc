#include "node/engine/card/card_forward.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hearth::node {

namespace cuda = kernels::cuda;

CardForward::CardForward(Setup setup)
    : setup_(std::move(setup)),
      pool_of_pages_(setup_.shape.kv_pages),
      stage_(shape()),
      input_(stage_, *setup_.pool),
      layers_(stage_, setup_.say),
      head_(stage_, *setup_.pool),
      watchdog_(setup_.step_limit,
                [this] { setup_.context->lose(CardContext::unanswered(setup_.step_limit)); }) {}

// Queued work still reads and writes the memory of the stage, so it must end first.
CardForward::~CardForward() {
  if (under_way_ == 0) return;
  const Status ended = guarded([&] { return stage_.drain(); });
  static_cast<void>(ended);
}

CardShape CardForward::shape() const {
  CardShape shape = setup_.shape;
  shape.spec = &setup_.spec;
  return shape;
}

// --- load ---

Result<std::unique_ptr<CardForward>> CardForward::load(const model::GgufFile& file, Setup setup) {
  INVARIANT(setup.context != nullptr && setup.pool != nullptr, "a stage has a GPU and threads");
  std::unique_ptr<CardForward> card(new CardForward(std::move(setup)));
  const auto on_part = [&](std::uint64_t done, std::uint64_t all) {
    card->watchdog_.begin();  // the limit is that of a part, not that of a model
    if (card->setup_.progress) card->setup_.progress(done, all);
  };
  TRY_VOID(card->guarded(
      [&]() -> Status {
        TRY_VOID(card->stage_.take_memory(file));
        TRY_VOID(card->make_events());
        TRY_VOID(card->stage_.clear_memory());
        return card->stage_.load_weights(file, *card->setup_.pool, on_part, card->setup_.cancelled);
      },
      CardContext::Loses::kWhereItFailed));
  TRY_VOID(card->verify_weights());
  return Result<std::unique_ptr<CardForward>>(std::move(card));
}

Status CardForward::make_events() {
  for (StepEvents& events : events_) {
    for (cuda::OwnedEvent* event : {&events.uploaded, &events.computed, &events.received}) {
      TRY(*event, cuda::make_event());
    }
  }
  return head_.make_events();
}

Status CardForward::verify_weights() {
  return guarded([&] { return stage_.verify_weights(); });
}

// --- losing the GPU ---

// While steps are under way, the limit runs on between the calls, from the last one that returned.
template <typename Calls>
Status CardForward::guarded(const Calls& calls, CardContext::Loses loses) const {
  watchdog_.begin();
  const Status status = setup_.context->ask(loses, calls);
  if (under_way_ == 0) {
    watchdog_.end();
  } else {
    watchdog_.begin();
  }
  return status;
}

// --- a step ---

bool CardForward::may_overlap() const {
  for (std::uint32_t i = 0; i < under_way_; ++i) {
    if (head_.reads_logits((oldest_ + i) % kStepsUnderWay)) return false;
  }
  return true;
}

Status CardForward::begin(std::span<const ForwardRow> rows, const Outputs& outputs) {
  INVARIANT(!rows.empty() && rows.size() <= setup_.shape.rows, "a step has its bounds");
  if (const auto error = lost()) return *error;  // under_way_ means nothing any more
  INVARIANT(under_way_ < kStepsUnderWay && may_overlap(), "a step waits for its turn");
  if (under_way_ == 0) oldest_ = 0;
  const std::uint32_t set = next_set();
  rows_[set] = static_cast<std::uint32_t>(rows.size());
  embeds_[set] = std::ranges::any_of(rows, &ForwardRow::embedded);
  return guarded([&] {
    ++under_way_;
    return start(set, rows, outputs);
  });
}

bool CardForward::ready() const {
  if (lost() || head_.reads_logits(oldest_)) return true;
  const Result<bool> passed = cuda::passed(events_[oldest_].received.get());
  if (passed.ok()) return *passed;
  setup_.context->lose(passed.error());
  return true;
}

Status CardForward::finish() {
  finished_ = oldest_;
  return guarded([&] {
    INVARIANT(under_way_ > 0, "a step begins before it is finished");
    const Status status = complete(finished_);
    oldest_ = (oldest_ + 1) % kStepsUnderWay;
    --under_way_;
    return status;
  });
}

Status CardForward::start(std::uint32_t set, std::span<const ForwardRow> rows,
                          const Outputs& outputs) {
  head_.begin(set, rows, outputs);
  const StepReach reach = input_.fill(set, rows, head_.sampled(set));
  TRY_VOID(input_.send());
  TRY_VOID(head_.send(set));
  TRY_VOID(cuda::record(events_[set].uploaded.get(), stage_.upload()));
  TRY_VOID(cuda::wait(stage_.compute(), events_[set].uploaded.get()));
  TRY_VOID(layers_.run(set, rows, reach));
  if (head_.reads_logits(set)) return ok_status();
  TRY_VOID(head_.draw_tokens(set));
  return receive(set);
}

Status CardForward::complete(std::uint32_t set) {
  if (head_.reads_logits(set)) {
    TRY_VOID(head_.read_logits(set));
    TRY_VOID(receive(set));
  }
  TRY_VOID(cuda::synchronize(events_[set].received.get()));
  head_.finish(set);
  return ok_status();
}

// The residual and the flags leave, and what the head sends.
Status CardForward::receive(std::uint32_t set) {
  const cuda::Stream download = stage_.download();
  const StepArrays& host = stage_.host(set);
  const StepArrays& card = stage_.card(set);
  const std::size_t rows = rows_[set];
  TRY_VOID(cuda::record(events_[set].computed.get(), stage_.compute()));
  TRY_VOID(cuda::wait(download, events_[set].computed.get()));
  TRY_VOID(cuda::copy_to_host(host.failed, card.failed, rows * sizeof(*host.failed), download));
  if (!stage_.shape().is_last() || embeds_[set]) {
    TRY_VOID(cuda::copy_to_host(host.bits, card.bits,
                                rows * setup_.spec.hidden * sizeof(*host.bits), download));
  }
  TRY_VOID(head_.receive(set));
  return cuda::record(events_[set].received.get(), download);
}

bool CardForward::failed(std::uint32_t row) const {
  INVARIANT(row < rows_[finished_], "a row of the step finished last");
  return stage_.host(finished_).failed[row] != 0;
}

Result<const std::byte*> CardForward::page(std::uint32_t index, std::uint32_t layer) const {
  const std::byte* page = nullptr;
  TRY_VOID(guarded([&]() -> Status {
    TRY(page, stage_.read_page(index, layer));
    return ok_status();
  }));
  return Result<const std::byte*>(page);
}

}  // namespace hearth::node
