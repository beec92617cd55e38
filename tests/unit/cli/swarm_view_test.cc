#include "cli/swarm_view.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

// As coordinator/http/state.cc writes it.
const std::string kState = R"({"version":"0.1.0","ready":false,"missing":"no pipeline serves",
  "uncovered":[{"layers":[10,20],"weight_bytes":36000000,"memory_bytes":95000000},
               {"layers":[20,30]}],
  "stages_wanted":3,"running":2,"waiting":1,"tokens_per_second":30.5,
  "prompt_tokens_per_second":12.0,
  "model":{"id":"tiny","file_bytes":145000000,"layers":30,"context":2048},
  "nodes":[{"name":"den","state":"serving","isa":"avx2","threads":2,"epoch":7,"stage":0,
            "layers":[0,10],"kv_pages":20,"weight_bytes":36,"rows_total":99,
            "kv_tokens_used":64,"rows_per_second":30.5,"busy_ratio":0.25,
            "heartbeat_age_seconds":0.1},
           {"name":"attic","state":"free","isa":"scalar","threads":1,"epoch":0,"stage":0,
            "layers":[0,0],"kv_pages":0,"weight_bytes":0,"rows_total":0,"kv_tokens_used":0}],
  "pipelines":[{"epoch":7,"state":"serving","kv_page_tokens":32}]})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kState;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SwarmView, ReadsTheStateOfAServer) {
  const auto view = read_swarm_view(kState);
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->model, "tiny");
  EXPECT_EQ(view->layers, 30U);
  EXPECT_FALSE(view->ready);
  EXPECT_EQ(view->missing, "no pipeline serves");
  EXPECT_EQ(view->tokens_per_second, 30.5);
  EXPECT_EQ(view->prompt_tokens_per_second, 12.0);
  ASSERT_EQ(view->nodes.size(), 2U);
  EXPECT_TRUE(view->nodes[0].placed);
  EXPECT_EQ(view->nodes[0].layers, (LayerRange{0, 10}));
  EXPECT_EQ(view->nodes[0].kv_tokens, 640U) << "pages of its own pipeline";
  EXPECT_EQ(view->nodes[0].busy_ratio, 0.25);
  EXPECT_FALSE(view->nodes[1].placed);
  EXPECT_EQ(view->nodes[1].rows_per_second, 0.0) << "a server of before";
  ASSERT_EQ(view->gaps.size(), 2U);
  EXPECT_EQ(view->gaps[0].memory_bytes, 95'000'000U);
  EXPECT_EQ(view->gaps[1].memory_bytes, 0U);
}

TEST(SwarmView, RefusesWhatIsNoState) {
  for (const std::string& bad :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"ready\":true}"),
        with("\"ready\":false", "\"ready\":\"no\""), with("[10,20]", "[20,10]"),
        with("[10,20]", "[-1,10]"), with("[10,20]", "[10]"), with("[0,10]", "{}"),
        with("\"threads\":2", "\"threads\":-2"), with("\"threads\":2", "\"threads\":2.5"),
        with("\"name\":\"den\"", "\"name\":3"), with("\"nodes\":[", "\"nodes\":[7,"),
        with("\"missing\":\"no pipeline serves\"", "\"missing\":[]"),
        with("\"busy_ratio\":0.25", "\"busy_ratio\":\"x\"")}) {
    const auto view = read_swarm_view(bad);
    ASSERT_FALSE(view.ok()) << bad;
    EXPECT_EQ(view.error().code, ErrorCode::kInvalidInput);
  }
}

TEST(SwarmView, ReadsWhatACardSays) {
  const auto view = read_swarm_view(
      with("\"threads\":2",
           "\"threads\":2,\"device\":\"cuda:0\",\"card\":{\"celsius\":61,\"watts\":9.5}"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->nodes[0].device, "cuda:0");
  EXPECT_EQ(view->nodes[0].card.celsius, 61U);
  EXPECT_EQ(view->nodes[0].card.watts, 9.5);
  EXPECT_FALSE(view->nodes[0].card.busy_percent);
  EXPECT_FALSE(
      read_swarm_view(with("\"threads\":2", "\"threads\":2,\"card\":{\"celsius\":-1}")).ok());
  EXPECT_FALSE(read_swarm_view(with("\"threads\":2", "\"threads\":2,\"card\":7")).ok());
}

TEST(SwarmView, WhatIsNoNumberIsZero) {
  const auto view = read_swarm_view(with("\"busy_ratio\":0.25", "\"busy_ratio\":null"));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->nodes[0].busy_ratio, 0.0);
}

}  // namespace
}  // namespace hearth::cli
