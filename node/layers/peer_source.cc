#include "node/layers/peer_source.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "proto/link/tcp_transport.h"
#include "proto/piece.h"

namespace hearth::node {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kWait = std::chrono::milliseconds(100);  // between two looks at the stall

}  // namespace

// One link with the thread that reads from it as its owner.
class PeerSource::Connection final : private TransportEvents {
 public:
  Connection(const Holder& holder, const PeerOptions& options)
      : holder_(holder), options_(options) {}

  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) {
    asked_ = begin;
    taken_ = begin;
    end_ = end;
    sink_ = &sink;
    over_.reset();
    moved_ = SteadyClock::now();
    TRY_VOID(open());
    if (opened_) ask();
    while (!over_ && taken_ < end_) {
      io_.restart();
      io_.run_one_for(kWait);
      if (!over_ && SteadyClock::now() - moved_ > options_.stall) {
        end_with(Error::of(ErrorCode::kTimeout, "the node has sent nothing for ",
                           options_.stall.count(), " ms"));
      }
    }
    return over_ ? Status(*over_) : ok_status();
  }
  bool usable() const { return opened_ && !over_; }

 private:
  Status open() {
    if (transport_ != nullptr) return ok_status();
    TcpOptions tcp;
    tcp.identity = options_.identity;
    tcp.roster = options_.roster;
    TRY(transport_, TcpTransport::open(io_, tcp));
    transport_->set_events(this);
    link_ = transport_->connect(holder_.address);
    return ok_status();
  }

  void end_with(Error why) {
    if (!over_) over_ = std::move(why);
  }

  // As many requests as a holder lets wait.
  void ask() {
    while (!over_ && asked_ < end_ && unanswered_ < limits::kPieceRequests) {
      const auto bytes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(limits::kPieceBytes, end_ - asked_));
      const Status sent = transport_->send(
          link_, {FrameType::kPieceRequest, encode(PieceRequest{options_.model, asked_, bytes})});
      if (!sent.ok()) return end_with(sent.error());
      asked_ += bytes;
      ++unanswered_;
    }
  }

  void on_link_open(LinkId link, bool incoming) override {
    if (incoming || link != link_) return;
    const auto peer = transport_->peer(link);
    if (!peer || peer->name != holder_.node) {
      return end_with(Error::invalid("the node at this address is not ", holder_.node));
    }
    opened_ = true;
    moved_ = SteadyClock::now();
    ask();
  }

  void on_frame(LinkId /*link*/, Frame frame) override {
    if (over_) return;
    const Status taken = take(frame);
    if (!taken.ok()) return end_with(taken.error());
    moved_ = SteadyClock::now();
    ask();
  }

  void on_link_closed(LinkId /*link*/, const Error& why) override {
    opened_ = false;
    end_with({ErrorCode::kUnavailable, why.message});
  }

  Status take(const Frame& frame) {
    if (frame.type == FrameType::kRefused) {
      return Error::of(ErrorCode::kNotFound, "the node refuses: ", decode_refused(frame.payload));
    }
    REQUIRE(frame.type == FrameType::kPiece && unanswered_ > 0,
            "the node sends a frame that was not requested, of type ",
            static_cast<int>(frame.type));
    TRY(const Piece piece, decode_piece(frame.payload));
    const std::uint64_t wanted = std::min<std::uint64_t>(limits::kPieceBytes, end_ - taken_);
    REQUIRE(piece.offset == taken_ && piece.bytes.size() == wanted, "the node sends ",
            piece.bytes.size(), " bytes from ", piece.offset, " instead of ", wanted, " from ",
            taken_);
    --unanswered_;
    taken_ += wanted;
    return (*sink_)(piece.bytes);
  }

  const Holder& holder_;
  const PeerOptions& options_;
  boost::asio::io_context io_;
  std::unique_ptr<TcpTransport> transport_;
  LinkId link_;
  bool opened_ = false;
  std::uint64_t asked_ = 0;  // up to here
  std::uint64_t taken_ = 0;
  std::uint64_t end_ = 0;
  std::uint32_t unanswered_ = 0;
  const Sink* sink_ = nullptr;
  std::optional<Error> over_;  // the read, and the link with it
  SteadyClock::time_point moved_;
};

PeerSource::PeerSource(Holder holder, PeerOptions options)
    : holder_(std::move(holder)),
      options_(std::move(options)),
      name_(holder_.node + " at " + holder_.address) {}

PeerSource::~PeerSource() = default;

Status PeerSource::read(std::uint64_t begin, std::uint64_t end, const Sink& sink) {
  std::unique_ptr<Connection> connection;
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (connection == nullptr) connection = std::make_unique<Connection>(holder_, options_);
  TRY_VOID(connection->read(begin, end, sink));
  if (!connection->usable()) return ok_status();
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(connection));
  return ok_status();
}

}  // namespace hearth::node
