// Another node as a source of ranges of a model file (proto/piece.h). It has its own links, on the
// threads that read.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/thread_annotations.h"
#include "node/holding.h"
#include "node/layers/model_fetch.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::node {

struct PeerOptions {
  Hash256 model;  // model::Manifest::id()
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  std::chrono::milliseconds stall{10'000};  // a read fails after this time without a piece
};

class PeerSource final : public RangeSource {
 public:
  PeerSource(Holder holder, PeerOptions options);
  ~PeerSource() override;

  const std::string& name() const override { return name_; }
  std::string node() const override { return holder_.node; }
  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) override;

 private:
  class Connection;

  const Holder holder_;
  const PeerOptions options_;
  const std::string name_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_
      GUARDED_BY(mutex_);  // with links that are still open
};

}  // namespace hearth::node
