#include "node/proof/receipt_maker.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "node/proof/dispute_seat.h"

namespace hearth::node {
namespace {

// Between two messages of claims: the control port allows no flood.
constexpr auto kPause = std::chrono::milliseconds(20);
// Steps are hashed some at a time: to be woken by each would take a processor from what the step
// itself has just woken, the stage behind this one if it is a process of the same machine, or the
// thread that reads its answer.
constexpr auto kGather = std::chrono::milliseconds(20);
constexpr std::size_t kGatheredBytes = 256 << 10;

}  // namespace

struct ReceiptMaker::State : std::enable_shared_from_this<State> {
  using Work = std::function<void(State&)>;

  State(ReceiptIdentity given, const Clock& clock, Post to)
      : identity(given), receipts(std::move(given), clock), post(std::move(to)) {}

  // `hurries`: somebody waits for it, or for what it leads to.
  bool push(Work work, std::size_t size, bool hurries = true);
  void run();
  void send_claims();
  void to_owner(control::v1::WorkerMessage message);
  void play(control::v1::DisputeOrder order);
  void lose_run() {
    if (seat != nullptr) seat->lose();
  }
  // Behind what is being hashed; `fill` puts in what the owner is to send.
  template <typename Order>
  void answer(Order order,
              void (*fill)(WindowReceipts&, const Order&, control::v1::WorkerMessage&)) {
    const std::size_t size = order.ByteSizeLong();
    push(
        [order = std::move(order), fill](State& state) {
          control::v1::WorkerMessage message;
          fill(state.receipts, order, message);
          state.to_owner(std::move(message));
        },
        size);
  }

  const ReceiptIdentity identity;
  // The thread's.
  WindowReceipts receipts;
  DisputeParty::OpenModel open_model;
  std::unique_ptr<DisputeSeat> seat;  // from the first dispute on
  std::chrono::steady_clock::time_point next_claims{};

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::pair<Work, std::size_t>> work;
  std::size_t bytes = 0;  // of all work
  bool hurried = false;   // some of it is waited for
  bool gathers = false;   // the thread wakes by itself soon
  bool stopping = false;
  Post post;  // empty once the owner is gone

  // The owner's.
  Send send;
  bool gap = false;   // the latest step was left out
  bool late = false;  // said in the log already

