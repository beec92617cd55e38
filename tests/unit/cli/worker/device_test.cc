#include "cli/worker/device.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

using Kind = DeviceChoice::Kind;

TEST(Device, NamesTheProcessorOrACard) {
  EXPECT_EQ(parse_device("auto")->kind, Kind::kAuto);
  EXPECT_EQ(parse_device("cpu")->kind, Kind::kCpu);
  EXPECT_EQ(parse_device("cuda")->kind, Kind::kCuda);
  EXPECT_EQ(parse_device("cuda")->index, 0U);
  EXPECT_EQ(parse_device("cuda:3")->index, 3U);
  EXPECT_EQ(parse_device("cuda:63")->index, 63U);
  EXPECT_EQ(parse_device("opencl")->kind, Kind::kOpencl);
  EXPECT_EQ(parse_device("opencl:1")->kind, Kind::kOpencl);
  EXPECT_EQ(parse_device("opencl:1")->index, 1U);
  EXPECT_EQ(parse_device("auto:2")->kind, Kind::kAuto);
  EXPECT_EQ(parse_device("auto:2")->index, 2U);
  for (const char* wrong :
       {"", "auto:", "auto:64", "cpu:0", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:64",
        "CPU", "cuda:99999999999999999999", "cuda 1", "opencl:"}) {
    const auto choice = parse_device(wrong);
    ASSERT_FALSE(choice.ok()) << wrong;
    EXPECT_EQ(choice.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(choice.error().message.find("cuda:N"), std::string::npos);
  }
}

TEST(Device, EachLocalWorkerHasACardOfItsOwnWhileThereAreCards) {
  const std::vector<std::string> expected = {"auto:0", "auto:1", "cpu"};
  EXPECT_EQ(worker_devices("auto", 3, 2), expected);
  EXPECT_EQ(worker_devices("auto", 2, 0), std::vector<std::string>(2, "cpu"));
  EXPECT_EQ(worker_devices("cpu", 2, 2), std::vector<std::string>(2, "cpu"));
  EXPECT_EQ(worker_devices("cuda:1", 1, 2), std::vector<std::string>(1, "cuda:1"));
}

#ifndef HEARTH_CARDS
TEST(Device, ABuildWithoutDeviceCodeSaysSo) {
  EXPECT_TRUE(check_device_choice("auto").ok());
  EXPECT_TRUE(check_device_choice("cpu").ok());
  EXPECT_EQ(cards_here(), 0U);
  for (const auto& [choice, option] :
       {std::pair{"cuda:1", "HEARTH_CUDA=ON"}, std::pair{"opencl:1", "HEARTH_OPENCL=ON"}}) {
    const Status refused = check_device_choice(choice);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("--device " + std::string(choice) +
                                           ": this build has no GPU code"),
              std::string::npos);
    EXPECT_NE(refused.error().message.find(option), std::string::npos);
  }
}
#endif

}  // namespace
}  // namespace hearth::cli
