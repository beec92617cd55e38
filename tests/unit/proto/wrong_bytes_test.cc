#include "proto/wrong_bytes.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"
#include "proto/control.pb.h"

namespace hearth {
namespace {

WrongBytes some() {
  return {"desk", blake2b(as_bytes("a model")), "tensor blk.0.attn_q.weight", 1000, 2000};
}

TEST(WrongBytes, TravelsAsItIs) {
  control::v1::WrongBytes message;
  write_wrong_bytes(some(), message);
  const auto read = read_wrong_bytes(message);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, some());
}

TEST(WrongBytes, WhatIsOutOfBoundsIsRefusedByName) {
  using Message = control::v1::WrongBytes;
  const auto refusal = [](const std::function<void(Message&)>& change) {
    Message message;
    write_wrong_bytes(some(), message);
    change(message);
    const auto read = read_wrong_bytes(message);
    return read.ok() ? std::string("taken") : read.error().message;
  };
  EXPECT_NE(refusal([](Message& m) { m.clear_node(); }).find("node name"), std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.set_node("a\n"); }).find("printable"), std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.clear_model(); }).find("must have 32"), std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.set_model(std::string(33, 'x')); }).find("33 bytes"),
            std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.clear_item(); }).find("has 0 bytes"), std::string::npos);
  EXPECT_NE(refusal([](Message& m) {
              m.set_item(std::string(limits::kWrongItemBytes + 1, 'x'));
            }).find(std::to_string(limits::kWrongItemBytes)),
            std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.set_begin(2000); }).find("not a range"), std::string::npos);
  EXPECT_NE(refusal([](Message& m) { m.set_end(limits::kModelFileBytes + 1); }).find("not a range"),
            std::string::npos);
  EXPECT_EQ(refusal([](Message& m) { m.set_item(std::string(limits::kWrongItemBytes, 'x')); }),
            "taken");
}

TEST(WrongBytes, NothingSteersATerminal) {
  control::v1::WrongBytes message;
  write_wrong_bytes(some(), message);
  message.set_item("tensor \x1b[2J\xff");
  EXPECT_EQ(read_wrong_bytes(message).value().item.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace hearth
