#include "node/control/hold_messages.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"

namespace hearth::node {
namespace {

control::v1::Hold some_hold() {
  control::v1::Hold hold;
  hold.mutable_layers()->set_begin(2);
  hold.mutable_layers()->set_end(4);
  hold.set_why("stage 2 of 2");
  hold.set_model(std::string(32, 'm'));
  auto& holder = *hold.add_holders();
  holder.set_node("desk");
  holder.set_address("192.168.1.21:40001");
  return hold;
}

TEST(HoldMessages, APlanIsRead) {
  const auto hold = read_hold(some_hold(), 4);
  ASSERT_TRUE(hold.ok()) << hold.error().message;
  EXPECT_EQ(hold->plan.layers, (LayerRange{2, 4}));
  EXPECT_EQ(hold->plan.why, "stage 2 of 2");
  EXPECT_EQ(hold->plan.holders, (std::vector<Holder>{{"desk", "192.168.1.21:40001"}}));
  EXPECT_EQ(hold->model.bytes[31], static_cast<std::byte>('m'));
}

TEST(HoldMessages, WhatIsNoPlanIsRefused) {
  const auto refusal = [](const std::function<void(control::v1::Hold&)>& change) {
    control::v1::Hold wrong = some_hold();
    change(wrong);
    const auto hold = read_hold(wrong, 4);
    return hold.ok() ? std::string() : hold.error().message;
  };
  EXPECT_EQ(refusal([](auto& hold) { hold.clear_model(); }), "") << "not made yet";
  EXPECT_NE(refusal([](auto& hold) { hold.mutable_layers()->set_end(5); }), "");
  EXPECT_NE(refusal([](auto& hold) { hold.mutable_layers()->set_end(2); }), "");
  EXPECT_NE(refusal([](auto& hold) { hold.clear_layers(); }), "");
  EXPECT_NE(refusal([](auto& hold) { hold.set_model("short"); }), "");
  EXPECT_NE(refusal([](auto& hold) { hold.mutable_holders(0)->set_address("evil.example:1"); }),
            "");
  EXPECT_NE(refusal([](auto& hold) { hold.mutable_holders(0)->set_node("a\nb"); }), "");
  EXPECT_NE(refusal([](auto& hold) {
              while (hold.holders_size() <= static_cast<int>(limits::kHolders)) {
                *hold.add_holders() = hold.holders(0);
              }
            }),
            "");
  const auto hold = [] {
    control::v1::Hold odd = some_hold();
    odd.set_why("\x1b[2J");
    return read_hold(odd, 4);
  }();
  EXPECT_EQ(hold->plan.why, "?[2J") << "it is shown";
}

TEST(HoldMessages, AHoldingIsWritten) {
  control::v1::Holding message;
  write_holding({{2, 4}, 50, 100}, message);
  EXPECT_EQ(message.layers().begin(), 2U);
  EXPECT_EQ(message.layers().end(), 4U);
  EXPECT_EQ(message.done(), 50U);
  EXPECT_EQ(message.total(), 100U);
}

}  // namespace
}  // namespace hearth::node
