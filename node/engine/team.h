// Team: the engine's threads. One piece of work runs on all of them at once, and meets at barriers
// in between, which cost less than handing out pieces.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace hearth::node {

class Team {
 public:
  // Starts threads - 1 threads; the caller of run() is member 0. Throws std::system_error.
  explicit Team(std::uint32_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::uint32_t size() const { return size_; }

  // Runs work(member) on every member and returns when all have returned. One caller at a time.
  void run(const std::function<void(std::uint32_t)>& work);

  // Inside run: waits until every member is here.
  void barrier();

 private:
  void serve(std::uint32_t member);
  void stop();

  const std::uint32_t size_;
  const std::function<void(std::uint32_t)>* work_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> round_{0};    // counts up with each run
  alignas(64) std::atomic<std::uint32_t> arrived_{0};  // members at the barrier
  alignas(64) std::atomic<std::uint32_t> passed_{0};   // barriers passed
  std::vector<std::thread> threads_;
};

}  // namespace hearth::node
