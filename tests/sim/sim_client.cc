#include "tests/sim/sim_client.h"

#include <optional>
#include <utility>

#include "base/result.h"

namespace hearth::sim {

using coordinator::Coordinator;

struct SimClient::Stream final : coordinator::SequenceEvents {
  Stream(SimClient& owner, std::uint32_t of) : client(owner), request(of) {}

  SimClient& client;
  std::uint32_t request;
  SequenceId id;
  std::size_t tokens = 0;
  bool admitted = false;
  bool hashed = false;
  bool open = true;
  bool complete = false;
  bool cached = false;
  bool may_share = true;
  bool background = false;
  std::optional<ReceiptOrder> receipt;
  std::uint64_t order = 0;  // of its submission

  std::string name() const { return "sequence " + std::to_string(id.value); }
  const Answer& answer() const { return client.reference_.answer(request); }

  void expect(bool condition, const std::string& what) {
    if (!condition) client.violation(name() + ": " + what);
  }

  // First come, first served, among those that are not in the background.
  void on_admitted() override {
    expect(open && !admitted, "admitted twice or after its end");
    admitted = true;
    if (background) return;
    if (order <= client.last_admitted_) client.violation("admitted out of order");
    client.last_admitted_ = order;
  }

  void on_cached(std::uint32_t positions) override {
    client.world_.trace(name() + " cached " + std::to_string(positions));
    client.tally_.cached += positions;
    expect(open && admitted && tokens == 0 && !cached, "cached positions at another time");
    expect(may_share, "cached positions of a request that shares with none");
    expect(positions < client.reference_.request(request).prompt.size(),
           "cached positions behind the prompt");
    cached = true;
  }

  void on_token(const SampledToken& token) override {
    client.world_.trace(name() + " token " + std::to_string(token.token));
    ++client.tally_.tokens;
    expect(open, "a token after the end");
    expect(admitted, "a token before the admission");
    const std::vector<SampledToken>& expected = answer().tokens;
    if (tokens >= expected.size()) return expect(false, "more tokens than the reference");
    SampledToken same = token;
    same.sequence = expected[tokens].sequence;
    expect(same == expected[tokens], "token " + std::to_string(tokens) + " is " +
                                         std::to_string(token.token) + " at position " +
                                         std::to_string(token.position) + ", the reference has " +
                                         std::to_string(expected[tokens].token) + " at " +
                                         std::to_string(expected[tokens].position));
    ++tokens;
    if (token.finish == FinishReason::kNone) return;
    expect(tokens == expected.size(), "ended early");
    expect(hashed == (client.stages_ > 0 && client.reference_.request(request).report_hashes),
           "hashes come before the last token, when they are asked for");
    open = false;
    complete = true;
    ++client.tally_.finished;
    if (receipt) client.receipts_.finished(*receipt);
  }

  void on_hashes(std::vector<RowHash> hashes) override {
    expect(open && !hashed, "hashes twice or after the end");
    hashed = true;
    const std::vector<RowHash>& expected = answer().hashes.at(client.stages_);
    client.tally_.hashes += hashes.size();
    if (hashes.size() != expected.size()) ++client.tally_.short_hashes;
    std::size_t at = 0;
    for (RowHash& hash : hashes) {
      hash.sequence = expected.front().sequence;
      while (at < expected.size() && !(expected[at] == hash)) ++at;
    }
    expect(at < expected.size() || hashes.empty(), "a hash that the reference does not have");
  }

  void on_error(const Error& error) override {
    client.world_.trace(name() + " error " + error.message);
    expect(open, "an error after the end");
    expect(error.code == ErrorCode::kUnavailable, "an error of another kind: " + error.message);
    expect(!error.message.empty(), "an error without a sentence");
    open = false;
    ++client.tally_.failed;
    for (const char* sign : {"bad frame", "broke the contract", "does not belong", "follows"}) {
      if (error.message.find(sign) == std::string::npos) continue;
      ++client.tally_.protocol_errors;
      break;
    }
  }
};

SimClient::SimClient(SimWorld& world, const Reference& reference, std::uint32_t stages)
    : world_(world), reference_(reference), stages_(stages) {}

void SimClient::violation(const std::string& what) {
  world_.trace("VIOLATION " + what);
  violations_.push_back(what);
}

int SimClient::submit(Coordinator& coordinator, int request) {
  const std::uint32_t index =
      request >= 0 ? static_cast<std::uint32_t>(request)
                   : static_cast<std::uint32_t>(world_.between(0, Reference::kRequests - 1));
  auto stream = std::make_shared<Stream>(*this, index);
  stream->background = request < 0 && world_.between(0, 3) == 0;
  stream->order = ++tally_.submitted;
  coordinator::GenerateRequest order = reference_.request(index);
  order.report_hashes = order.report_hashes && stages_ > 0;
  order.background = stream->background;
  order.policy.cache = static_cast<coordinator::CacheScope>(world_.between(0, 2));
  stream->may_share = order.policy.cache != coordinator::CacheScope::kOff;
  if (receipts_.order) order.receipt = stream->receipt = receipts_.order();
  const Result<SequenceId> taken = coordinator.submit(std::move(order), stream);
  if (!taken.ok()) {
    ++tally_.refused;
    world_.trace("submit refused: " + taken.error().message);
    const bool typed = taken.error().code == ErrorCode::kUnavailable ||
                       taken.error().code == ErrorCode::kNoCapacity;
    if (!typed) violation("a submit refused for another reason: " + taken.error().message);
    return -1;
  }
  stream->id = *taken;
  world_.trace("submit " + std::to_string(index) + " as " + std::to_string(stream->id.value));
  streams_[next_stream_] = std::move(stream);
  return next_stream_++;
}

void SimClient::cancel_one(Coordinator& coordinator) {
  std::vector<std::shared_ptr<Stream>> open;
  for (const auto& [number, stream] : streams_) {
    if (stream->open) open.push_back(stream);
  }
  if (open.empty()) return;
  const auto& stream = open[world_.between(0, open.size() - 1)];
  world_.trace("cancel " + std::to_string(stream->id.value));
  stream->open = false;
  ++tally_.cancelled;
  coordinator.cancel(stream->id);
}

void SimClient::abandon() {
  for (const auto& [number, stream] : streams_) {
    if (!stream->open) continue;
    stream->open = false;
    ++tally_.abandoned;
  }
}

bool SimClient::finished(int stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && found->second->complete;
}

void SimClient::forget_ended() {
  std::erase_if(streams_, [](const auto& one) { return !one.second->open; });
}

std::uint32_t SimClient::open_streams() const {
  std::uint32_t open = 0;
  for (const auto& [number, stream] : streams_) open += stream->open ? 1 : 0;
  return open;
}

}  // namespace hearth::sim
