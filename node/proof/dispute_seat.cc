#include "node/proof/dispute_seat.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "node/proof/dispute_rows.h"

namespace hearth::node {
namespace {

constexpr int kNice = 10;

control::v1::DisputeMove declined(std::uint64_t entry, const std::string& why) {
  spdlog::warn("the dispute over entry {} of the ledger is not played: {}", entry, why);
  control::v1::DisputeMove move;
  move.set_entry(entry);
  move.set_declined(why);
  return move;
}

}  // namespace

struct DisputeSeat::State {
  void run();
  void obey(const control::v1::DisputeOrder& order);
  void trace(Result<TraceInput> input);
  bool is_left() {
    const std::lock_guard lock(mutex);
    return left || stopping;
  }

  // The thread's.
  std::unique_ptr<DisputeParty> party;
  Send send;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<control::v1::DisputeOrder> orders;
  DisputeRows rows;
  std::optional<Result<TraceInput>> over;  // of the run
  bool left = false;
  bool stopping = false;
  std::thread thread;
};

void DisputeSeat::State::run() {
  (void)setpriority(PRIO_PROCESS, 0, kNice);  // on Linux, of the calling thread alone
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [this] { return stopping || left || over || !orders.empty(); });
    if (stopping) return;
    if (std::exchange(left, false)) {
      lock.unlock();
      party->leave();
    } else if (over) {
      Result<TraceInput> input = *std::move(over);
      over.reset();
      lock.unlock();
      trace(std::move(input));
    } else {
      const control::v1::DisputeOrder order = std::move(orders.front());
      orders.pop_front();
      lock.unlock();
      obey(order);
    }
    lock.lock();
  }
}

void DisputeSeat::State::obey(const control::v1::DisputeOrder& order) {
  if (order.has_begin()) {
    const auto run = party->begin(order);
    if (!run) return send(declined(order.entry(), run.error().message));
    {
      const std::lock_guard lock(mutex);
      rows.watch(*run);
    }
    control::v1::DisputeMove move;
    move.set_entry(order.entry());
    move.set_keeps(true);
    return send(std::move(move));
  }
  auto move = party->move(order);
  send(move ? *std::move(move) : declined(order.entry(), move.error().message));
}

void DisputeSeat::State::trace(Result<TraceInput> input) {
  const Status traced = party->trace(std::move(input), [this] { return is_left(); });
  if (!traced.ok()) {
    party->leave();
    return send(declined(party->entry(), traced.error().message));
  }
  control::v1::DisputeMove move;
  move.set_entry(party->entry());
  move.set_traced(true);
  send(std::move(move));
}

DisputeSeat::DisputeSeat(std::unique_ptr<DisputeParty> party, Send send)
    : state_(std::make_unique<State>()) {
  state_->party = std::move(party);
  state_->send = std::move(send);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

DisputeSeat::~DisputeSeat() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
}

void DisputeSeat::take(control::v1::DisputeOrder order) {
  if (order.what_case() == control::v1::DisputeOrder::kOver) return leave();
  const std::lock_guard lock(state_->mutex);
  if (state_->orders.size() >= kOrders) return;  // its deadline passes
  state_->orders.push_back(std::move(order));
  state_->wake.notify_one();
}

void DisputeSeat::step(const StepBatch& batch, ByteSpan in) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->rows.step(batch, in)) return;
  state_->over = state_->rows.take();
  state_->wake.notify_one();
}

void DisputeSeat::lose() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->rows.lose()) return;
  state_->over = state_->rows.take();
  state_->wake.notify_one();
}

void DisputeSeat::leave() {
  const std::lock_guard lock(state_->mutex);
  state_->orders.clear();
  state_->rows.stop();
  state_->over.reset();
  state_->left = true;
  state_->wake.notify_one();
}

}  // namespace hearth::node
