// PieceServer: a data transport that also serves pieces of a model (proto/piece.h). It wraps a
// transport; its user sees every link except those on which peers ask for pieces.
//
// Inference has priority: pieces are small and few, a thread of low priority reads them, and while
// steps travel on the other links the server pauses between two pieces.
//
// Threads: as every Transport, it belongs to the main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "node/layers/shared_file.h"
#include "proto/link/transport.h"

namespace hearth::node {

class PieceServer final : public Transport, private TransportEvents {
 public:
  // Runs a function on the main thread, later. Called from a thread of ours; never after the
  // destructor has returned.
  using Post = std::function<void(std::function<void()>)>;

  // `transport` outlives it.
  PieceServer(Transport& transport, std::shared_ptr<const SharedFile> file, Post post);
  ~PieceServer() override;
  PieceServer(const PieceServer&) = delete;
  PieceServer& operator=(const PieceServer&) = delete;

  void set_events(TransportEvents* events) override { events_ = events; }
  LinkId connect(std::string_view address) override { return transport_.connect(address); }
  Status send(LinkId link, Frame&& frame) override;
  void close(LinkId link) override { transport_.close(link); }
  std::optional<RosterEntry> peer(LinkId link) const override { return transport_.peer(link); }
  std::string host(LinkId link) const override { return transport_.host(link); }
  std::string address() const override { return transport_.address(); }

 private:
  struct State;

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;
  bool take_over(LinkId link);
  void on_request(LinkId link, const Frame& frame);
  void refuse(LinkId link, const std::string& why);

  Transport& transport_;
  TransportEvents* events_ = nullptr;
  std::set<LinkId> silent_;  // incoming links without a frame yet
  const std::shared_ptr<State> state_;
};

}  // namespace hearth::node