  std::thread thread;
};

bool ReceiptMaker::State::push(Work task, std::size_t size, bool hurries) {
  const std::lock_guard lock(mutex);
  if (bytes + size > limits::kReceiptQueueBytes) return false;
  bytes += size;
  work.emplace_back(std::move(task), size);
  hurried = hurried || hurries || bytes > kGatheredBytes;
  if (hurried || !gathers) wake.notify_one();
  return true;
}

void ReceiptMaker::State::run() {
  const auto due = [this] { return stopping || !work.empty(); };
  std::unique_lock lock(mutex);
  for (;;) {
    if (receipts.has_claims()) {
      wake.wait_for(lock, kPause, due);
    } else {
      wake.wait(lock, due);
    }
    if (!work.empty() && !hurried) {
      gathers = true;
      wake.wait_for(lock, kGather, [this] { return stopping || hurried; });
      gathers = false;
    }
    if (stopping) return;
    std::pair<Work, std::size_t> next;
    if (!work.empty()) {
      next = std::move(work.front());
      work.pop_front();
    }
    hurried = !work.empty();  // what is gathered is done to its end
    lock.unlock();
    if (next.first) next.first(*this);
    send_claims();
    next.first = nullptr;
    lock.lock();
    bytes -= next.second;
  }
}

void ReceiptMaker::State::send_claims() {
  const auto now = std::chrono::steady_clock::now();
  if (!receipts.has_claims() || now < next_claims) return;
  next_claims = now + kPause;
  control::v1::WorkerMessage message;
  *message.mutable_window_claims() = receipts.take_claims();
  to_owner(std::move(message));
}

void ReceiptMaker::State::to_owner(control::v1::WorkerMessage message) {
  const std::lock_guard lock(mutex);
  if (!post) return;
  post([self = shared_from_this(), message = std::move(message)] {
    if (self->send) self->send(message);
  });
}

void ReceiptMaker::State::play(control::v1::DisputeOrder order) {
  if (seat == nullptr) {
    auto party = std::make_unique<DisputeParty>(identity.key, identity.cluster, open_model);
    seat = std::make_unique<DisputeSeat>(std::move(party), [this](control::v1::DisputeMove move) {
      control::v1::WorkerMessage message;
      *message.mutable_dispute() = std::move(move);
      to_owner(std::move(message));
    });
  }
  seat->take(std::move(order));
}

ReceiptMaker::ReceiptMaker(ReceiptIdentity identity, const Clock& clock, Post post)
    : build_(identity.build),
      state_(std::make_shared<State>(std::move(identity), clock, std::move(post))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

ReceiptMaker::~ReceiptMaker() {
  state_->send = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->post = nullptr;
    state_->wake.notify_one();
  }
  state_->thread.join();
  state_->seat.reset();  // whose thread sends by this state
}

void ReceiptMaker::set_send(Send send) { state_->send = std::move(send); }

void ReceiptMaker::set_model(DisputeParty::OpenModel open) {
  state_->push([open = std::move(open)](State& state) { state.open_model = open; }, 0);
}

void ReceiptMaker::begin(const Assignment& assignment, const Hash256& model) {
  state_->push(
      [assignment, model](State& state) {
        state.receipts.begin(assignment, model);
        state.lose_run();
      },
      0);
}

void ReceiptMaker::step(StepBatch batch, Bytes in, std::vector<SampledToken> drawn) {
  const std::size_t size = batch.activations.size() + in.size() +
                           batch.rows.size() * sizeof(BatchRow) +
                           drawn.size() * sizeof(SampledToken);
  const bool ends = !batch.releases.empty();
  const bool taken = state_->push(
      [batch = std::move(batch), in = std::move(in), drawn = std::move(drawn)](State& state) {
        state.receipts.step(batch, in, drawn);
        if (state.seat != nullptr) state.seat->step(batch, in);
      },
      size, ends);
  if (std::exchange(state_->gap, !taken) || taken) return;
  // It may have been the one that ends a request, which would then stay open for ever.
  state_->push(
      [](State& state) {
        state.receipts.skip();
        state.lose_run();
      },
      0);
  if (std::exchange(state_->late, true)) return;
  spdlog::warn("hashing does not keep up with computing: some requests have no receipts");
}

void ReceiptMaker::countersign(control::v1::Countersign message) {
  state_->answer<control::v1::Countersign>(
      std::move(message), [](WindowReceipts& receipts, const auto& order, auto& answer) {
        *answer.mutable_receipts() = receipts.countersign(order);
      });
}

void ReceiptMaker::seal(control::v1::SealOrder order) {
  state_->answer<control::v1::SealOrder>(
      std::move(order), [](WindowReceipts& receipts, const auto& windows, auto& answer) {
        *answer.mutable_seals() = receipts.seal(windows);
      });
}

void ReceiptMaker::open(control::v1::OpenOrder order) {
  state_->answer<control::v1::OpenOrder>(
      std::move(order), [](WindowReceipts& receipts, const auto& entries, auto& answer) {
        *answer.mutable_openings() = receipts.open(entries);
      });
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

void ReceiptMaker::play(control::v1::DisputeOrder order) {
  const std::size_t size = order.ByteSizeLong();
  state_->push([order = std::move(order)](State& state) { state.play(order); }, size);
}

void ReceiptMaker::leave_game() {
  state_->push(
      [](State& state) {
        if (state.seat != nullptr) state.seat->leave();
      },
      0);
}

void ReceiptMaker::forget() {
  state_->push([](State& state) { state.receipts.forget(); }, 0);
  leave_game();
}

}  // namespace hearth::node
