#include "node/layers/piece_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/thread_annotations.h"
#include "base/worker_thread.h"
#include "proto/piece.h"

namespace hearth::node {
namespace {

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

// A link that carries steps does so every few milliseconds; after this pause it is idle.
constexpr auto kStepsLately = milliseconds(250);
constexpr auto kPause = milliseconds(2);  // between two pieces then: at most 32 MiB a second

SteadyTime now() { return std::chrono::steady_clock::now(); }

}  // namespace

// Shared by the main thread and the reader; what the reader has posted may outlive the server.
struct PieceServer::State {
  struct Link {
    std::deque<PieceRequest> requests;
    std::uint32_t unanswered = 0;  // those, and the one being read
    SteadyTime used = now();
  };

  State(std::shared_ptr<const SharedFile> shared, Post poster)
      : file(std::move(shared)), post(std::move(poster)) {}

  void read_all();
  std::optional<std::pair<LinkId, PieceRequest>> next() REQUIRES_LOCK(mutex);
  void answer(LinkId link, std::uint64_t offset, Result<Bytes> bytes);

  const std::shared_ptr<const SharedFile> file;
  Post post;                                         // set before the first request
  std::atomic<SteadyTime> steps_seen{SteadyTime{}};  // on links of the owner's
  PieceServer* server = nullptr;                     // the main thread only; null once it is gone

