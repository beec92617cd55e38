// Streams, events and pinned memory of the emulated card: a missing order is found with every seed.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime.h"
#include "tests/emulated/emulated_runtime.h"

namespace hearth::kernels::cuda {
namespace {

using emulated::Fault;

constexpr std::uint64_t kSeeds = 16;
constexpr std::size_t kWords = 64;
constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);

void double_words(Global<const std::uint32_t> in, Global<std::uint32_t> out) {
  out.put(thread_index(), 2 * in.get(thread_index()));
}

// What is left out of two steps that overlap.
enum class Lacks {
  kNothing,
  kWaitForUpload,
  kRecordBehindUpload,  // it stands in front
  kWaitForReader,       // before what a kernel reads is overwritten
  kWaitForKernel,
  kWaitForDownload,  // before what is sent is overwritten
  kHostsPatience,    // the host writes again what is still to be sent
  kHostsWait,        // it reads what is still to come
};

// Words go up, a kernel doubles them, and they come down, twice, with no wait of the host between.
class Steps {
 public:
  Steps() {
    up_ = make_stream().value();
    compute_ = make_stream().value();
    down_ = make_stream().value();
    for (OwnedEvent* event : {&uploaded_, &computed_, &sent_}) *event = make_event().value();
    memory_ = DeviceMemory::allocate(2 * kBytes).value();
    in_ = memory_.part(0, kBytes);
    out_ = memory_.part(kBytes, kBytes);
    host_ = PinnedMemory::allocate(4 * kBytes).value();
    EXPECT_TRUE(fill_zero(memory_.data(), 2 * kBytes, nullptr).ok());
  }

  // The two results. `graph`: the second kernel runs as one.
  std::vector<std::uint32_t> run(Lacks lacks, bool graph) {
    for (unsigned i = 0; i < 2; ++i) step(i, lacks, graph && i == 1);
    if (lacks == Lacks::kHostsPatience) words(1)[3] = 0;
    if (lacks != Lacks::kHostsWait) {
      EXPECT_TRUE(synchronize(down_.get()).ok());
    }
    std::vector<std::uint32_t> results(words(2), words(2) + 2 * kWords);
    EXPECT_TRUE(synchronize(down_.get()).ok());
    return results;
  }

 private:
  std::uint32_t* words(unsigned part) const {
    return reinterpret_cast<std::uint32_t*>(host_.data()) + part * kWords;
  }

  void kernel(bool graph) {
    if (graph) {
      EXPECT_TRUE(begin_capture(compute_.get()).ok());
    }
    launch(double_words, {1, 1}, kWords, 0, compute_.get(),
           Global(reinterpret_cast<const std::uint32_t*>(in_)),
           Global(reinterpret_cast<std::uint32_t*>(out_)));
    if (!graph) return;
    graph_ = end_capture(compute_.get()).value();
    EXPECT_TRUE(cuda::launch(graph_.get(), compute_.get()).ok());
  }

  void step(unsigned i, Lacks lacks, bool graph) {
    for (std::uint32_t k = 0; k < kWords; ++k) words(i)[k] = 100 * i + k;
    if (i > 0 && lacks != Lacks::kWaitForReader) wait_for(up_, computed_);
    if (lacks == Lacks::kRecordBehindUpload) record_on(up_, uploaded_);
    EXPECT_TRUE(copy_to_device(in_, words(i), kBytes, up_.get()).ok());
    if (lacks != Lacks::kRecordBehindUpload) record_on(up_, uploaded_);
    if (lacks != Lacks::kWaitForUpload) wait_for(compute_, uploaded_);
    if (i > 0 && lacks != Lacks::kWaitForDownload) wait_for(compute_, sent_);
    kernel(graph);
    record_on(compute_, computed_);
    if (lacks != Lacks::kWaitForKernel) wait_for(down_, computed_);
    EXPECT_TRUE(copy_to_host(words(2 + i), out_, kBytes, down_.get()).ok());
    record_on(down_, sent_);
  }

  static void wait_for(const OwnedStream& stream, const OwnedEvent& event) {
    EXPECT_TRUE(wait(stream.get(), event.get()).ok());
  }
  static void record_on(const OwnedStream& stream, const OwnedEvent& event) {
    EXPECT_TRUE(record(event.get(), stream.get()).ok());
  }

  OwnedStream up_, compute_, down_;
  OwnedEvent uploaded_, computed_, sent_;
  OwnedGraph graph_;
  DeviceMemory memory_;
  PinnedMemory host_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
};

std::vector<std::uint32_t> right_results() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 2 * kWords; ++i) all.push_back(2 * (i / 64 * 100 + i % 64));
  return all;
}

TEST(EmulatedStreams, RunWhatIsOrdered) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const bool graph : {false, true}) {
      emulated::set_seed(seed);
      EXPECT_EQ(Steps().run(Lacks::kNothing, graph), right_results()) << "seed " << seed;
    }
  }
}

void expect_fault(Lacks lacks, const std::string& what) {
  for (std::uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    emulated::set_seed(seed);
    try {
      Steps().run(lacks, seed % 2 == 1);
      ADD_FAILURE() << "seed " << seed << ": not found: " << what;
    } catch (const Fault& fault) {
      EXPECT_NE(std::string(fault.what()).find(what), std::string::npos) << fault.what();
    }
    emulated::fail_after(emulated::Fail::kNothing, 0);  // forgets what the fault left behind
  }
}

TEST(EmulatedStreams, FindAMissingWait) {
  const std::string unordered = "nothing orders the two";
  expect_fault(Lacks::kWaitForUpload, unordered);
  expect_fault(Lacks::kRecordBehindUpload, unordered);
  expect_fault(Lacks::kWaitForReader, unordered);
  expect_fault(Lacks::kWaitForKernel, unordered);
  expect_fault(Lacks::kWaitForDownload, unordered);
}

TEST(EmulatedStreams, FindAHostThatDoesNotWait) {
  expect_fault(Lacks::kHostsPatience, "the host changed pinned memory before it waited");
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    emulated::set_seed(seed);
    const std::vector<std::uint32_t> found = Steps().run(Lacks::kHostsWait, false);
    const std::vector<std::uint32_t> right = right_results();
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NE(found[i], right[i]);
  }
}

TEST(EmulatedStreams, FindPinnedMemoryThatIsFreedTooEarly) {
  const OwnedStream stream = make_stream().value();
  DeviceMemory memory = DeviceMemory::allocate(kBytes).value();
  std::byte* const to = memory.part(0, kBytes);
  {
    const PinnedMemory host = PinnedMemory::allocate(kBytes).value();
    ASSERT_TRUE(copy_to_device(to, host.data(), kBytes, stream.get()).ok());
  }
  EXPECT_THROW(static_cast<void>(synchronize(stream.get()).ok()), Fault);
}

}  // namespace
}  // namespace hearth::kernels::cuda
