// A thread or a build whose float arithmetic is not the canonical function's is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>

#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hearth::kernels {

// The check of the order, built with flags that must not be used: float_order_built.cc.
const char* fault_of_usual();
const char* fault_of_fused();
const char* fault_of_reordered();
const char* fault_of_wide();
const char* fault_of_inverse();

namespace {

TEST(FloatEnvironment, AnOrdinaryThreadIsAccepted) {
  EXPECT_TRUE(check_float_environment().ok());
  bool ok = false;
  std::thread([&] { ok = check_float_environment().ok(); }).join();
  EXPECT_TRUE(ok);
}

struct Mode {
  std::uint64_t bits;
  const char* name;
  const char* refusal;
};
#if defined(__SSE__)
constexpr Mode kModes[] = {{0x8000U, "flush to zero", "subnormal"},
                           {0x0040U, "denormals are zero", "subnormal"},
                           {0x8040U, "both", "subnormal"},
                           {0x2000U, "down", "nearest"},
                           {0x4000U, "up", "nearest"},
                           {0x6000U, "toward zero", "nearest"}};

void set_mode(std::uint64_t bits) { _mm_setcsr(_mm_getcsr() | static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr Mode kModes[] = {{1U << 24, "flush to zero", "subnormal"},
                           {1U << 22, "up", "nearest"},
                           {2U << 22, "down", "nearest"},
                           {3U << 22, "toward zero", "nearest"}};

void set_mode(std::uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
#endif

#if defined(__SSE__) || defined(__aarch64__)
// `work` on a thread of its own with `mode` set, so that no other test sees the mode.
template <typename Work>
void with_mode(const Mode& mode, Work work) {
  std::thread([&] {
    set_mode(mode.bits);
    work();
  }).join();
}

TEST(FloatEnvironment, EveryOtherModeIsRefusedAndNamed) {
  for (const Mode& mode : kModes) {
    Status status = ok_status();
    with_mode(mode, [&] { status = check_float_environment(); });
    ASSERT_FALSE(status.ok()) << mode.name;
    EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
    EXPECT_NE(status.error().message.find(mode.refusal), std::string::npos)
        << mode.name << ": " << status.error().message;
  }
}

// Threads inherit the mode of the one that starts them.
TEST(FloatEnvironment, APoolDoesNotStartInAnotherMode) {
  for (const Mode& mode : kModes) {
    for (const unsigned threads : {1U, 3U}) {
      Status status = ok_status();
      with_mode(mode, [&] {
        const auto pool = ThreadPool::create(threads);
        if (!pool.ok()) status = pool.error();
      });
      ASSERT_FALSE(status.ok()) << mode.name;
      EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
    }
  }
}
#endif

#if defined(HEARTH_FLOAT_ORDER_BUILDS)
TEST(FloatOrder, EveryOtherBuildIsFoundAndNamed) {
  EXPECT_EQ(fault_of_usual(), nullptr);
  const auto names = [](const char* fault, const char* text) {
    return fault != nullptr && std::string(fault).find(text) != std::string::npos;
  };
#if defined(__SSE__)
  EXPECT_TRUE(names(fault_of_wide(), "wider"));
  const bool fma = __builtin_cpu_supports("fma") != 0;
#else
  const bool fma = true;
#endif
  if (fma) {
    EXPECT_TRUE(names(fault_of_fused(), "fused"));
  }
  EXPECT_TRUE(names(fault_of_reordered(), "order"));
  EXPECT_TRUE(names(fault_of_inverse(), "inverse"));
}
#endif

}  // namespace
}  // namespace hearth::kernels