  Mutex mutex;
  std::map<LinkId, Link> links GUARDED_BY(mutex);
  LinkId last GUARDED_BY(mutex);           // served; the others come before it again
  bool reading GUARDED_BY(mutex) = false;  // read_all() runs or waits
  WorkerThread reader{{.max_cost = 2}};    // last: its tasks use all of the above
};

// One link after the other, so that no link waits for another's window.
std::optional<std::pair<LinkId, PieceRequest>> PieceServer::State::next() {
  auto at = links.upper_bound(last);
  for (std::size_t i = 0; i < links.size(); ++i, ++at) {
    if (at == links.end()) at = links.begin();
    if (at->second.requests.empty()) continue;
    INVARIANT(at->second.unanswered >= at->second.requests.size(), "a request has no answer yet");
    const PieceRequest request = at->second.requests.front();
    at->second.requests.pop_front();
    last = at->first;
    return std::pair(at->first, request);
  }
  return std::nullopt;
}

// Holds the mutex at the usual priority and as briefly as possible. Otherwise the main thread,
// which sends the heartbeats, would wait for a thread that is not scheduled.
void PieceServer::State::read_all() {
  while (!reader.stopping()) {
    std::optional<std::pair<LinkId, PieceRequest>> found;
    {
      const MutexLock lock(mutex);
      found = next();
      if (!found) reading = false;
    }
    if (!found) return;
    if (now() - steps_seen.load() < kStepsLately) reader.sleep_for(kPause);
    const auto& [link, request] = *found;
    auto bytes = file->read(request.model, request.offset, request.bytes);
    post([this, link = link, offset = request.offset, bytes = std::move(bytes)]() mutable {
      answer(link, offset, std::move(bytes));
    });
  }
}

void PieceServer::State::answer(LinkId link, std::uint64_t offset, Result<Bytes> bytes) {
  if (server == nullptr) return;
  {
    const MutexLock held(mutex);
    const auto it = links.find(link);
    if (it == links.end()) return;
    INVARIANT(it->second.unanswered > 0, "an answer belongs to a request");
    --it->second.unanswered;
    it->second.used = now();
  }
  if (!bytes.ok()) return server->refuse(link, bytes.error().message);
  // A full link has other bytes than pieces waiting: it is not a link for pieces.
  Frame frame{FrameType::kPiece, encode(Piece{offset, *bytes})};
  if (!server->transport_.send(link, std::move(frame)).ok()) server->transport_.close(link);
}

PieceServer::PieceServer(Transport& transport, std::shared_ptr<const SharedFile> file, Post post)
    : transport_(transport), state_(std::make_shared<State>(std::move(file), nullptr)) {
  // A posted function checks that the state still exists, so it may run after the server is gone.
  state_->post = [post = std::move(post),
                  state = std::weak_ptr(state_)](std::function<void()> work) {
    post([state, work = std::move(work)] {
      if (const auto held = state.lock()) work();
    });
  };
  state_->server = this;
  transport_.set_events(this);
}

PieceServer::~PieceServer() {
  state_->server = nullptr;
  state_->reader.stop();
}

Status PieceServer::send(LinkId link, Frame&& frame) {
  if (frame.type != FrameType::kHello) state_->steps_seen = now();
  return transport_.send(link, std::move(frame));
}

void PieceServer::on_link_open(LinkId link, bool incoming) {
  if (incoming) silent_.insert(link);
  if (events_ != nullptr) events_->on_link_open(link, incoming);
}

void PieceServer::on_frame(LinkId link, Frame frame) {
  const bool first = silent_.erase(link) > 0;
  bool ours = false;
  {
    const MutexLock lock(state_->mutex);
    ours = state_->links.contains(link);
  }
  if (!ours && first && frame.type == FrameType::kPieceRequest) ours = take_over(link);
  if (ours) return on_request(link, frame);
  if (events_ != nullptr) events_->on_frame(link, std::move(frame));
}

void PieceServer::on_link_closed(LinkId link, const Error& why) {
  silent_.erase(link);
  {
    const MutexLock lock(state_->mutex);
    if (state_->links.erase(link) > 0) return;
  }
  if (events_ != nullptr) events_->on_link_closed(link, why);
}

// For the owner the link ends here.
bool PieceServer::take_over(LinkId link) {
  if (events_ != nullptr) {
    events_->on_link_closed(link, {ErrorCode::kCancelled, "a link for pieces of a model"});
  }
  const MutexLock lock(state_->mutex);
  if (state_->links.size() >= limits::kPieceLinks) {
    const auto idlest = std::min_element(
        state_->links.begin(), state_->links.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    const bool idle = idlest->second.unanswered == 0 &&
                      now() - idlest->second.used > std::chrono::seconds(limits::kPieceIdleSeconds);
    transport_.close(idle ? idlest->first : link);
  }
  state_->links[link];
  return true;
}

void PieceServer::on_request(LinkId link, const Frame& frame) {
  auto request = frame.type == FrameType::kPieceRequest
                     ? decode_piece_request(frame.payload)
                     : Result<PieceRequest>(Error::invalid("the frame is not a piece request"));
  if (!request.ok()) return refuse(link, request.error().message);
  const auto asker = transport_.peer(link);
  if (!asker || (asker->role != Role::kWorker && asker->role != Role::kCoordinator)) {
    return refuse(link, std::string(kNotAdmitted));
  }
  if (!state_->file->holds(request->model, request->offset, request->bytes)) {
    return refuse(link, "this node does not have these bytes");
  }
  bool full = false;
  bool wake = false;
  {
    const MutexLock lock(state_->mutex);
    State::Link& known = state_->links[link];
    full = known.unanswered >= limits::kPieceRequests;
    if (!full) {
      ++known.unanswered;
      known.used = now();
      known.requests.push_back(*request);
      wake = !std::exchange(state_->reading, true);
    }
  }
  if (full) {
    return refuse(link, "more than " + std::to_string(limits::kPieceRequests) +
                            " requests wait for their answers");
  }
  if (!wake) return;
  const bool posted = state_->reader.post([state = state_.get()] { state->read_all(); });
  INVARIANT(posted, "the reader has room for the task that waits");
}

void PieceServer::refuse(LinkId link, const std::string& why) {
  const auto asker = transport_.peer(link);
  spdlog::debug("no piece of the model for {}: {}", asker ? asker->name : "an unknown peer", why);
  (void)transport_.send(link, {FrameType::kRefused, encode_refused(why)}).ok();
  transport_.close(link);  // what is queued is still sent
}

}  // namespace hearth::node
