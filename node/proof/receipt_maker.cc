#include "node/proof/receipt_maker.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/limits.h"
#include "base/thread_annotations.h"

namespace hearth::node {
namespace {

// Between two messages of claims: the control port limits the rate of a worker.
constexpr auto kClaimPause = std::chrono::milliseconds(20);
// Steps are hashed several at a time: waking for each would take a processor from the thread that
// the step itself has just woken, the next stage on the same machine or the reader of its answer.
constexpr auto kGather = std::chrono::milliseconds(20);
constexpr std::size_t kGatheredBytes = 256 << 10;

}  // namespace

struct ReceiptMaker::State : std::enable_shared_from_this<State> {
  using Work = std::function<void(State&)>;

  State(ReceiptIdentity given, const Clock& time, Post to, WorkerThread::Schedule schedule)
      : clock(time),
        receipts(std::move(given), time),
        post(std::move(to)),
        worker({.max_cost = limits::kReceiptQueueBytes,
                .gather = kGather,
                .gathered_cost = kGatheredBytes,
                .schedule = std::move(schedule)}) {}

  // `urgent`: a peer waits for it, or for what it leads to. False: the queue is full.
  bool push(Work work, std::size_t size, bool urgent = true);
  void send_claims();
  void to_owner(control::v1::WorkerMessage message);
  // The thread's.
  const Clock& clock;
  WindowReceipts receipts;
  TimePoint next_claims{};
  bool claims_wait = false;  // for next_claims

  Mutex mutex;
  Post post GUARDED_BY(mutex);  // empty once the owner is gone

  // The owner's.
  Send send;
  bool gap = false;   // the latest step was left out
  bool late = false;  // said in the log already

  WorkerThread worker;  // last: its tasks use all of the above
};

bool ReceiptMaker::State::push(Work task, std::size_t size, bool urgent) {
  return worker.post(
      [this, task = std::move(task)] {
        task(*this);
        send_claims();
      },
      size, urgent ? WorkerThread::Urgency::kNow : WorkerThread::Urgency::kGathered);
}

void ReceiptMaker::State::send_claims() {
  if (!receipts.has_claims() || claims_wait) return;
  const TimePoint now = clock.now();
  if (now >= next_claims) {
    next_claims = now + kClaimPause;
    control::v1::WorkerMessage message;
    *message.mutable_window_claims() = receipts.take_claims();
    to_owner(std::move(message));
    if (!receipts.has_claims()) return;
  }
  claims_wait = true;
  worker.post_after(next_claims - now, [this] {
    claims_wait = false;
    send_claims();
  });
}

void ReceiptMaker::State::to_owner(control::v1::WorkerMessage message) {
  const MutexLock lock(mutex);
  if (!post) return;
  post([self = shared_from_this(), message = std::move(message)] {
    if (self->send) self->send(message);
  });
}

ReceiptMaker::ReceiptMaker(ReceiptIdentity identity, const Clock& clock, Post post,
                           WorkerThread::Schedule schedule)
    : build_(identity.build),
      state_(std::make_shared<State>(std::move(identity), clock, std::move(post),
                                     std::move(schedule))) {}

ReceiptMaker::~ReceiptMaker() {
  state_->send = nullptr;
  {
    const MutexLock lock(state_->mutex);
    state_->post = nullptr;
  }
  state_->worker.stop();
}

void ReceiptMaker::set_send(Send send) { state_->send = std::move(send); }

void ReceiptMaker::begin(const Assignment& assignment, const Hash256& model) {
  state_->push([assignment, model](State& state) { state.receipts.begin(assignment, model); }, 0);
}

void ReceiptMaker::step(StepBatch batch, Bytes in, std::vector<SampledToken> drawn) {
  const std::size_t size = batch.activations.size() + in.size() +
                           batch.rows.size() * sizeof(BatchRow) +
                           drawn.size() * sizeof(SampledToken);
  const bool ends = !batch.releases.empty();
  const bool taken =
      state_->push([batch = std::move(batch), in = std::move(in), drawn = std::move(drawn)](
                       State& state) { state.receipts.step(batch, in, drawn); },
                   size, ends);
  if (std::exchange(state_->gap, !taken) || taken) return;
  // It may be the step that ends a request, which would otherwise stay open forever.
  state_->push([](State& state) { state.receipts.skip(); }, 0);
  if (std::exchange(state_->late, true)) return;
  spdlog::warn("hashing does not keep up with computing: some requests have no receipts");
}

// Behind what is being hashed.
void ReceiptMaker::take(control::v1::CoordinatorMessage order) {
  const std::size_t size = order.ByteSizeLong();
  state_->push(
      [order = std::move(order)](State& state) {
        control::v1::WorkerMessage message;
        if (order.has_countersign()) {
          *message.mutable_receipts() = state.receipts.countersign(order.countersign());
        } else if (order.has_seal_order()) {
          *message.mutable_seals() = state.receipts.seal(order.seal_order());
        } else {
          *message.mutable_openings() = state.receipts.open(order.open_order());
        }
        state.to_owner(std::move(message));
      },
      size);
}

void ReceiptMaker::plead(control::v1::Accusation accusation, control::v1::SelfChecked found) {
  const std::size_t size = accusation.ByteSizeLong() + found.ByteSizeLong();
  state_->push(
      [accusation = std::move(accusation), found = std::move(found)](State& state) {
        control::v1::WorkerMessage message;
        *message.mutable_answer() = state.receipts.plead(accusation, found);
        state.to_owner(std::move(message));
      },
      size);
}

void ReceiptMaker::forget() {
  state_->push([](State& state) { state.receipts.forget(); }, 0);
}

}  // namespace hearth::node
