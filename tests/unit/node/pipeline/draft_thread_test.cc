#include "node/pipeline/draft_thread.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "model/synthetic.h"

namespace hearth::node {
namespace {

DraftAsk ask_of_one() {
  DraftAsk ask;
  ask.open.sequence = SequenceId(4);
  ask.open.prompt_tokens = 2;
  ask.open.sampling.max_tokens = 20;
  ask.tokens = {300, 301, 302};
  ask.count = 3;
  return ask;
}

// Waits until the thread has posted the answer.
DraftAnswer answer_of(DraftThread& thread) {
  std::promise<DraftAnswer> promise;
  thread.ask(ask_of_one(), [&](DraftAnswer answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

// Runs posted functions on the draft thread itself.
void post_here(const std::function<void()>& task) { task(); }

TEST(DraftThreadTest, LoadsAtTheFirstAskAndAgainAfterAnUnload) {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  EngineOptions stage;
  stage.kv_budget_bytes = 8 << 20;
  const DraftFile draft = DraftModel::open(file, *file, stage).value();
  std::atomic<int> loads = 0;
  DraftThread thread(
      [&](const std::function<bool()>&) {
        ++loads;
        return DraftModel::load(draft);
      },
      post_here);
  EXPECT_EQ(loads, 0);
  const DraftAnswer first = answer_of(thread);
  EXPECT_FALSE(first.failed);
  EXPECT_EQ(first.sequence, SequenceId(4));
  EXPECT_EQ(first.drafts.size(), 3U);
  EXPECT_EQ(answer_of(thread).drafts, first.drafts);
  EXPECT_EQ(loads, 1);
  thread.unload([] {});
  EXPECT_EQ(answer_of(thread).drafts, first.drafts);
  EXPECT_EQ(loads, 2);
}

TEST(DraftThreadTest, AModelThatCannotBeLoadedFailsUntilAnUnload) {
  std::atomic<int> loads = 0;
  DraftThread thread(
      [&](const std::function<bool()>&) -> Result<std::unique_ptr<DraftModel>> {
        ++loads;
        return Error{ErrorCode::kNoCapacity, "no room"};
      },
      post_here);
  for (int i = 0; i < 3; ++i) {
    const DraftAnswer answer = answer_of(thread);
    EXPECT_TRUE(answer.failed);
    EXPECT_EQ(answer.sequence, SequenceId(4));
  }
  EXPECT_EQ(loads, 1);
  thread.unload([] {});
  EXPECT_TRUE(answer_of(thread).failed);
  EXPECT_EQ(loads, 2);
}

// Two asks of a pipeline that has ended wait, and the queue is full, when the model is unloaded.
TEST(DraftThreadTest, AsksFromBeforeAnUnloadLoadNothing) {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<int> loads = 0;
  std::atomic<int> failed = 0;
  DraftThread thread(
      [&](const std::function<bool()>&) -> Result<std::unique_ptr<DraftModel>> {
        if (++loads > 1) return Error{ErrorCode::kNoCapacity, "no room"};
        begun.set_value();
        go_on.get_future().wait();
        return Error{ErrorCode::kNoCapacity, "no room"};
      },
      post_here);
  const auto count = [&](const DraftAnswer& answer) { failed += answer.failed ? 1 : 0; };
  thread.ask(ask_of_one(), count);
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) thread.ask(ask_of_one(), count);
  std::promise<int> unloaded;
  thread.unload([&] { unloaded.set_value(failed); });
  go_on.set_value();
  EXPECT_EQ(unloaded.get_future().get(), 4) << "the asks were answered before";
  EXPECT_EQ(loads, 1);
  EXPECT_TRUE(answer_of(thread).failed);
  EXPECT_EQ(loads, 2) << "a later ask loads it";
}

TEST(DraftThreadTest, AnUnloadAndTheEndCancelTheLoading) {
  std::array<std::promise<void>, 2> begun;
  std::atomic<std::size_t> loads = 0;
  std::promise<void> unloaded;
  {
    DraftThread thread(
        [&](const std::function<bool()>& cancelled) -> Result<std::unique_ptr<DraftModel>> {
          begun.at(loads++).set_value();
          while (!cancelled()) std::this_thread::yield();
          return Error{ErrorCode::kCancelled, "loading was cancelled"};
        },
        post_here);
    thread.ask(ask_of_one(), [](const DraftAnswer& answer) { EXPECT_TRUE(answer.failed); });
    begun[0].get_future().wait();
    thread.unload([&] { unloaded.set_value(); });
    unloaded.get_future().wait();
    thread.ask(ask_of_one(), [](const DraftAnswer& answer) { EXPECT_TRUE(answer.failed); });
    begun[1].get_future().wait();
  }
  EXPECT_EQ(loads, 2U);
}

}  // namespace
}  // namespace hearth::node
