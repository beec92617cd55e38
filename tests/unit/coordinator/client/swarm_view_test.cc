#include "coordinator/client/swarm_view.h"

#include <gtest/gtest.h>

namespace hearth::client {
namespace {

// As coordinator/http/routes/state.cc writes it.
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
            "layers":[0,0],"held":{"layers":[0,10],"bytes":50,"bytes_total":100},
            "kv_pages":0,"weight_bytes":0,"rows_total":0,"kv_tokens_used":0}],
  "pipelines":[{"epoch":7,"state":"serving","kv_page_tokens":32}]})";

std::string replaced(const std::string& from, const std::string& to) {
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
  EXPECT_EQ(view->nodes[1].rows_per_second, 0.0) << "an older server sends none";
  EXPECT_EQ(view->nodes[0].held_total, 0U) << "it has the file";
  EXPECT_EQ(view->nodes[1].held_bytes, 50U);
  EXPECT_EQ(view->nodes[1].held_total, 100U);
  ASSERT_EQ(view->gaps.size(), 2U);
  EXPECT_EQ(view->gaps[0].memory_bytes, 95'000'000U);
  EXPECT_EQ(view->gaps[1].memory_bytes, 0U);
}

TEST(SwarmView, RequestsThatCanRunAreThoseOfThePipelinesThatServe) {
  EXPECT_EQ(read_swarm_view(kState)->running_most, 0U) << "an older server sends none";
  const auto view =
      read_swarm_view(replaced(R"("kv_page_tokens":32})", R"("kv_page_tokens":32,"sequences":9},
         {"epoch":8,"state":"serving","kv_page_tokens":32,"sequences":5},
         {"epoch":9,"state":"forming","kv_page_tokens":32,"sequences":7})"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->running_most, 14U);
}

TEST(SwarmView, WhoIsSaidToHaveSentWrongBytes) {
  const auto view = read_swarm_view(
      replaced("\"pipelines\":", R"("wrong_bytes":[{"node":"den","accusers":2,"item":"the header",
                                 "out":true},{"node":"attic","accusers":1}],"pipelines":)"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  ASSERT_EQ(view->accused.size(), 2U);
  EXPECT_EQ(view->accused[0].node, "den");
  EXPECT_EQ(view->accused[0].accusers, 2U);
  EXPECT_EQ(view->accused[0].item, "the header");
  EXPECT_TRUE(view->accused[0].out);
  EXPECT_FALSE(view->accused[1].out);
  for (const char* bad : {R"({"a":1})", "[1]", R"([{"accusers":1}])",
                          R"([{"node":"a","accusers":-1}])", R"([{"node":7,"accusers":1}])"}) {
    EXPECT_FALSE(read_swarm_view(replaced("\"pipelines\":", R"("wrong_bytes":)" + std::string(bad) +
                                                                R"(,"pipelines":)"))
                     .ok())
        << bad;
  }
}

TEST(SwarmView, Drafts) {
  EXPECT_TRUE(read_swarm_view(kState)->drafts.empty()) << "an older server sends none";
  const auto view = read_swarm_view(
      replaced("\"pipelines\":", R"("totals":{"drafts":{"lookup":{"drafted":5,"accepted":4},
                                 "model":{"drafted":3,"accepted":1}}},"pipelines":)"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  ASSERT_EQ(view->drafts.size(), 2U);
  EXPECT_EQ(view->drafts[1].kind, "model");
  EXPECT_EQ(view->drafts[1].drafted, 3U);
  EXPECT_EQ(view->drafts[1].accepted, 1U);
  const auto node = read_swarm_view(replaced("\"weight_bytes\":36,", R"("weight_bytes":36,
                                             "draft_bytes":77,)"));
  ASSERT_TRUE(node.ok()) << node.error().message;
  EXPECT_EQ(node->nodes[0].draft_bytes, 77U);
  EXPECT_EQ(node->nodes[1].draft_bytes, 0U);
}

TEST(SwarmView, WhatHasNoReceipts) {
  const auto view =
      read_swarm_view(replaced("\"pipelines\":",
                               R"("ledger":{"logs":true,"ahead_seconds":86400,"free_bytes":7},
         "audits":{"agreed":0,"disputed":0,"missed":0,"waiting":0,"open_disputes":0,
                   "ended_disputes":0,"unjudged_disputes":0,"referee":{"missed":0},
                   "unreceipted":{"windows":3,"by_node":{"den":1},"by_key":{"k":3}}},
         "pipelines":)"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->ledger_ahead_seconds, 86'400);
  EXPECT_EQ(view->ledger_free_bytes, 7U);
  EXPECT_EQ(view->audits.unreceipted, 3U);
  EXPECT_EQ(view->audits.unreceipted_by_key.at("k"), 3U);
}

TEST(SwarmView, CoordinatorsOfOneStore) {
  const auto view = read_swarm_view(replaced(
      "\"pipelines\":", R"("store":{"url":"postgresql://db/h","epoch":3,"leader":{"name":"den",
         "api":"10.0.0.1:1","control":""},"standbys":[{"name":"attic","api":"","control":""}]},
         "pipelines":)"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  ASSERT_TRUE(view->store.has_value());
  EXPECT_EQ(store_text(*view->store),
            "postgresql://db/h; the coordinator on den (API 10.0.0.1:1) leads in epoch 3; standby: "
            "attic");
  SwarmView::Store alone = *view->store;
  alone.standbys.clear();
  alone.away = "it is away";
  EXPECT_TRUE(store_text(alone).ends_with("there is no standby; it is away"));
  EXPECT_FALSE(
      read_swarm_view(replaced("\"pipelines\":", R"("store":{"url":7},"pipelines":)")).ok());
}

