// LocalExchange: a group's exchanges within one process, each rank on a thread of its own.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "node/engine/ranks/exchange.h"

namespace hearth::node {

class LocalExchange {
 public:
  explicit LocalExchange(std::uint32_t ranks) : left_(ranks), boxes_(ranks), sent_(ranks) {
    for (auto& boxes : boxes_) boxes.resize(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<End>(*this, rank));
    }
  }

  Exchange& of(std::uint32_t rank) { return *ranks_[rank]; }
  // From here on the rank sends nothing, and a swap that waits for it fails.
  void leave(std::uint32_t rank) {
    const MutexLock lock(mutex_);
    left_[rank] = true;
    arrived_.notify_all();
  }
  // Bytes that a rank has sent to all others together, and its swaps.
  std::size_t sent(std::uint32_t rank) const { return sent_[rank]; }
  std::size_t swaps(std::uint32_t rank) const { return ranks_[rank]->swaps; }
  // The rank that this one has blamed.
  std::optional<std::uint32_t> culprit(std::uint32_t rank) const { return ranks_[rank]->culprit; }
  // Changes what a rank sends to rank 0.
  void forge(std::function<void(std::uint32_t from, Bytes& bytes)> change) {
    forge_ = std::move(change);
  }

 private:
  struct End final : Exchange {
    End(LocalExchange& all, std::uint32_t rank) : all(all), rank(rank) {}
    Status swap(std::span<const ByteSpan> out, std::span<const MutableByteSpan> in) override {
      ++swaps;
      return all.swap(rank, out, in);
    }
    Error blame(std::uint32_t other, const std::string& why) override {
      culprit = other;
      return Error::invalid("rank ", other, " ", why);
    }
    LocalExchange& all;
    const std::uint32_t rank;
    std::size_t swaps = 0;
    std::optional<std::uint32_t> culprit;
  };

  Status swap(std::uint32_t rank, std::span<const ByteSpan> out,
              std::span<const MutableByteSpan> in) {
    MutexLock lock(mutex_);
    for (std::uint32_t to = 0; to < out.size(); ++to) {
      if (out[to].empty() || left_[rank]) continue;
      Bytes bytes(out[to].begin(), out[to].end());
      sent_[rank] += bytes.size();
      if (to == 0 && forge_) forge_(rank, bytes);
      boxes_[to][rank].push_back(std::move(bytes));
    }
    arrived_.notify_all();
    for (std::uint32_t from = 0; from < in.size(); ++from) {
      if (in[from].empty()) continue;
      std::deque<Bytes>& box = boxes_[rank][from];
      while (box.empty() && !left_[from]) arrived_.wait(mutex_);
      if (box.empty()) return Error::of(ErrorCode::kIo, "rank ", from, " is lost");
      REQUIRE(box.front().size() == in[from].size(), "rank ", from, " sent ", box.front().size(),
              " bytes, awaited are ", in[from].size());
      std::copy(box.front().begin(), box.front().end(), in[from].begin());
      box.pop_front();
    }
    return ok_status();
  }

  Mutex mutex_;
  CondVar arrived_;
  std::vector<bool> left_;
  std::vector<std::vector<std::deque<Bytes>>> boxes_;  // [to][from]
  std::vector<std::size_t> sent_;
  std::vector<std::unique_ptr<End>> ranks_;
  std::function<void(std::uint32_t, Bytes&)> forge_;
};

// Runs task(rank) for each rank on a thread of its own. A rank that returns early, because a check
// failed, leaves: the others do not wait for it.
template <typename Task>
void on_ranks(std::uint32_t ranks, LocalExchange& exchange, const Task& task) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      task(rank);
      exchange.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hearth::node
