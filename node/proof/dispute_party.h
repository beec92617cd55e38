// DisputeParty: what a node does with the orders of a dispute in which it is the worker or the
// auditor (ledger/PROTOCOL.md, 4, "Game"). It checks that the two have signed what the coordinator
// says they have, traces the run that it was given for it, and moves by a game of its own, fed with
// the other side's moves: so it signs nothing that the game does not ask for.
//
// An honest node cannot lose by a run that was not the disputed one: where tokens or rows that came
// in are others than its receipt names, it declines. One dispute at a time; the next takes its
// place. Any bytes may come from a coordinator. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/dispute.h"
#include "node/proof/dispute_player.h"
#include "node/proof/tracer.h"
#include "proto/control.pb.h"

namespace hearth::node {

class DisputeParty {
 public:
  static constexpr std::size_t kWindows = 5;  // 16,384 positions and the disputed window
  // The model, as far as these layers need it. May wait for them.
  using OpenModel = std::function<Result<std::shared_ptr<const model::GgufFile>>(LayerRange)>;

  using MakeTracer = std::function<std::unique_ptr<Tracer>(Tracer::Parts)>;

  DisputeParty(SecretKey key, PublicKey cluster, OpenModel open, MakeTracer make = make_tracer)
      : key_(std::move(key)),
        cluster_(std::move(cluster)),
        open_(std::move(open)),
        make_(std::move(make)) {}

  // A DisputeBegin: the request whose rows are to be kept. kInvalidInput: it is no dispute of ours.
  Result<ledger::RequestId> begin(const control::v1::DisputeOrder& order);
  // That request is over; takes as long as computing it row by row. kInvalidInput where what came
  // in is not what was signed, kNoCapacity where the layers have no room beside what serves.
  Status trace(Result<TraceInput> input, const std::function<bool()>& stopped);
  // A DisputePlay or DisputeShow; the same again gives the same.
  Result<control::v1::DisputeMove> move(const control::v1::DisputeOrder& order);
  void leave();
  static std::unique_ptr<Tracer> make_tracer(Tracer::Parts parts);

  std::uint64_t entry() const { return entry_; }  // of the latest begin()

 private:
  Status check_input(const TraceInput& input) const;
  Status take_other(const control::v1::DisputeMoved& other);
  Result<control::v1::DisputeMove> play(const control::v1::DisputePlay& order);
  Result<control::v1::DisputeMove> show(const control::v1::DisputeShow& order);

  const SecretKey key_;
  const PublicKey cluster_;
  const OpenModel open_;
  const MakeTracer make_;
  std::uint64_t entry_ = 0;
  ledger::DisputeSide side_ = ledger::DisputeSide::kWorker;
  ledger::DisputeFile file_;  // without moves
  std::optional<ledger::CheckedCase> case_;
  std::unique_ptr<Tracer> tracer_;
  std::optional<DisputePlayer> player_;
  std::optional<ledger::DisputeGame> game_;
  std::optional<control::v1::DisputeMoved> moved_;  // the latest
  Bytes evidence_;                                  // a file, once the game has found a value
};

}  // namespace hearth::node