TEST(SwarmView, WhatBecameOfAudits) {
  const auto view = read_swarm_view(
      replaced("\"pipelines\":", R"("audits":{"mode":"spot","agreed":14,"disputed":1,"missed":3,
                                 "waiting":2,"why_waiting":"no node","open_disputes":1,
                                 "ended_disputes":5,"unjudged_disputes":7,
                                 "referee":{"missed":6,"why_missed":"no room"}},
                                 "pipelines":)"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->audits.agreed, 14U);
  EXPECT_EQ(view->audits.disputed, 1U);
  EXPECT_EQ(view->audits.missed, 3U);
  EXPECT_EQ(view->audits.waiting, 2U);
  EXPECT_EQ(view->audits.why_waiting, "no node");
  EXPECT_EQ(view->audits.open_disputes, 1U);
  EXPECT_EQ(view->audits.ended_disputes, 5U);
  EXPECT_EQ(view->audits.unjudged_disputes, 7U);
  EXPECT_EQ(view->audits.referee_missed, 6U);
  EXPECT_EQ(view->audits.why_referee_missed, "no room");
  EXPECT_FALSE(
      read_swarm_view(replaced("\"pipelines\":", R"("audits":{"agreed":"many"},"pipelines":)"))
          .ok());
}

TEST(SwarmView, RefusesWhatIsNoState) {
  for (const std::string& bad :
       {std::string(), std::string("[]"), std::string("{}"), std::string("{\"ready\":true}"),
        replaced("\"ready\":false", "\"ready\":\"no\""), replaced("[10,20]", "[20,10]"),
        replaced("[10,20]", "[-1,10]"), replaced("[10,20]", "[10]"), replaced("[0,10]", "{}"),
        replaced("\"threads\":2", "\"threads\":-2"), replaced("\"threads\":2", "\"threads\":2.5"),
        replaced("\"name\":\"den\"", "\"name\":3"), replaced("\"nodes\":[", "\"nodes\":[7,"),
        replaced("\"missing\":\"no pipeline serves\"", "\"missing\":[]"),
        replaced("\"busy_ratio\":0.25", "\"busy_ratio\":\"x\"")}) {
    const auto view = read_swarm_view(bad);
    ASSERT_FALSE(view.ok()) << bad;
    EXPECT_EQ(view.error().code, ErrorCode::kInvalidInput);
  }
}

TEST(SwarmView, ReadsThatAMachineIsItsOwners) {
  EXPECT_FALSE(read_swarm_view(kState)->nodes[0].away) << "or a server of before";
  const auto view = read_swarm_view(replaced(
      "\"threads\":2",
      "\"threads\":2,\"away\":{\"drain\":true,\"until\":1700000000,\"why\":\"hearth drain\"}"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->nodes[0].away, (Away{true, 1'700'000'000, "hearth drain"}));
  const auto open = read_swarm_view(
      replaced("\"threads\":2", "\"threads\":2,\"away\":{\"drain\":false,\"until\":null}"));
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_EQ(open->nodes[0].away, Away{});
  for (const char* bad :
       {"7", "{\"until\":\"soon\"}", "{\"until\":1.5}", "{\"drain\":3}", "{\"why\":[]}"}) {
    EXPECT_FALSE(
        read_swarm_view(replaced("\"threads\":2", "\"threads\":2,\"away\":" + std::string(bad)))
            .ok())
        << bad;
  }
}

TEST(SwarmView, ReadsWhatACardSays) {
  const auto view = read_swarm_view(
      replaced("\"threads\":2",
               "\"threads\":2,\"device\":\"cuda:0\",\"card\":{\"celsius\":61,\"watts\":9.5}"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->nodes[0].device, "cuda:0");
  EXPECT_EQ(view->nodes[0].card.celsius, 61U);
  EXPECT_EQ(view->nodes[0].card.watts, 9.5);
  EXPECT_FALSE(view->nodes[0].card.busy_percent);
  EXPECT_FALSE(
      read_swarm_view(replaced("\"threads\":2", "\"threads\":2,\"card\":{\"celsius\":-1}")).ok());
  EXPECT_FALSE(read_swarm_view(replaced("\"threads\":2", "\"threads\":2,\"card\":7")).ok());
}

TEST(SwarmView, WhatIsNoNumberIsZero) {
  const auto view = read_swarm_view(replaced("\"busy_ratio\":0.25", "\"busy_ratio\":null"));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->nodes[0].busy_ratio, 0.0);
}

}  // namespace
}  // namespace hearth::client
